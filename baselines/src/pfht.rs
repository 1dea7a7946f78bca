//! PFHT as its paper has it: Debnath et al., Revisiting Hash Table Design for Phase Change Memory, section 4.
//!
//! ```text
//!  buckets of slots: key, value       16 bytes each
//!  stash: chains
//! ```
//!
//! A pair lies in one of two buckets, or in the stash. An insertion takes an empty slot of the emptier bucket; if they
//! are equally full, of one chosen at random. If both are full, it moves one pair of theirs to that pair's other
//! bucket, if that has an empty slot. Otherwise the new pair goes to the stash. At most one pair moves, so an insertion
//! writes one or two cells, or four in the stash.
//!
//! The engine of this name in firndex needs no log, has fingerprints, and grows. This is the table that the paper
//! measured: every change is a transaction of the log that all classic tables have.
//!
//! Departures:
//!
//! 1. The paper does not say whether its functions may choose one bucket twice. Here they may.
//! 2. The load factor is based on the slots of the buckets; the stash comes on top of them.

use crate::chained::Chains;
use crate::dice::Dice;
use crate::region::{PAIR_BYTES, Region};
use crate::table::{EMPTY, Full, Scheme};
use index::hash::{Hasher, h1, h2};
use pmem::{LINE, Medium, Offset};

/// Slots of a bucket: two lines (section 4.1).
pub const BUCKET_SLOTS: u64 = 8;
/// Cells of a transaction: a pair that moves and the new one, or what the stash writes.
pub(crate) const RECORDS_MAX: u64 = 4;

/// Buckets, and the stash.
pub struct Pfht {
    bucket_slots: u64,
    buckets: u64,
    stash: Chains,
    hasher: Hasher,
    dice: Dice,
}

impl Pfht {
    /// A table of at least `slots` slots, and a stash of `stash` pairs.
    pub fn new(bucket_slots: u64, slots: u64, stash: u64, seed: u64) -> Self {
        let bucket_slots = bucket_slots.max(1);
        let buckets = slots.div_ceil(bucket_slots).max(1);
        // As many lists as nodes, so that they are short.
        let stash = Chains::new(main_bytes(buckets * bucket_slots), stash, stash, seed);
        Pfht { bucket_slots, buckets, stash, hasher: Hasher::new(seed), dice: Dice::new(seed) }
    }

    /// The bucket that each function chooses.
    #[inline(always)]
    fn choices(&self, key: u64) -> [u64; 2] {
        let hash = self.hasher.second_u64(key);
        [h1(hash), h2(hash)].map(|hash| (hash * self.buckets) >> 32)
    }

    #[inline(always)]
    fn slots<M: Medium>(&self, region: &Region<M>, bucket: u64) -> impl Iterator<Item = Offset> {
        let first = region.table().add(bucket * self.bucket_slots * PAIR_BYTES);
        (0..self.bucket_slots).map(move |slot| first.add(slot * PAIR_BYTES))
    }

    /// Its empty slots: how many, and the first.
    fn room<M: Medium>(&self, region: &Region<M>, bucket: u64) -> (usize, Option<Offset>) {
        let mut empty = self.slots(region, bucket).filter(|&at| region.load(at) == EMPTY);
        let first = empty.next();
        (usize::from(first.is_some()) + empty.count(), first)
    }

    /// A pair of these buckets whose other bucket has an empty slot: where it is, what it is, where it may go.
    fn movable<M: Medium>(
        &self,
        region: &Region<M>,
        buckets: [u64; 2],
    ) -> Option<(Offset, (u64, u64), Offset)> {
        let movable = |bucket: u64, at: Offset| {
            let pair = region.load_pair(at);
            let [one, other] = self.choices(pair.0);
            let alternative = if one == bucket { other } else { one };
            Some((at, pair, self.room(region, alternative).1?))
        };
        let of_bucket = |bucket| self.slots(region, bucket).find_map(|at| movable(bucket, at));
        buckets.into_iter().find_map(of_bucket)
    }
}

/// Bytes of the buckets, up to the stash.
fn main_bytes(slots: u64) -> u64 {
    (slots * PAIR_BYTES).next_multiple_of(LINE)
}

impl Scheme for Pfht {
    const MARKS: &'static [u64] = &[EMPTY];

    #[inline]
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset> {
        let in_bucket = |bucket| self.slots(region, bucket).find(|&at| region.load(at) == key);
        let found = self.choices(key).into_iter().find_map(in_bucket);
        if found.is_some() || self.stash.is_empty() { found } else { self.stash.find(region, key) }
    }

    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full> {
        let buckets = self.choices(key);
        let [(count, one), (other_count, other)] = buckets.map(|bucket| self.room(region, bucket));
        let takes_one = count > other_count || (count == other_count && self.dice.below(2) == 0);
        let empty = if takes_one { one.or(other) } else { other.or(one) };
        if let Some(at) = empty {
            region.set_pair(at, key, value);
            return Ok(());
        }
        let Some((at, moved, destination)) = self.movable(region, buckets) else {
            return self.stash.place(region, key, value);
        };
        // The last cell is written first where there is no log.
        region.set_pair(at, key, value);
        region.set_pair(destination, moved.0, moved.1);
        Ok(())
    }

    fn erase<M: Medium>(&mut self, region: &mut Region<M>, key: u64, at: Offset) {
        if self.stash.has(region, at) {
            self.stash.erase(region, key, at);
        } else {
            region.set_pair(at, EMPTY, 0);
        }
    }

    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset)) {
        for bucket in 0..self.buckets {
            self.slots(region, bucket).filter(|&at| region.load(at) != EMPTY).for_each(&mut *visit);
        }
        self.stash.for_each(region, visit);
    }

    fn check<M: Medium>(&self, region: &Region<M>) -> Result<(), String> {
        self.stash.check(region)
    }

    fn capacity(&self) -> u64 {
        self.buckets * self.bucket_slots
    }

    fn bytes(&self) -> u64 {
        main_bytes(self.capacity()) + self.stash.bytes()
    }

    fn opened<M: Medium>(&mut self, region: &Region<M>) {
        self.stash.opened(region);
    }

    fn stashed(&self) -> u64 {
        self.stash.len()
    }
}
