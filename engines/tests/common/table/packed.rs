//! Pairs that are not two words.

use super::{Kind, Table};
use index::{Fixed, Index};
use pmem::medium::Dram;
use std::collections::HashMap;
use workload::Random;

/// `N` bytes. If it is `LATE`, only [`Fixed::layout_bytes`] says so, as of types that learn their size at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bytes<const N: usize, const LATE: bool = false>(pub(crate) [u8; N]);

impl<const N: usize, const LATE: bool> Fixed for Bytes<N, LATE> {
    const BYTES: usize = if LATE { 1 } else { N };

    fn layout_bytes() -> usize {
        N
    }

    fn word(self, index: usize) -> u64 {
        let bytes = self.0.iter().skip(8 * index).take(8);
        bytes.rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Bytes(std::array::from_fn(|byte| word(byte / 8).to_le_bytes()[byte % 8]))
    }
}

impl<const N: usize, const LATE: bool> Bytes<N, LATE> {
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

pub(crate) type Packed<E, const K: usize, const V: usize, const LATE: bool = false> =
    Table<E, Dram, Bytes<K, LATE>, Bytes<V, LATE>>;

fn assert_equals<E: Kind, const K: usize, const V: usize, const LATE: bool>(
    table: &Packed<E, K, V, LATE>,
    model: &HashMap<Bytes<K, LATE>, Bytes<V, LATE>>,
) {
    let mut found = HashMap::new();
    table
        .index
        .for_each(&mut |key, value| {
            // During a resize an item may be met before and after its move.
            let before = found.insert(key, value);
            assert!(before.is_none_or(|before| before == value), "two values of {key:?}");
        })
        .unwrap();
    assert_eq!(&found, model);
    for (key, value) in model {
        assert_eq!(table.get(*key), Some(*value), "{key:?}");
    }
}

/// Random operations on few keys agree with a map, through growth, shrinking and reopening.
pub(crate) fn agree_with_a_map<E: Kind, const K: usize, const V: usize>(
    shape: E::Shape,
    keys: u64,
    operations: u64,
) {
    all_agree_with_a_map::<E, K, V, false>(shape, keys, operations);
}

/// The same of types that learn their size at run time.
pub(crate) fn late_ones_agree_with_a_map<E: Kind, const K: usize, const V: usize>(
    shape: E::Shape,
    keys: u64,
    operations: u64,
) {
    all_agree_with_a_map::<E, K, V, true>(shape, keys, operations);
}

fn all_agree_with_a_map<E: Kind, const K: usize, const V: usize, const LATE: bool>(
    shape: E::Shape,
    keys: u64,
    operations: u64,
) {
    let mut table = Packed::<E, K, V, LATE>::new(shape, 0.85);
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
