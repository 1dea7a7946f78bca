//! Hopscotch hashing: Herlihy, Shavit and Tzafrir, DISC 2008, section 2; with a stash, Debnath et al., Revisiting Hash
//! Table Design for Phase Change Memory, section 3.1.2.
//!
//! ```text
//!  slots: key, value                                             16 bytes each
//!  bitmaps: bit n of word s: slot s + n has a pair of home s      8 bytes each
//!  stash: chains
//! ```
//!
//! A pair lies within a neighbourhood of 64 slots from its home on, cyclically, and its home's bitmap says where. An
//! insertion takes the nearest empty slot. While that is too far away, a pair moves there that lies before it and whose
//! neighbourhood reaches it, and leaves an empty slot nearer to the home. If there is no such pair, the new pair goes
//! to the stash. An empty stash is not searched.
//!
//! An insertion writes two cells, slot and bitmap, and two more for each pair that moves: its new slot, and its home's
//! bitmap. The old slot is written by the pair that comes there next. In the write-heavy workload the paper counts
//! twice as many writes for moves, as if each were an insertion and a removal.
//!
//! Departures:
//!
//! 1. The paper does not say how far it looks for an empty slot. Here at most [`Hopscotch::new`]'s `moves_max` pairs
//!    move, since all of them are in one transaction.
//! 2. The load factor is based on the slots; the stash comes on top of them.

use crate::chained::Chains;
use crate::linear_probing::scaled;
use crate::region::{PAIR_BYTES, Region};
use crate::table::{EMPTY, Full, Scheme};
use index::hash::Hasher;
use pmem::{LINE, Medium, Offset, WORD};

/// Most slots of a neighbourhood: the bits of a word.
pub const NEIGHBOURS_MAX: u64 = 64;

/// Slots with their bitmaps, and the stash.
pub struct Hopscotch {
    slots: u64,
    neighbours: u64,
    moves_max: u64,
    stash: Chains,
    hasher: Hasher,
}

impl Hopscotch {
    /// A table with a stash of `stash` pairs.
    pub fn new(slots: u64, neighbours: u64, stash: u64, moves_max: u64, seed: u64) -> Self {
        let neighbours = neighbours.min(NEIGHBOURS_MAX).min(slots);
        // As many lists as nodes, so that they are short.
        let stash = Chains::new(main_bytes(slots), stash, stash, seed);
        Hopscotch { slots, neighbours, moves_max, stash, hasher: Hasher::new(seed) }
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
    fn bitmap<M: Medium>(&self, region: &Region<M>, home: u64) -> Offset {
        region.table().add(slots_bytes(self.slots)).word(home)
    }

    /// The slot `distance` slots behind another.
    #[inline(always)]
    fn behind(&self, slot: u64, distance: u64) -> u64 {
        let sum = slot + distance;
        if sum < self.slots { sum } else { sum - self.slots }
    }

    /// Sets the cells that move a pair into the empty slot `distance` behind `home`, from as far before it as possible.
    /// Returns the distance of the slot that is empty then.
    fn hop<M: Medium>(&self, region: &mut Region<M>, home: u64, distance: u64) -> Option<u64> {
        let empty = self.behind(home, distance);
        for back in (1..self.neighbours).rev() {
            let other = self.behind(empty, self.slots - back);
            let bitmap = region.load(self.bitmap(region, other));
            let bit = u64::from(bitmap.trailing_zeros());
            // There is no such pair, or none before the empty slot.
            if bit >= back {
                continue;
            }
            let from = Self::at(region, self.behind(other, bit));
            let (key, value) = region.load_pair(from);
            region.set_pair(Self::at(region, empty), key, value);
            region.set_word(self.bitmap(region, other), bitmap & !(1 << bit) | 1 << back);
            return Some(distance - back + bit);
        }
        None
    }

    /// Sets the cells that store a pair in its neighbourhood; returns `false` if that is impossible.
    fn place_near<M: Medium>(&self, region: &mut Region<M>, key: u64, value: u64) -> bool {
        let home = self.home(key);
        let reach = self.slots.min(self.neighbours.saturating_mul(self.moves_max + 1));
        let is_empty =
            |&distance: &u64| region.load(Self::at(region, self.behind(home, distance))) == EMPTY;
        let Some(mut distance) = (0..reach).find(is_empty) else { return false };
        let mut moves = 0;
        while distance >= self.neighbours {
            match self.hop(region, home, distance).filter(|_| moves < self.moves_max) {
                Some(nearer) => distance = nearer,
                None => return false,
            }
            moves += 1;
        }
        let bitmap = self.bitmap(region, home);
        region.set_pair(Self::at(region, self.behind(home, distance)), key, value);
        region.set_word(bitmap, region.load(bitmap) | 1 << distance);
        true
    }
}

/// Bytes of the slots, up to the bitmaps.
fn slots_bytes(slots: u64) -> u64 {
    (slots * PAIR_BYTES).next_multiple_of(LINE)
}

/// Bytes of slots and bitmaps, up to the stash.
fn main_bytes(slots: u64) -> u64 {
    slots_bytes(slots) + (slots * WORD).next_multiple_of(LINE)
}

/// Cells of a transaction that moves `moves_max` pairs: slots and bitmaps.
pub(crate) fn records_max(moves_max: u64) -> u64 {
    2 * (moves_max + 1)
}

impl Scheme for Hopscotch {
    const MARKS: &'static [u64] = &[EMPTY];

