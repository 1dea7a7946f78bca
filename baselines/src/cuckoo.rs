//! Bucketized cuckoo hashing: Pagh and Rodler, Journal of Algorithms 51 (2004); with buckets of several slots and more
//! than two functions as in Debnath et al., Revisiting Hash Table Design for Phase Change Memory, sections 2.1 and
//! 3.1.2: cuckoo-2-4, cuckoo-2-8 and cuckoo-3-4 (functions, slots).
//!
//! A pair lies in one of the buckets that two or three functions choose for its key. Buckets of 4 slots are a line. An
//! insertion takes an empty slot of a bucket chosen at random, or else of another of its buckets. If all are full, it
//! puts its pair in the place of a pair chosen at random, and inserts that one into its other buckets in turn: a random
//! walk. After 512 displacements the table counts as full. The whole walk is one transaction, so a walk that fails
//! leaves the table as it was, and so does a crash.
//!
//! An insertion writes one cell, and one more for each pair that is displaced. A slot that the walk meets twice is
//! written once.
//!
//! Departure: the paper does not say whether its functions may choose one bucket twice. Here they may.

use crate::dice::Dice;
use crate::region::{PAIR_BYTES, Region};
use crate::table::{EMPTY, Full, Scheme};
use index::hash::{Hasher, h1, h2};
use pmem::{Medium, Offset};

/// Most functions.
const FUNCTIONS_MAX: usize = 3;

/// Buckets of slots.
pub struct Cuckoo {
    functions: usize,
    bucket_slots: u64,
    buckets: u64,
    moves_max: u64,
    hasher: Hasher,
    dice: Dice,
}

impl Cuckoo {
    /// A table of at least `slots` slots.
    pub fn new(functions: usize, bucket_slots: u64, slots: u64, moves_max: u64, seed: u64) -> Self {
        let functions = functions.clamp(2, FUNCTIONS_MAX);
        let buckets = slots.div_ceil(bucket_slots).max(1);
        let hasher = Hasher::new(seed);
        Cuckoo { functions, bucket_slots, buckets, moves_max, hasher, dice: Dice::new(seed) }
    }

    /// The bucket that each function chooses.
    #[inline(always)]
    fn choices(&self, key: u64) -> [u64; FUNCTIONS_MAX] {
        let second = self.hasher.second_u64(key);
        let third = if self.functions == 3 { h1(self.hasher.first_u64(key)) } else { 0 };
        [h1(second), h2(second), third].map(|hash| (hash * self.buckets) >> 32)
    }

    #[inline(always)]
    fn slots<M: Medium>(&self, region: &Region<M>, bucket: u64) -> impl Iterator<Item = Offset> {
        let first = region.table().add(bucket * self.bucket_slots * PAIR_BYTES);
        (0..self.bucket_slots).map(move |slot| first.add(slot * PAIR_BYTES))
    }

    /// An empty slot. A slot that the current transaction has set was full before, and still is.
    fn empty<M: Medium>(&self, region: &Region<M>, bucket: u64) -> Option<Offset> {
        self.slots(region, bucket).find(|&at| region.load_in_place(at) == EMPTY)
    }
}

impl Scheme for Cuckoo {
    const MARKS: &'static [u64] = &[EMPTY];

    #[inline]
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset> {
        let choices = self.choices(key);
        choices[..self.functions]
            .iter()
            .find_map(|&bucket| self.slots(region, bucket).find(|&at| region.load(at) == key))
    }

    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full> {
        let (mut pair, mut from) = ((key, value), None);
        for _ in 0..=self.moves_max {
            let all = self.choices(pair.0);
            let mut choices = [0; FUNCTIONS_MAX];
            let mut count = 0;
            for &bucket in all[..self.functions].iter().filter(|&&bucket| Some(bucket) != from) {
                choices[count] = bucket;
                count += 1;
            }
            if count == 0 {
                // All functions choose the bucket from which it was displaced.
                (choices[0], count) = (all[0], 1);
            }
            let first = self.dice.below(count as u64) as usize;
            choices[..count].rotate_left(first);
            let empty = choices[..count].iter().find_map(|&bucket| self.empty(region, bucket));
            if let Some(at) = empty {
                region.set_pair(at, pair.0, pair.1);
                return Ok(());
            }
            let slot = self.dice.below(self.bucket_slots) as usize;
            let Some(at) = self.slots(region, choices[0]).nth(slot) else { return Err(Full) };
            let victim = region.load_pair(at);
            region.set_pair(at, pair.0, pair.1);
            (pair, from) = (victim, Some(choices[0]));
        }
        Err(Full)
    }

    fn erase<M: Medium>(&mut self, region: &mut Region<M>, _key: u64, at: Offset) {
        region.set_pair(at, EMPTY, 0);
    }

    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset)) {
        for bucket in 0..self.buckets {
            self.slots(region, bucket).filter(|&at| region.load(at) != EMPTY).for_each(&mut *visit);
        }
    }

    fn capacity(&self) -> u64 {
        self.buckets * self.bucket_slots
    }

    fn bytes(&self) -> u64 {
        self.capacity() * PAIR_BYTES
    }
}
