//! Shrinks that find no room, that a crash cuts short, and that meet scans.

use super::{PLACE, after_crash, after_crash_without, copy_of, new_table};
use crate::iceberg::hash::h0;
use crate::iceberg::layout::{LEVEL_1, LEVEL_2};
use crate::iceberg::{Iceberg, Shape};
use index::hash::{h1, h2};
use index::{Index, Shrunk};
use pmem::medium::Dram;
use pmem::{Medium, Offset, OpenError, Pool, WORD};
use std::collections::HashMap;
use std::sync::Arc;

const SHAPE: Shape =
    Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 2, initial_nodes_log2: 5 };

const LARGE: u64 = 1 << 26;

fn value_of(key: u64) -> u64 {
    !key
}

/// A table whose levels have doubled, with keys for whose three hashes `fits` holds: `count` of them, or as many as it
/// has room for.
fn doubled(
    shape: &Shape,
    limit_bytes: u64,
    count: usize,
    fits: impl Fn([u64; 3]) -> bool,
) -> (Iceberg<Dram>, Vec<u64>) {
    let table = new_table(shape, limit_bytes, 2.0);
    let geometry = table.core.geometry();
    table.core.begin_resize(geometry, true).unwrap();
    assert!(table.core.finish_moves());
    let hasher = table.core.hasher;
    let hashes = |key: u64| {
        let second = hasher.second_u64(key);
        [h0(hasher.first_u64(key)), h1(second), h2(second)]
    };
    let candidates = (1..).filter(|&key| fits(hashes(key))).take(count);
    let keys = candidates.take_while(|&key| table.insert(key, value_of(key)).is_ok()).collect();
    (table, keys)
}

fn begin_shrink(table: &Iceberg<Dram>) {
    assert!(table.core.begin_shrink(table.core.geometry()).unwrap());
}

#[track_caller]
fn assert_holds(table: &Iceberg<Dram>, keys: &[u64]) {
    let report = table.core.check();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.pairs, keys.len() as u64);
    for &key in keys {
        assert_eq!(table.get(key), Some(value_of(key)), "key {key}");
    }
    let mut met: HashMap<u64, usize> = HashMap::new();
    table.for_each(&mut |key, _| *met.entry(key).or_default() += 1).unwrap();
    assert_eq!(met, keys.iter().map(|&key| (key, 1)).collect());
}

fn pairs_of_levels(table: &Iceberg<Dram>) -> Vec<u64> {
    table.occupancy().levels.iter().map(|level| level.pairs).collect()
}

/// A helper may record the end of the last resize at that moment.
#[test]
fn a_shrink_waits_for_who_holds_up_its_beginning() {
    let (table, keys) = doubled(&SHAPE, LARGE, 20, |_| true);
    std::thread::scope(|scope| {
        let held = table.core.beginning.lock();
        let shrinking = scope.spawn(|| table.core.shrink().unwrap());
        // Whether it gets that far by then or not, it must halve the table.
        let looks = 0..50;
        looks.take_while(|_| !shrinking.is_finished()).for_each(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
        });
        drop(held);
        assert_eq!(shrinking.join().unwrap(), Shrunk::Halved);
    });
    assert_holds(&table, &keys);
}

/// A level-1 family has more pairs than a block has slots.
#[test]
fn what_level_1_has_no_room_for_goes_to_level_3() {
    let (table, keys) = doubled(&SHAPE, LARGE, 50, |[home, ..]| home & 3 == 1);
    assert_eq!(pairs_of_levels(&table), [50, 0, 0]);
    begin_shrink(&table);
    assert!(table.core.finish_moves());
    assert_eq!(table.core.geometry().blocks_1(), 4);
    assert_eq!(pairs_of_levels(&table), [32, 0, 18]);
    assert_holds(&table, &keys);
    assert_holds(&after_crash(&table), &keys);
}

