//! Stores: an index that moves, splits or halves, with items of several classes behind it.

use super::choices::hash_of_word;
use super::one_item;
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

/// One item, to be removed, in a store like an empty one.
pub fn one_item_of_a_store(empty: &Setup) -> Setup {
    let one = Setup { engine: empty.engine, engine_params: empty.engine_params, ..one_item() };
    with_items(one, &[8])
}
