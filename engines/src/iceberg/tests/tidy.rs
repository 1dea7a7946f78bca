//! What doublings do with pairs that spilled, and with SPILLED bits.

use super::{after_crash, after_crash_without, new_table};
use crate::iceberg::block::Locked;
use crate::iceberg::hash::{h0, spilled_bit};
use crate::iceberg::layout::{SPILLED, SPILLED_WORD};
use crate::iceberg::{Core, Iceberg, Shape};
use index::Index;
use pmem::medium::Dram;
use pmem::sync::{AtomicBool, AtomicU64, Ordering};
use pmem::{Medium, Offset};
use std::collections::HashMap;

/// A block of level 1 takes 32 keys, one of level 2 four. There are so many blocks that insertions, which move some, do
/// not end a doubling.
const SHAPE: Shape =
    Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 8, initial_nodes_log2: 5 };
/// Keys of one block. Neither it nor the two that it is split into have room for all of theirs.
const CROWD: usize = 120;

/// A table that nothing but the test resizes.
fn table() -> Iceberg<Dram> {
    new_table(&SHAPE, 1 << 26, 1.0)
}

/// Keys from `from` on whose level-1 block has a number with these low bits.
fn keys_of(core: &Core<Dram>, from: u64, mask: u64, block: u64) -> impl Iterator<Item = u64> {
    (from..).filter(move |&key| core.hasher.first_u64(key) & mask == block)
}

fn insert_all(table: &Iceberg<Dram>, keys: impl IntoIterator<Item = u64>) {
    for key in keys {
        assert_eq!(table.insert(key, !key).unwrap(), None);
    }
}

/// A table in which keys of one block are in level 2, and the keys. After a doubling, level 1 has room for them.
fn spilled() -> (Iceberg<Dram>, Vec<u64>) {
    let table = table();
    let keys: Vec<u64> = keys_of(&table.core, 1, 255, 7).take(60).collect();
    insert_all(&table, keys.iter().copied());
    (table, keys)
}

/// The bits that the keys of each block need.
fn needed(table: &Iceberg<Dram>, keys: &[u64]) -> HashMap<u64, u64> {
    let core = &table.core;
    let geometry = core.geometry();
    let mut bits: HashMap<u64, u64> = HashMap::new();
    for &key in keys {
        let first = core.hasher.first_u64(key);
        let home = geometry.home(h0(first));
        if core.find_1(home, key, first).is_none() {
            *bits.entry(home).or_default() |= spilled_bit(first);
        }
    }
    bits
}

/// The bits that are set.
fn set(table: &Iceberg<Dram>) -> HashMap<u64, u64> {
    let bits_of =
        |block| (block, table.core.line_1(block)[SPILLED_WORD].load(Ordering::Relaxed) & SPILLED);
    (0..table.core.geometry().blocks_1()).map(bits_of).filter(|&(_, bits)| bits != 0).collect()
}

fn begin(table: &Iceberg<Dram>) {
    assert!(table.core.begin_resize(table.core.geometry(), true).is_ok());
    assert!(table.core.geometry().collects_spilled());
}

/// Moves everything, so that the table is draining.
fn move_all(table: &Iceberg<Dram>) {
    let geometry = table.core.geometry();
    for family in 0..geometry.families_1() {
        assert_eq!(table.core.ensure_moved_1(geometry, family).ok(), Some(true));
    }
    let geometry = table.core.geometry();
    for family in 0..geometry.families_2() {
        assert_eq!(table.core.ensure_moved_2(geometry, family).ok(), Some(true));
    }
    assert!(table.core.geometry().is_draining());
}

/// Drains everything, so that the table is clearing.
fn drain_all(table: &Iceberg<Dram>) {
    while table.core.geometry().is_draining() {
        assert!(table.core.tidy_some(table.core.geometry()));
    }
    assert!(table.core.geometry().is_clearing());
}

fn pairs_of_level(table: &Iceberg<Dram>, level: usize) -> u64 {
    table.occupancy().levels[level].pairs
}

fn assert_holds(table: &Iceberg<Dram>, keys: &[u64]) {
    for &key in keys {
        assert_eq!(table.get(key), Some(!key), "key {key}");
    }
    let report = table.core.check();
    assert!(report.is_sound(), "{:?}", report.findings);
}

