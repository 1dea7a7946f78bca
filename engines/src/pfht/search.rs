//! Look-up (section 4.2): two buckets of the main table, then the stash.

use super::Core;
use super::layout::{Bucket, STASHED};
use crate::kit::buckets::Buckets;
use crate::kit::hash::{Hash, slots_in};
use index::{Fixed, is_same};
use pmem::{Medium, Offset};

/// Where an item is: in a slot of its bucket, or in a node of the stash that belongs to its first bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    Slot(usize),
    Node(u64),
}

impl Spot {
    /// Level and slot of its entries in the log: level 0 is the main table, a higher one tells the node.
    pub(super) fn in_log(self) -> (u32, usize) {
        match self {
            Spot::Slot(slot) => (0, slot),
            Spot::Node(node) => (1 + node as u32, 0),
        }
    }

    /// The spot that those tell.
    pub(super) fn of_log(level: u32, slot: usize) -> Spot {
        match level {
            0 => Spot::Slot(slot),
            level => Spot::Node(u64::from(level - 1)),
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Where a key is that may belong to a bucket: the stash is searched only for the first choice. And the slots on
    /// which an absence rests.
    pub(super) fn look_for(
        &self,
        bucket: u64,
        state: u64,
        key: K,
        hash: Hash,
        is_first: bool,
    ) -> (Option<Spot>, u64) {
        let (medium, at) = (self.medium(), self.at(bucket));
        let design = self.shape.design;
        let shown = if design.sidecar_prints {
            self.slots_shown(at, self.prints(bucket), key, hash.print())
        } else {
            self.bucket.full()
        };
        let has_key = |&slot: &usize| is_same(self.bucket.key(medium, at, slot), key);
        let in_slot = Bucket::<K, V>::takes(key)
            .then(|| slots_in(shown & self.bucket.in_use(medium, at)).find(has_key))
            .flatten();
        let mut spot = in_slot.map(Spot::Slot);
        if spot.is_none() && is_first && (state & STASHED != 0 || !design.sticky_bit) {
            spot = self.stash.find(medium, bucket, key).map(Spot::Node);
        }
        (spot, shown)
    }

    /// The slots where a key may be, by the fingerprints. Without one that is its own, be it in a slot that the key is
    /// just leaving, no search reports it: what one of them does, the others must. With one, a bitmap decides: the key
    /// may be on its way out, or from one slot to another.
    fn slots_shown(&self, at: Offset, prints: u64, key: K, print: u8) -> u64 {
        let shown = self.bucket.slots_with(prints, print);
        let is_its_own = |slot| is_same(self.bucket.key(self.medium(), at, slot), key);
        if Bucket::<K, V>::WORDS {
            shown
        } else if slots_in(shown).any(is_its_own) {
            self.bucket.full()
        } else {
            0
        }
    }
}
