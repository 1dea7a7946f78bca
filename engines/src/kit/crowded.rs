//! When a table that has no room for a key does not double for it.
//!
//! Keys spread by themselves: among so many buckets for so few pairs none is full. Where one is, somebody has chosen
//! keys that share it, and knows the pool's seed. Doubling separates such keys late or never, and would fill the file.

use pmem::SpaceError;

/// A table doubles for a key without room if it has no more slots than this for each of its pairs. Keys by themselves
/// find room in much fuller ones.
const SLOTS_PER_PAIR: u64 = 16;
/// The same where a bucket has one slot, or nothing is moved to make room. Of a thousand million pairs with two choices
/// each, one finds both taken, and nothing to be moved, with 181 slots for each. In buckets of two slots where nothing
/// is ever moved, one of sixteen million finds no room with 16.
const LONE_SLOTS_PER_PAIR: u64 = 1 << 10;
/// ... or no more than this in all: in a small table few keys may share a bucket by chance.
const SLOTS_MIN: u64 = 1 << 12;
/// Pairs in one chain of those that a table without room elsewhere keeps in chains. By themselves a few are.
pub(crate) const CHAIN_MAX: usize = 512;

/// How a table makes room for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Slots of a bucket.
    pub of_bucket: u32,
    /// Whether a key whose buckets are full has a way out: an item is moved, or another place takes the key.
    pub has_way_out: bool,
}

/// An error if a table with so many pairs and slots is not to double for a key without room.
pub(crate) fn refuse_crowd(pairs: u64, slots: u64, room: Room) -> Result<(), SpaceError> {
    let is_lone = room.of_bucket == 1 || !room.has_way_out;
    let per_pair = if is_lone { LONE_SLOTS_PER_PAIR } else { SLOTS_PER_PAIR };
    let is_crowded = slots > SLOTS_MIN.max(pairs.saturating_mul(per_pair));
    if is_crowded { Err(SpaceError::Crowded { pairs, slots }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_small_or_has_pairs_for_its_slots() {
        for (pairs, slots, of_bucket, has_way_out, crowded) in [
            (0, SLOTS_MIN, 8, true, false),
            (0, SLOTS_MIN + 1, 8, true, true),
            (1 << 20, 16 << 20, 2, true, false),
            (1 << 20, (16 << 20) + 1, 2, true, true),
            (1 << 20, (16 << 20) + 1, 1, true, false),
            (1 << 20, (16 << 20) + 1, 2, false, false),
            (1 << 20, (1 << 30) + 1, 1, true, true),
            (1 << 20, (1 << 30) + 1, 2, false, true),
            (u64::MAX, u64::MAX, 8, true, false),
        ] {
            let room = Room { of_bucket, has_way_out };
            let refused = refuse_crowd(pairs, slots, room).is_err();
            assert_eq!(refused, crowded, "{pairs} pairs, {slots} slots, {room:?}");
        }
    }
}
