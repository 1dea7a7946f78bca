//! Look-up (section 4.2): two buckets of the main table, then the stash.

use super::Core;
use super::layout::{Bucket, LOCK, STASHED, WRITING};
use super::stash::Stash;
use crate::kit::doubling::{Doubles, Hash, SPAN_MAX, slots_in};
use index::{Fixed, is_same};
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

/// Where an item is: in a slot of its bucket, or in a node of the stash that belongs to its first bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    Slot(usize),
    Node(u64),
}

/// Where a key was found.
pub(super) struct Found<V> {
    pub(super) bucket: u64,
    pub(super) spot: Spot,
    pub(super) value: V,
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

/// Most buckets that a search probes.
const PROBES_MAX: usize = 2 * (SPAN_MAX as usize + 1);

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    #[cold]
    #[inline(never)]
    pub(super) fn get_slow(&self, key: K) -> Option<V> {
        self.find_slow(key, self.hash(key)).map(|found| found.value)
    }

    /// Finds a key, or that it was nowhere at one instant: none of the buckets looked at has changed since
    /// then, nor has the geometry. Both answers are durable.
    ///
    /// During a resize the key's former buckets come first: its item moves from there.
    #[cold]
    #[inline(never)]
    pub(super) fn find_slow(&self, key: K, hash: Hash) -> Option<Found<V>> {
        loop {
            let geometry = self.geometry();
            let mut seen = [(0, 0); PROBES_MAX];
            let mut count = 0;
            for log2 in geometry.places() {
                let pair = self.pair_among(log2, hash);
                for (nth, bucket) in pair.into_iter().enumerate() {
                    if seen[..count].iter().any(|&(other, _)| other == bucket) {
                        // It is the same one, or the owner has not changed.
                        continue;
                    }
                    let (found, state) = self.probe(bucket, key, hash.print(), nth == 0);
                    if let Some((spot, value)) = found {
                        return Some(Found { bucket, spot, value });
                    }
                    seen[count] = (bucket, state);
                    count += 1;
                }
            }
            fence(Ordering::Acquire);
            let is_same = |&(bucket, state): &(u64, u64)| {
                (self.state(bucket).load(Ordering::Relaxed) ^ state) & !LOCK == 0
            };
            if seen[..count].iter().all(is_same) && self.geometry() == geometry {
                return None;
            }
        }
    }

    /// What a bucket says of a key, at one instant and durably: its state did not change meanwhile. `is_first`:
    /// it is a first choice of the key, to which nodes of the stash belong.
    fn probe(&self, bucket: u64, key: K, print: u8, is_first: bool) -> (Option<(Spot, V)>, u64) {
        let (medium, at) = (self.medium(), self.at(bucket));
        let Shown { prints_decide, sticky_bit } = self.shown();
        loop {
            let (state, prints) = self.state_and_prints(bucket);
            let shown = if prints_decide {
                self.slots_shown(at, prints, key, print)
            } else {
                self.bucket.full()
            };
            let has_key = |&slot: &usize| is_same(self.bucket.key(medium, at, slot), key);
            let in_slot = Bucket::<K, V>::takes(key)
                .then(|| slots_in(shown & self.bucket.in_use(medium, at)).find(has_key))
                .flatten();
            let mut spot = in_slot.map(Spot::Slot);
            if spot.is_none() && is_first && (state & STASHED != 0 || !sticky_bit) {
                spot = self.stash.find(medium, bucket, key).map(Spot::Node);
            }
            let found = spot.map(|spot| (spot, self.value(bucket, spot, state)));
            fence(Ordering::Acquire);
            let now = self.state(bucket).load(Ordering::Relaxed);
            if (now ^ state) & !LOCK != 0 {
                continue;
            }
            let is_locked = now & LOCK != 0;
            let Some((spot, value)) = found else {
                if is_locked {
                    // Removals that may not be durable yet.
                    slots_in(shown).for_each(|slot| self.flush_use(at, slot));
                    medium.fence();
                }
                return (None, state);
            };
            let Some(value) = value else { continue };
            if is_locked {
                match spot {
                    Spot::Slot(slot) => {
                        self.flush_beyond(at, slot);
                        self.flush_use(at, slot);
                    }
                    Spot::Node(node) => {
                        medium.flush_range(self.stash.at(node), Stash::<K, V>::node_bytes());
                    }
                }
                medium.fence();
            }
            return (Some((spot, value)), state);
        }
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

    /// What of the sidecar a search goes by.
    fn shown(&self) -> Shown {
        let design = self.shape.design;
        Shown { prints_decide: design.sidecar_prints, sticky_bit: design.sticky_bit }
    }

    /// The value in a slot or a node. One that is being overwritten is read from the log, where it is, and durable,
    /// for as long as the state says so; `None` if that has just ended. The caller looks at the state again.
    fn value(&self, bucket: u64, spot: Spot, state: u64) -> Option<V> {
        let medium = self.medium();
        let in_place = || match spot {
            Spot::Slot(slot) => self.bucket.pair(medium, self.at(bucket), slot).1,
            Spot::Node(node) => self.stash.value(medium, node),
        };
        if state & WRITING == 0 {
            return Some(in_place());
        }
        // Of the items that belong to a bucket one at most: its lock is held.
        let entry = self.log.update_in(medium, bucket, |_| true)?;
        if (entry.level, entry.slot) == spot.in_log() { entry.value } else { Some(in_place()) }
    }
}

struct Shown {
    prints_decide: bool,
    sticky_bit: bool,
}