/// Cut short between the copies and the erasures, a shrink leaves pairs in two places. Some of level 1 are in nodes.
#[test]
fn pairs_that_a_crash_leaves_in_two_places() {
    // All keys are of one family in level 1, and of one family in level 2.
    let (crowded_1, keys_1) = doubled(&SHAPE, LARGE, 50, |[home, ..]| home & 3 == 1);
    let (crowded_2, keys_2) = crowded_in_level_2();
    for (table, keys) in [(crowded_1, keys_1), (crowded_2, keys_2)] {
        let geometry = table.core.geometry();
        let slots_1 = (4..geometry.blocks_1())
            .flat_map(|block| (0..32).map(move |lane| (block, lane)))
            .map(|(block, lane)| table.core.slot_1(block, lane));
        let slots_2 = (4..geometry.blocks_2())
            .flat_map(|block| (0..4).map(move |lane| (block, lane)))
            .map(|(block, lane)| table.core.slot_2(block, lane));
        let keys_in_upper_blocks: Vec<(Offset, u64)> = slots_1
            .chain(slots_2)
            .map(|slot| (slot, table.core.medium().load(slot)))
            .filter(|&(_, key)| key != 0)
            .collect();
        begin_shrink(&table);
        let shrinking = table.core.geometry();
        // One family, which has nothing to move, stays unmoved, so the old size is still on record.
        assert_eq!(table.core.ensure_moved_1(shrinking, 1).ok(), Some(true));
        assert_eq!(table.core.move_family_2(shrinking, 2).ok(), Some(true));
        assert!(table.core.geometry() == shrinking && pairs_of_levels(&table)[2] > 0);
        let opened = after_crash_without(&table, &keys_in_upper_blocks);
        assert_eq!(opened.core.geometry().blocks_1(), geometry.blocks_1());
        assert_holds(&opened, &keys);
        // Once more, with the nodes that recovery has freed.
        assert_holds(&after_crash(&opened), &keys);
    }
}

/// Keys fill two blocks of level 1, and then a family of level 2.
fn crowded_in_level_2() -> (Iceberg<Dram>, Vec<u64>) {
    // The first choice leads to the upper block or to the lower one; the second choice is the same block.
    doubled(&SHAPE, LARGE, 39, |[home, first, second]| {
        home & 7 == 5 && first & 3 == 2 && first & 7 == second & 7
    })
}

#[test]
fn what_level_2_has_no_room_for_goes_to_level_3() {
    let (table, keys) = crowded_in_level_2();
    let [_, in_2, in_3] = pairs_of_levels(&table)[..] else { panic!("three levels") };
    assert!(in_2 > 4, "{in_2} pairs, which one block would hold");
    begin_shrink(&table);
    assert!(table.core.finish_moves());
    assert_eq!(pairs_of_levels(&table), [32, 4, in_3 + in_2 - 4]);
    assert_holds(&table, &keys);
    assert_holds(&after_crash(&table), &keys);
}

/// No pair leaves level 2 during a scan; afterwards pairs may.
#[test]
fn level_2_waits_for_scans() {
    let (table, keys) = crowded_in_level_2();
    begin_shrink(&table);
    let before = pairs_of_levels(&table);
    let mut scan = table.scan();
    assert!(!table.core.finish_moves());
    assert!(table.core.geometry().shrinking_2() && !table.core.geometry().shrinking_1());
    assert_eq!(pairs_of_levels(&table)[1..], before[1..]);
    let mut pairs = Vec::new();
    while scan.take_some(&mut pairs).unwrap() {}
    drop(scan);
    let mut met: Vec<u64> = pairs.iter().map(|&(key, _)| key).collect();
    met.sort_unstable();
    assert_eq!(met, keys);
    assert!(table.core.finish_moves());
    assert_holds(&table, &keys);
}

/// Wherever a shrink stands, a scan meets every pair once, even if the shrink goes on during the scan.
#[test]
fn scans_amid_a_shrink() {
    for count in [30, 100] {
        for done in 0..8 {
            let (table, keys) = doubled(&SHAPE, LARGE, count, |_| true);
            begin_shrink(&table);
            table.core.move_next(done);
            assert_holds(&table, &keys);
            let (mut met, mut visits) = (Vec::new(), 0);
            table
                .for_each(&mut |key, _| {
                    met.push(key);
                    visits += 1;
                    if visits % 10 == 0 {
                        table.core.move_next(1);
                    }
                })
                .unwrap();
            met.sort_unstable();
            assert_eq!(met, keys, "{done} families done");
            assert!(table.core.finish_moves());
            assert_holds(&table, &keys);
        }
    }
}