#[test]
fn a_doubling_leaves_the_bits_that_keys_need_and_no_others() {
    let table = table();
    // Key 0 is in level 3.
    let mut keys = vec![0];
    insert_all(&table, [0]);
    for doublings in 0..3u64 {
        // Crowds in some blocks, and every third key of the crowds before removed.
        let mask = table.core.geometry().blocks_1() - 1;
        for block in [0, 3, 9, mask] {
            let from = doublings << 32 | 1;
            let crowd: Vec<u64> = keys_of(&table.core, from, mask, block).take(CROWD).collect();
            insert_all(&table, crowd.iter().copied());
            keys.extend(crowd);
        }
        let mut count = 0;
        keys.retain(|&key| {
            count += 1;
            let stays = key == 0 || count % 3 != 0;
            assert!(stays || table.remove(key).unwrap().is_some());
            stays
        });
        begin(&table);
        move_all(&table);
        let spilled = pairs_of_level(&table, 1);
        drain_all(&table);
        assert!(
            (1..spilled).contains(&pairs_of_level(&table, 1)),
            "all pairs of level 2 went home"
        );
        assert_ne!(set(&table), needed(&table, &keys), "no bit is stale");
        assert!(table.core.finish_moves());
        assert_eq!(set(&table), needed(&table, &keys));
        assert_holds(&table, &keys);
    }
}

/// Pairs go home if there is room, unless a scan is open. In every state a search finds them.
#[test]
fn pairs_of_level_2_go_home() {
    let (table, keys) = spilled();
    let core = &table.core;
    let spilled = pairs_of_level(&table, 1);
    assert!(spilled > 20 && pairs_of_level(&table, 2) == 0);
    begin(&table);
    let scan = core.open_scan();
    assert!(core.finish_moves());
    assert_eq!(pairs_of_level(&table, 1), spilled, "moved under a scan");
    drop(scan);
    assert_holds(&table, &keys);
    begin(&table);
    move_all(&table);
    let mut before = spilled;
    let is_at_rest = || core.pool.superblock().is_at_rest();
    while core.geometry().is_draining() {
        assert!(!is_at_rest(), "a crash may leave a pair in two places");
        core.tidy_some(core.geometry());
        assert!(pairs_of_level(&table, 1) <= before);
        before = pairs_of_level(&table, 1);
        assert_holds(&table, &keys);
    }
    assert!(is_at_rest());
    assert_eq!((before, set(&table).is_empty()), (0, false));
    assert!(core.finish_moves());
    assert!(set(&table).is_empty());
    assert_holds(&table, &keys);
}

/// A search that has looked at level 1 when the pair is still in level 2, and at level 2 when it has gone home.
#[test]
fn a_pair_goes_home_during_a_search() {
    let (table, keys) = spilled();
    let core = &table.core;
    begin(&table);
    move_all(&table);
    let geometry = core.geometry();
    let home_of = |key| geometry.home(h0(core.hasher.first_u64(key)));
    let is_in_level_1 = |key| core.find_1(home_of(key), key, core.hasher.first_u64(key)).is_some();
    let spilled: Vec<u64> = keys.into_iter().filter(|&key| !is_in_level_1(key)).collect();
    let mut went_home = 0;
    while core.tidy_some(geometry) && core.geometry() == geometry {
        for &key in spilled.iter().filter(|&&key| is_in_level_1(key)) {
            let (first, home) = (core.hasher.first_u64(key), home_of(key));
            assert_eq!(core.search_beyond_level_1(geometry, key, first, [home; 2]), Some(!key));
            went_home += 1;
        }
    }
    assert!(went_home > 20);
}

/// Cut short between the copy and the erasure, draining leaves a pair in both levels. It must not come back when it is
/// removed.
#[test]
fn a_pair_that_a_crash_leaves_in_both_levels() {
    let (table, keys) = spilled();
    let core = &table.core;
    begin(&table);
    move_all(&table);
    let in_level_2: Vec<(Offset, u64)> = (0..core.geometry().blocks_2())
        .flat_map(|block| core.used_2(block).map(move |lane| (block, lane)))
        .map(|(block, lane)| core.slot_2(block, lane))
        .map(|slot| (slot, core.medium().load(slot)))
        .collect();
    drain_all(&table);
    assert!(in_level_2.len() > 20 && pairs_of_level(&table, 1) == 0);
    let opened = after_crash_without(&table, &in_level_2);
    assert_eq!((opened.len(), pairs_of_level(&opened, 1)), (60, 0));
    assert_holds(&opened, &keys);
    for &key in &keys {
        assert_eq!(opened.remove(key).unwrap(), Some(!key));
    }
    let again = after_crash(&opened);
    assert_eq!(again.len(), 0);
    assert_holds(&again, &[]);
}

