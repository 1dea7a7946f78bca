//! SPILLED bits after doublings.

use super::new_table;
use crate::iceberg::hash::{h0, spilled_bit};
use crate::iceberg::layout::{SPILLED, SPILLED_WORD};
use crate::iceberg::{Core, Iceberg, Shape};
use index::Index;
use pmem::medium::Dram;
use pmem::sync::Ordering;
use std::collections::HashMap;

/// A block of level 1 takes 32 keys, one of level 2 four. There are so many blocks that insertions, which move some, do
/// not end a doubling.
const SHAPE: Shape =
    Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 8, initial_nodes_log2: 5 };
/// Keys of one block, which has no room for all.
const CROWD: usize = 60;

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
    let bits_of = |block| {
        (block, table.core.line_1(block)[SPILLED_WORD].load(Ordering::Relaxed) & SPILLED)
    };
    (0..table.core.geometry().blocks_1()).map(bits_of).filter(|&(_, bits)| bits != 0).collect()
}

fn begin(table: &Iceberg<Dram>) {
    assert!(table.core.begin_resize(table.core.geometry(), true).is_ok());
    assert!(table.core.geometry().collects_spilled());
}

/// Moves everything, so that the table is clearing.
fn move_all(table: &Iceberg<Dram>) {
    let geometry = table.core.geometry();
    for family in 0..geometry.families_1() {
        assert_eq!(table.core.ensure_moved_1(geometry, family).ok(), Some(true));
    }
    let geometry = table.core.geometry();
    for family in 0..geometry.families_2() {
        assert_eq!(table.core.ensure_moved_2(geometry, family).ok(), Some(true));
    }
    assert!(table.core.geometry().is_clearing());
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
        // Crowds in some blocks, and every other key of the crowds before removed.
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
            let stays = key == 0 || count % 2 == 0;
            assert!(stays || table.remove(key).unwrap().is_some());
            stays
        });
        begin(&table);
        move_all(&table);
        assert_ne!(set(&table), needed(&table, &keys), "no bit is stale");
        assert!(table.core.finish_moves());
        assert_eq!(set(&table), needed(&table, &keys));
        assert_holds(&table, &keys);
    }
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
        let crowd: Vec<u64> = keys_of(core, stage << 32 | 1, 511, block).take(CROWD).collect();
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
    assert!(core.clear_some(core.geometry()));
    // One block that is cleared, and one that is not.
    spill(&mut keys, 6, 6);
    spill(&mut keys, 7, 500);
    while core.clear_some(core.geometry()) {}
    assert!(!core.geometry().is_resizing());
    assert_holds(&table, &keys);
    spill(&mut keys, 8, 8);
    begin(&table);
    assert!(core.finish_moves());
    assert_holds(&table, &keys);
}

/// A thread that was held up in the clearing of one doubling takes no blocks of a later one.
#[test]
fn a_late_thread_clears_nothing() {
    let table = table();
    let core = &table.core;
    begin(&table);
    move_all(&table);
    let late = core.geometry();
    assert!(core.finish_moves());
    assert!(!core.clear_some(late));
    begin(&table);
    assert!(!core.clear_some(late));
    move_all(&table);
    assert!(!core.clear_some(late));
    assert!(core.finish_moves());
}
