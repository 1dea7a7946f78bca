//! Linear probing: Knuth, The Art of Computer Programming, volume 3, section 6.4; as a persistent table, Debnath et
//! al., Revisiting Hash Table Design for Phase Change Memory, sections 2.1 and 3.1.2.
//!
//! A pair lies in the first free slot from its home on, cyclically. A search goes from the home to the pair or to an
//! empty slot. What a removal leaves decides how long searches get:
//!
//! * [`Removal::Mark`], as in the paper: the slot gets a mark, which insertions reuse and at which no search ends. So
//!   the empty slots run out as pairs come and go, and in the end an unsuccessful search visits every slot.
//! * [`Removal::Shift`], Knuth's algorithm R: pairs behind the slot move back as long as that brings them nearer to
//!   their homes. Searches stay short. Each move writes a cell.
//!
//! Departures:
//!
//! 1. An insertion first checks whether the key is present, which the paper leaves open.
//! 2. A shift of more pairs than fit into the log leaves a mark instead.

use crate::region::{PAIR_BYTES, Region};
use crate::table::{EMPTY, Full, Scheme};
use index::hash::Hasher;
use pmem::{Medium, Offset};

/// The key of a slot whose pair was removed. Searches go past it.
const REMOVED: u64 = u64::MAX;

/// What a removal leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A mark.
    Mark,
    /// Nothing: pairs move back.
    Shift,
}

/// A table of `slots` slots.
pub struct LinearProbing {
    slots: u64,
    removal: Removal,
    hasher: Hasher,
}

impl LinearProbing {
    /// Slots whose keys are hashed with this seed.
    pub fn new(slots: u64, removal: Removal, seed: u64) -> Self {
        LinearProbing { slots, removal, hasher: Hasher::new(seed) }
    }

    #[inline(always)]
    fn home(&self, key: u64) -> u64 {
        scaled(self.hasher.first_u64(key), self.slots)
    }

    #[inline(always)]
    fn at<M: Medium>(region: &Region<M>, slot: u64) -> Offset {
        region.table().add(slot * PAIR_BYTES)
    }

    #[inline(always)]
    fn next(&self, slot: u64) -> u64 {
        if slot + 1 == self.slots { 0 } else { slot + 1 }
    }

    /// The slots from the home of `key` on, once around.
    #[inline(always)]
    fn probe(&self, key: u64) -> impl Iterator<Item = u64> {
        let home = self.home(key);
        (home..self.slots).chain(0..home)
    }

    /// How far behind the home of `key` a slot is.
    fn distance(&self, key: u64, slot: u64) -> u64 {
        (slot + self.slots - self.home(key)) % self.slots
    }

    /// Sets the cells that close the gap in `hole`; returns `false` if the log has no room for all of them.
    fn shift<M: Medium>(&self, region: &mut Region<M>, mut hole: u64) -> bool {
        let first = hole;
        let mut slot = self.next(hole);
        // Pairs behind `slot` are unchanged: only pairs before it have moved.
        while slot != first {
            let key = region.load_in_place(Self::at(region, slot));
            if key == EMPTY {
                break;
            }
            let gap = (slot + self.slots - hole) % self.slots;
            if key != REMOVED && self.distance(key, slot) >= gap {
                // One record is for the last hole.
                if region.records() + 1 >= region.records_max() {
                    return false;
                }
                let value = region.load_in_place(Self::at(region, slot).word(1));
                region.set_pair(Self::at(region, hole), key, value);
                hole = slot;
            }
            slot = self.next(slot);
        }
        region.set_pair(Self::at(region, hole), EMPTY, 0);
        true
    }
}

/// A hash, scaled to a number below `end`.
#[inline(always)]
pub(crate) fn scaled(hash: u64, end: u64) -> u64 {
    ((u128::from(hash) * u128::from(end)) >> 64) as u64
}

impl Scheme for LinearProbing {
    const MARKS: &'static [u64] = &[EMPTY, REMOVED];

    #[inline]
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset> {
        for slot in self.probe(key) {
            let at = Self::at(region, slot);
            match region.load(at) {
                EMPTY => return None,
                found if found == key => return Some(at),
                _ => {}
            }
        }
        None
    }

    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full> {
        let is_free = |&slot: &u64| matches!(region.load(Self::at(region, slot)), EMPTY | REMOVED);
        let slot = self.probe(key).find(is_free).ok_or(Full)?;
        region.set_pair(Self::at(region, slot), key, value);
        Ok(())
    }

    fn erase<M: Medium>(&mut self, region: &mut Region<M>, _key: u64, at: Offset) {
        let slot = (at.0 - region.table().0) / PAIR_BYTES;
        if self.removal == Removal::Mark || !self.shift(region, slot) {
            region.abandon();
            region.set_pair(at, REMOVED, 0);
        }
    }

    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset)) {
        for at in (0..self.slots).map(|slot| Self::at(region, slot)) {
            if !Self::MARKS.contains(&region.load(at)) {
                visit(at);
            }
        }
    }

    fn capacity(&self) -> u64 {
        self.slots
    }

    fn bytes(&self) -> u64 {
        self.slots * PAIR_BYTES
    }
}