/// Half of level 2 would be too full, though half of the table has room.
#[test]
fn a_full_level_2_is_not_halved() {
    let (table, keys) = doubled(&SHAPE, LARGE, 42, |[home, ..]| home & 7 == 5);
    assert_eq!(pairs_of_levels(&table)[0], 32);
    assert_eq!(table.shrink().unwrap(), Shrunk::Kept);
    assert_holds(&table, &keys);
    let (kept, removed) = keys.split_at(38);
    removed.iter().for_each(|&key| assert!(table.remove(key).unwrap().is_some()));
    assert_eq!(table.shrink().unwrap(), Shrunk::Halved);
    assert_holds(&table, kept);
}

#[test]
fn no_shrink_begins_beside_a_scan() {
    let (table, keys) = doubled(&SHAPE, LARGE, 20, |_| true);
    let scan = table.scan();
    assert_eq!(table.shrink().unwrap(), Shrunk::Kept);
    drop(scan);
    assert_eq!(table.shrink().unwrap(), Shrunk::Halved);
    assert_holds(&table, &keys);
}

/// Whether a copy of the pool, closed in this state, can be opened without writing to it.
fn opens_to_read(table: &Iceberg<Dram>) -> bool {
    let closed = Pool::open(copy_of(table.core.medium()), PLACE).unwrap();
    closed.close().unwrap();
    let pool = Pool::open_read_only(copy_of(closed.medium()), PLACE).unwrap();
    let bytes = |pool: &Pool<Dram>| -> Vec<u64> {
        let words = pool.medium().size() / WORD;
        (0..words).map(|word| pool.medium().load(Offset(0).word(word))).collect()
    };
    let (pool, before) = (Arc::new(pool), bytes(&closed));
    let opened = Iceberg::open(Arc::clone(&pool), table.core.settings);
    assert!(bytes(&pool) == before, "written to");
    match opened {
        Ok(_) => true,
        Err(OpenError::NeedsRecovery) => false,
        Err(other) => panic!("{other}"),
    }
}

/// The pool has no room for nodes, so pairs stay in the upper blocks. All operations find them there, and no pair is in
/// the way when a crash takes the shrink back.
#[test]
fn without_room_a_shrink_waits() {
    const NODELESS: Shape = Shape { initial_log2: 4, initial_nodes_log2: 0, ..SHAPE };
    let size = doubled(&NODELESS, LARGE, 0, |_| true).0.core.pool.superblock().end;
    // Both levels of one family are full, and level 3 has all its nodes.
    let fits = |[home, first, second]: [u64; 3]| {
        home & 15 == 1 && first & 15 == 2 && first & 31 == second & 31
    };
    let (table, keys) = doubled(&NODELESS, size, 2000, fits);
    let [in_1, in_2, _] = pairs_of_levels(&table)[..] else { panic!("three levels") };
    assert!(in_1 > 32 && in_2 > 4 && keys.len() < 2000, "{in_1}, {in_2} pairs");
    begin_shrink(&table);
    // A helper has nothing to do either.
    assert!(!table.core.move_next(64) && !table.core.finish_moves());
    assert!(table.core.geometry().shrinking_1() && table.core.geometry().shrinking_2());
    assert_holds(&table, &keys);
    let other = (keys.last().unwrap() + 1..).find(|key| !keys.contains(key)).unwrap();
    assert_eq!(table.get(other), None);
    for &key in &keys {
        assert_eq!(table.upsert(key, 1).unwrap(), Some(value_of(key)));
        assert_eq!(table.insert(key, 2).unwrap(), Some(1));
        assert_eq!(table.upsert(key, value_of(key)).unwrap(), Some(1));
    }
    assert_holds(&table, &keys);
    assert_holds(&after_crash(&table), &keys);
    // Pairs come and go in blocks that the shrink cannot empty, until it can.
    let (mut kept, mut refused, mut unreadable) = (keys.clone(), 0, 0);
    while kept.len() > 20 {
        let key = kept.swap_remove(kept.len() / 2);
        assert_eq!(table.remove(key).unwrap(), Some(value_of(key)));
        refused += u32::from(table.insert(key, value_of(key)).is_err());
        if table.get(key).is_some() {
            assert_eq!(table.remove(key).unwrap(), Some(value_of(key)));
        }
        assert_holds(&table, &kept);
        assert_holds(&after_crash(&table), &kept);
        unreadable += u32::from(!opens_to_read(&table));
    }
    assert!(refused > 0, "a new pair has always found room");
    assert!(unreadable > 0, "a pool with moved pairs was never opened without writing");
    assert!(table.core.finish_moves());
    assert_eq!((table.core.geometry().blocks_1(), table.core.geometry().blocks_2()), (16, 16));
    assert_holds(&table, &kept);
    assert_holds(&after_crash(&table), &kept);
}

