//! Pairs that are not two words, and buckets of other than four slots.

use crate::harness::{NEVER, Random, Table, key, shape, value};
use engines::level::{Design, Shape};
use index::{Fixed, Index};
use pmem::medium::Dram;
use pmem::{LINE, OpenError};
use std::collections::HashMap;

/// `N` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bytes<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Fixed for Bytes<N> {
    const BYTES: usize = N;

    fn word(self, index: usize) -> u64 {
        let bytes = self.0.iter().skip(8 * index).take(8);
        bytes.rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Bytes(std::array::from_fn(|byte| word(byte / 8).to_le_bytes()[byte % 8]))
    }
}

impl<const N: usize> Bytes<N> {
    /// Always the same bytes for a number: all zeros, all ones, or any.
    pub(crate) fn of(number: u64) -> Self {
        let mut random = Random::new(number << 8);
        Bytes(match number {
            0 => [0; N],
            1 => [0xff; N],
            _ => std::array::from_fn(|_| random.word() as u8),
        })
    }
}

type Packed<const K: usize, const V: usize> = Table<Dram, Bytes<K>, Bytes<V>>;

fn assert_equals<const K: usize, const V: usize>(
    table: &Packed<K, V>,
    model: &HashMap<Bytes<K>, Bytes<V>>,
) {
    let mut found = HashMap::new();
    table.index.for_each(&mut |key, value| {
        // During a resize an item may be met before and after its move.
        let before = found.insert(key, value);
        assert!(before.is_none_or(|before| before == value), "two values of {key:?}");
    });
    assert_eq!(&found, model);
    for (key, value) in model {
        assert_eq!(table.get(*key), Some(*value), "{key:?}");
    }
}

/// Random operations on few keys agree with a map, through growth, shrinking and reopening.
fn agree_with_a_map<const K: usize, const V: usize>(shape: Shape, keys: u64, operations: u64) {
    let mut table = Packed::<K, V>::new(shape, 0.85);
    let mut model = HashMap::new();
    let mut random = Random::new(operations);
    for round in 0..operations {
        // Few at first, so that one bucket is written to again and again.
        let reach = keys.min(8 + round / 8);
        let (key, new) = (Bytes::of(random.below(reach)), Bytes::of(random.below(1 << 20)));
        let there = model.get(&key).copied();
        match random.below(8) {
            0 | 1 => {
                assert_eq!(table.insert(key, new).unwrap(), there);
                model.entry(key).or_insert(new);
            }
            2 | 3 => {
                assert_eq!(table.update(key, new), there);
                model.entry(key).and_modify(|value| *value = new);
            }
            4 | 5 => assert_eq!(table.upsert(key, new), model.insert(key, new)),
            6 => assert_eq!(table.remove(key), model.remove(&key)),
            _ => assert_eq!(table.get(key), there),
        }
        if round < 400 || round % 512 == 0 {
            assert_equals(&table, &model);
        }
        if round % 2048 == 2047 {
            table = table.recovered(&table.image());
            assert_equals(&table, &model);
            table.settle();
            table.assert_sound(model.len() as u64);
        }
    }
    table.shrink();
    table.settle();
    assert_equals(&table, &model);
    table.assert_sound(model.len() as u64);
}

/// The ways to update: in place, into an empty slot, with a log entry.
fn designs() -> [Design; 3] {
    let all = Design::default();
    let moved = Design { in_place_update: false, ..all };
    [all, moved, Design { log_free_update: false, ..moved }]
}

fn every_design_agrees_with_a_map<const K: usize, const V: usize>(slots: u32, keys: u64) {
    for design in designs() {
        agree_with_a_map::<K, V>(Shape { design, ..shape(slots, 1) }, keys, 6000);
    }
}

#[test]
fn four_pairs_of_16_and_15_bytes_are_two_lines() {
    let table = Packed::<16, 15>::new(shape(4, 6), NEVER);
    for level in &table.occupancy().levels[..2] {
        assert_eq!(level.pool_bytes, level.slots / 4 * 2 * LINE, "{level:?}");
    }
    every_design_agrees_with_a_map::<16, 15>(4, 1200);
}

#[test]
fn pairs_of_odd_sizes_agree_with_a_map() {
    every_design_agrees_with_a_map::<1, 1>(4, 250);
    every_design_agrees_with_a_map::<3, 5>(4, 1200);
    every_design_agrees_with_a_map::<24, 100>(4, 1200);
    every_design_agrees_with_a_map::<4, 8>(7, 1200);
    every_design_agrees_with_a_map::<8, 1>(5, 1200);
    every_design_agrees_with_a_map::<9, 7>(8, 1200);
    every_design_agrees_with_a_map::<500, 4>(1, 300);
}

#[test]
fn pairs_of_whole_words_agree_with_a_map() {
    every_design_agrees_with_a_map::<8, 8>(4, 1200);
    every_design_agrees_with_a_map::<16, 32>(4, 1200);
    every_design_agrees_with_a_map::<24, 8>(3, 1200);
}

#[test]
fn keys_without_values_are_a_set() {
    every_design_agrees_with_a_map::<8, 0>(4, 1200);
    every_design_agrees_with_a_map::<5, 0>(4, 1200);
}

#[test]
fn any_number_of_slots_agrees_with_a_map() {
    for slots in 1..=8 {
        every_design_agrees_with_a_map::<8, 8>(slots, 600);
    }
}

fn error_of<const K: usize, const V: usize>(slots: u32) -> Option<OpenError> {
    Packed::<K, V>::try_new(shape(slots, 2), 0.85).err()
}

#[test]
fn pairs_that_do_not_fit_a_bucket_are_refused() {
    let is_refused = |error: Option<OpenError>| matches!(error, Some(OpenError::Corrupt { .. }));
    assert!(is_refused(error_of::<24, 100>(5)), "620 bytes in all");
    assert!(is_refused(error_of::<8, 56>(8)), "512 bytes, and the tokens");
    assert!(is_refused(error_of::<512, 1>(1)));
    assert!(is_refused(error_of::<4096, 8>(1)), "a key longer than any bucket");
    assert!(is_refused(error_of::<0, 8>(4)), "no key at all");
    assert!(is_refused(error_of::<8, 8>(0)), "no slots");
    assert!(is_refused(error_of::<8, 8>(9)), "more slots than tokens");
    // As much as there is room for.
    assert!(error_of::<8, 55>(8).is_none());
    assert!(error_of::<500, 8>(1).is_none());
    assert!(error_of::<500, 4>(1).is_none());
}

#[test]
fn one_slot_and_eight_slots_grow_and_are_recovered() {
    for slots in [1, 8] {
        let table = Table::<Dram>::new(shape(slots, 1), 0.85);
        table.fill(0..20_000);
        table.assert_holds(0..20_000);
        let again = table.recovered(&table.image());
        for index in (0..20_000).step_by(2) {
            assert_eq!(again.remove(key(index)), Some(value(index)));
        }
        again.assert_holds((1..20_000).step_by(2));
    }
}