/// Keys that go beyond level 1 at every stage of a doubling are found in the stages that follow.
#[test]
fn keys_may_spill_at_any_stage_of_a_doubling() {
    let table = table();
    let core = &table.core;
    // Key 0 is in level 3.
    let mut keys = vec![0];
    insert_all(&table, [0]);
    let spill = |keys: &mut Vec<u64>, stage: u64, block: u64| {
        let crowd: Vec<u64> = keys_of(core, stage << 32 | 1, 511, block).take(60).collect();
        insert_all(&table, crowd.iter().copied());
        keys.extend(crowd);
        assert_holds(&table, keys);
    };
    spill(&mut keys, 0, 1);
    begin(&table);
    spill(&mut keys, 1, 2);
    let geometry = core.geometry();
    assert_eq!(core.ensure_moved_1(geometry, 3).ok(), Some(true));
    spill(&mut keys, 2, 3);
    spill(&mut keys, 3, 256 + 3);
    assert_eq!(core.ensure_moved_2(geometry, 4).ok(), Some(true));
    spill(&mut keys, 4, 4);
    move_all(&table);
    spill(&mut keys, 5, 5);
    assert!(core.tidy_some(core.geometry()));
    spill(&mut keys, 6, 256 + 6);
    drain_all(&table);
    spill(&mut keys, 7, 7);
    assert!(core.tidy_some(core.geometry()));
    // One block that is cleared, and one that is not.
    spill(&mut keys, 8, 8);
    spill(&mut keys, 9, 500);
    while core.tidy_some(core.geometry()) {}
    assert!(!core.geometry().is_resizing());
    assert_holds(&table, &keys);
    spill(&mut keys, 10, 10);
    begin(&table);
    assert!(core.finish_moves());
    assert_holds(&table, &keys);
}

/// A thread that was held up in one doubling takes no blocks of a later one.
#[test]
fn a_late_thread_tidies_nothing() {
    let table = table();
    let core = &table.core;
    begin(&table);
    move_all(&table);
    let draining = core.geometry();
    drain_all(&table);
    let clearing = core.geometry();
    let is_late = |then| assert!(!core.tidy_some(then));
    is_late(draining);
    assert!(core.finish_moves());
    is_late(clearing);
    begin(&table);
    is_late(draining);
    is_late(clearing);
    move_all(&table);
    is_late(draining);
    is_late(clearing);
    drain_all(&table);
    is_late(draining);
    is_late(clearing);
    assert!(core.finish_moves());
}

/// A thread that was held up since a former table had this size takes a lock of a block that is being filled, and gives
/// it back by a store of the whole word.
#[test]
fn a_move_waits_for_a_late_thread() {
    let (table, keys) = spilled();
    begin(&table);
    let geometry = table.core.geometry();
    let core = &table.core;
    let (upper_1, upper_2) = (geometry.blocks_1() / 2, geometry.blocks_2() / 2);
    let move_1 = || _ = core.ensure_moved_1(geometry, 7);
    let move_2 = || _ = core.ensure_moved_2(geometry, 3);
    let moves: [(&AtomicU64, &(dyn Fn() + Sync)); 2] =
        [(core.flags_1(upper_1 + 7), &move_1), (core.word_2(upper_2 + 3), &move_2)];
    for (word, move_block) in moves {
        let late = Locked::attempt(word).unwrap();
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                move_block();
                assert!(has_ended.load(Ordering::SeqCst), "the move did not wait");
            });
            // A longer wait only makes a fault more likely to be found.
            (0..1000).for_each(|_| std::thread::yield_now());
            has_ended.store(true, Ordering::SeqCst);
            drop(late);
        });
    }
    move_all(&table);
    assert_holds(&table, &keys);
}