/// The second choice of some keys led them to a block that becomes their first choice when the table shrinks. Then the
/// table grows again.
#[test]
fn choices_that_become_one() {
    // The first choice is the upper block of a family, the second one the lower one.
    let (table, keys) = doubled(&SHAPE, LARGE, 38, |[home, first, second]| {
        home & 7 == 5 && first & 7 == 6 && second & 7 == 2
    });
    assert_eq!(pairs_of_levels(&table), [32, 6, 0]);
    let removed = keys[0..24].iter().chain(&keys[32..34]);
    removed.for_each(|&key| assert!(table.remove(key).unwrap().is_some()));
    let kept: Vec<u64> = keys[24..32].iter().chain(&keys[34..]).copied().collect();
    assert_eq!(table.shrink().unwrap(), Shrunk::Halved);
    assert_holds(&table, &kept);
    kept.iter().for_each(|&key| {
        assert_eq!(table.upsert(key, 0).unwrap(), Some(value_of(key)));
        assert_eq!(table.upsert(key, value_of(key)).unwrap(), Some(0));
    });
    let geometry = table.core.geometry();
    table.core.begin_resize(geometry, true).unwrap();
    assert!(table.core.finish_moves());
    assert_holds(&table, &kept);
}

/// Extents stay for a table that grows again, and the pool can be opened with them.
#[test]
fn a_table_grows_into_what_a_shrink_has_left() {
    let (table, keys) = doubled(&SHAPE, LARGE, 20, |_| true);
    assert_eq!(table.shrink().unwrap(), Shrunk::Halved);
    let extents = |table: &Iceberg<Dram>| {
        [LEVEL_1, LEVEL_2].map(|owner| table.core.pool.extents_of(owner).len())
    };
    assert_eq!(extents(&table), [2, 2]);
    for table in [&after_crash(&table), &table] {
        assert_eq!(table.core.geometry().blocks_1(), 4);
        assert_holds(table, &keys);
        let geometry = table.core.geometry();
        table.core.begin_resize(geometry, true).unwrap();
        assert!(table.core.finish_moves());
        assert_eq!(table.core.geometry().blocks_1(), 8);
        assert_eq!(extents(table), [2, 2]);
        assert_holds(table, &keys);
        assert_holds(&after_crash(table), &keys);
    }
}

/// After each family, a crash that keeps all stores takes the shrink back.
#[test]
fn a_shrink_that_a_crash_cuts_short() {
    for done in 0..=8 {
        let (table, keys) = doubled(&SHAPE, LARGE, 100, |_| true);
        begin_shrink(&table);
        table.core.move_next(done);
        let (before, opened) = (table.core.geometry(), after_crash(&table));
        let geometry = opened.core.geometry();
        // A level that is done is not taken back.
        assert_eq!([geometry.blocks_1(), geometry.blocks_2()], [before.span_1(), before.span_2()]);
        assert_eq!(before.is_resizing(), done < 8);
        assert_holds(&opened, &keys);
        assert_holds(&table, &keys);
    }
}
