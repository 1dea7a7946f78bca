//! When a table that has no room for a key does not double for it.
//!
//! Keys spread by themselves: among so many buckets for so few pairs none is full. Where one is, somebody has chosen keys
//! that share it, and knows the pool's seed. Doubling separates such keys late or never, and would fill the file.

use pmem::SpaceError;

/// A table doubles for a key without room if it has no more slots than this for each of its pairs.
///
/// Far more than keys by themselves ever need: of tables with two choices for each key, those with buckets of one slot
/// are the emptiest when a key finds no room, with some 13 slots for each of a thousand million pairs.
const SLOTS_PER_PAIR: u64 = 32;
/// ... or no more than this in all: in a small table few keys may share a bucket by chance.
const SLOTS_MIN: u64 = 1 << 12;
/// Pairs in one chain of those that a table without room elsewhere keeps in chains. By themselves a few are.
pub(crate) const CHAIN_MAX: usize = 512;

/// Whether a table with so many pairs and slots is not to double for a key that finds no room.
pub(crate) fn is_crowded(pairs: u64, slots: u64) -> bool {
    slots > SLOTS_MIN.max(pairs.saturating_mul(SLOTS_PER_PAIR))
}

/// An error if a table with so many pairs and slots is not to double for a key that finds no room.
pub(crate) fn refuse_crowd(pairs: u64, slots: u64) -> Result<(), SpaceError> {
    if is_crowded(pairs, slots) { Err(SpaceError::Crowded { pairs, slots }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_small_or_has_pairs_for_its_slots() {
        for (pairs, slots, crowded) in [
            (0, SLOTS_MIN, false),
            (0, SLOTS_MIN + 1, true),
            (1 << 20, 32 << 20, false),
            (1 << 20, (32 << 20) + 1, true),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(is_crowded(pairs, slots), crowded, "{pairs} pairs, {slots} slots");
            assert_eq!(refuse_crowd(pairs, slots).is_err(), crowded);
        }
    }
}