    #[inline]
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset> {
        let home = self.home(key);
        let mut bitmap = region.load(self.bitmap(region, home));
        while bitmap != 0 {
            let at = Self::at(region, self.behind(home, u64::from(bitmap.trailing_zeros())));
            if region.load(at) == key {
                return Some(at);
            }
            bitmap &= bitmap - 1;
        }
        if self.stash.is_empty() { None } else { self.stash.find(region, key) }
    }

    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full> {
        if self.place_near(region, key, value) {
            return Ok(());
        }
        region.abandon();
        self.stash.place(region, key, value)
    }

    fn erase<M: Medium>(&mut self, region: &mut Region<M>, key: u64, at: Offset) {
        if self.stash.has(region, at) {
            return self.stash.erase(region, key, at);
        }
        let (home, slot) = (self.home(key), (at.0 - region.table().0) / PAIR_BYTES);
        let distance = (slot + self.slots - home) % self.slots;
        let bitmap = self.bitmap(region, home);
        region.set_pair(at, EMPTY, 0);
        region.set_word(bitmap, region.load(bitmap) & !(1 << distance));
    }

    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset)) {
        for at in (0..self.slots).map(|slot| Self::at(region, slot)) {
            if region.load(at) != EMPTY {
                visit(at);
            }
        }
        self.stash.for_each(region, visit);
    }

    fn check<M: Medium>(&self, region: &Region<M>) -> Result<(), String> {
        let (mut taken, mut marked) = (0, 0);
        for slot in 0..self.slots {
            taken += u32::from(region.load(Self::at(region, slot)) != EMPTY);
            let bitmap = region.load(self.bitmap(region, slot));
            if bitmap.checked_shr(self.neighbours as u32).is_some_and(|beyond| beyond != 0) {
                return Err(format!("slot {slot}'s bitmap {bitmap:#x} reaches too far"));
            }
            marked += bitmap.count_ones();
        }
        // Each pair is found by a bit, so if the numbers are equal, there is no bit too many.
        if taken != marked {
            return Err(format!("{taken} slots are taken, {marked} are in bitmaps"));
        }
        self.stash.check(region)
    }

    fn capacity(&self) -> u64 {
        self.slots
    }

    fn bytes(&self) -> u64 {
        main_bytes(self.slots) + self.stash.bytes()
    }

    fn opened<M: Medium>(&mut self, region: &Region<M>) {
        self.stash.opened(region);
    }

    fn stashed(&self) -> u64 {
        self.stash.len()
    }
}
