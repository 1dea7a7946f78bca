//! Stores: an index that moves, splits or halves, with items of several classes behind it.

use super::choices::hash_of_word;
use super::{FILLING, one_item};
use crate::history::{Action, Key, Op};
use crate::subject::{HASH_SEED, Setup};
use index::hash::Hasher;

/// Lengths of three classes; a filler has the first one.
pub const SEVERAL_CLASSES: &[usize] = &[8, 40, 8, 100];

/// Space for the largest table of these setups, and for items.
const LIMIT_BYTES: u64 = 24 << 10;

/// The hash that chooses the buckets of a key's entry in the index: what the index keeps is a hash
/// already.
pub fn hash_of_entry(key: u64) -> u64 {
    hash_of_word(Hasher::new(HASH_SEED).first_bytes(&key.to_le_bytes()))
}

/// A setup of a store with values of these lengths.
pub fn with_items(setup: Setup, value_bytes: &'static [usize]) -> Setup {
    Setup { value_bytes, limit_bytes: LIMIT_BYTES, ..setup }
}

/// Two segments, each with one item left in it and three slots free.
pub fn sparse_segments_of_a_store(empty: &Setup) -> Setup {
    // One slot of the first segment is set aside.
    const FILLERS: [Key; 5] = [2, 3, 4, 5, 6];
    let insert = |key| Op::One(key, Action::Insert(FILLING));
    let stored = [2, 3, 0, 4, 5, 6, 1].map(insert);
    let removed = FILLERS.map(|key| Op::One(key, Action::Remove));
    let sparse = Setup {
        name: "a store of sparse segments",
        keys: (1..=7).collect(),
        free_keys: 2,
        before: stored.into_iter().chain([Op::Settle]).chain(removed).collect(),
        resize_at: 1.0,
        engine: empty.engine,
        engine_params: empty.engine_params,
        compacts: true,
        ..Setup::default()
    };
    with_items(sparse, &[8])
}

/// The same of keys that all have one hash: a moved item needs a new array of their group.
pub fn sparse_segments_of_one_hash(empty: &Setup) -> Setup {
    Setup {
        name: "a store of sparse segments whose keys have one hash",
        hash_bits: 0,
        ..sparse_segments_of_a_store(empty)
    }
}

/// One item, to be removed, in a store like an empty one.
pub fn one_item_of_a_store(empty: &Setup) -> Setup {
    let one = Setup { engine: empty.engine, engine_params: empty.engine_params, ..one_item() };
    with_items(one, &[8])
}
