//! Array hash: chained hashing whose buckets are contiguous arrays that are reallocated as they grow and shrink;
//! Askitis, Fast and Compact Hash Tables for Integer Keys (ACSC 2009), section 3; Debnath et al., Revisiting Hash Table
//! Design for Phase Change Memory, section 2.1.
//!
//! ```text
//!  directory: array, pairs in it              16 bytes for each bucket
//!  allocator: units used so far, and the last freed array of each size
//!  units: 16 bytes each, room for one pair
//! ```
//!
//! An array of *n* pairs has room for *n* rounded up to a power of two, as a general allocator would round it. An
//! insertion into a full array takes one of twice the size and copies all pairs. A removal moves the last pair into the
//! gap. If half the size suffices then, it copies all pairs into such an array instead; if there is none, it gives the
//! upper half back in place. All of this, including the allocator's words, is in one transaction, so a crash loses no
//! array.
//!
//! An array is freed by linking it: its first word names the next one. If no array of a size is free, taking one takes
//! new units, or halves a larger array. Halves are not joined again.
//!
//! Departures:
//!
//! 1. Askitis grows arrays by exactly one pair. With an allocator of fixed sizes that would leave most of the memory in
//!    arrays of sizes that nobody needs.
//! 2. An array has at most [`PAIRS_MAX`] pairs, since all of them are copied in one transaction.

use crate::linear_probing::scaled;
use crate::region::{PAIR_BYTES, Region};
use crate::table::{Full, Scheme};
use index::hash::Hasher;
use pmem::{LINE, Medium, Offset, WORD};

/// Most pairs of an array.
pub const PAIRS_MAX: u64 = 64;
/// Sizes of arrays: 1, 2, 4 and so on.
const SIZES: u64 = PAIRS_MAX.ilog2() as u64 + 1;
/// Most cells of a transaction: all pairs, the new one, directory, and the allocator's words for each size.
pub(crate) const RECORDS_MAX: u64 = PAIRS_MAX + 2 + 2 * SIZES;
/// No array.
const NONE: u64 = 0;

/// Buckets, and units for their arrays.
pub struct ArrayHash {
    slots: u64,
    buckets: u64,
    units: u64,
    hasher: Hasher,
}

/// A bucket's array: the number of its first unit, from 1 on, and its number of pairs.
type Array = (u64, u64);

impl ArrayHash {
    /// A table that is full with about `slots` pairs. It has twice as many units, since arrays are larger than their
    /// pairs.
    pub fn new(slots: u64, buckets: u64, seed: u64) -> Self {
        ArrayHash { slots, buckets, units: 2 * slots, hasher: Hasher::new(seed) }
    }

    fn directory<M: Medium>(region: &Region<M>, bucket: u64) -> Offset {
        region.table().add(bucket * PAIR_BYTES)
    }

    #[inline]
    fn bucket(&self, key: u64) -> u64 {
        scaled(self.hasher.first_u64(key), self.buckets)
    }

    /// Where the allocator's words are: units used so far, then the freed arrays of each size.
    fn allocator<M: Medium>(&self, region: &Region<M>) -> Offset {
        Self::directory(region, self.buckets)
    }

    fn freed<M: Medium>(&self, region: &Region<M>, size_log2: u64) -> Offset {
        self.allocator(region).word(1 + size_log2)
    }

    fn unit<M: Medium>(&self, region: &Region<M>, number: u64) -> Offset {
        let words = ((1 + SIZES) * WORD).next_multiple_of(LINE);
        self.allocator(region).add(words + (number - 1) * PAIR_BYTES)
    }

    /// Sets the cells that take an array of this size.
    fn take<M: Medium>(&self, region: &mut Region<M>, size_log2: u64) -> Result<u64, Full> {
        if size_log2 == SIZES {
            return Err(Full);
        }
        let head = self.freed(region, size_log2);
        let array = region.load(head);
        if array != NONE {
            region.set_word(head, region.load(self.unit(region, array)));
            return Ok(array);
        }
        let used = region.load(self.allocator(region));
        if used + (1 << size_log2) <= self.units {
            region.set_word(self.allocator(region), used + (1 << size_log2));
            return Ok(used + 1);
        }
        let twice = self.take(region, size_log2 + 1)?;
        self.give(region, twice + (1 << size_log2), size_log2);
        Ok(twice)
    }

    /// Sets the cells that give an array back.
    fn give<M: Medium>(&self, region: &mut Region<M>, array: u64, size_log2: u64) {
        let head = self.freed(region, size_log2);
        region.set_word(self.unit(region, array), region.load(head));
        region.set_word(head, array);
    }

    fn array<M: Medium>(&self, region: &Region<M>, bucket: u64) -> Array {
        region.load_pair(Self::directory(region, bucket))
    }

    /// Where each of an array's pairs lies.
    fn pairs<M: Medium>(
        &self,
        region: &Region<M>,
        (array, pairs): Array,
    ) -> impl Iterator<Item = Offset> + use<M> {
        let first = self.unit(region, array.max(1));
        (0..pairs).map(move |pair| first.add(pair * PAIR_BYTES))
    }
}

/// log2 of the room of an array of `pairs` pairs; `None` for no pairs.
fn size_log2(pairs: u64) -> Option<u64> {
    (pairs > 0).then(|| u64::from(pairs.next_power_of_two().ilog2()))
}

impl Scheme for ArrayHash {
    const MARKS: &'static [u64] = &[];

    #[inline]
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset> {
        let array = self.array(region, self.bucket(key));
        self.pairs(region, array).find(|&at| region.load(at) == key)
    }

    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full> {
        let bucket = self.bucket(key);
        let (array, pairs) = self.array(region, bucket);
        if pairs == PAIRS_MAX {
            return Err(Full);
        }
        let (before, after) = (size_log2(pairs), size_log2(pairs + 1));
        let mut grown = array;
        if let Some(size) = after.filter(|_| before != after) {
            grown = self.take(region, size)?;
            for pair in 0..pairs {
                let (key, value) = region.load_pair(self.unit(region, array + pair));
                region.set_pair(self.unit(region, grown + pair), key, value);
            }
            if let Some(size) = before {
                self.give(region, array, size);
            }
        }
        region.set_pair(self.unit(region, grown + pairs), key, value);
        region.set_pair(Self::directory(region, bucket), grown, pairs + 1);
        Ok(())
    }

    fn erase<M: Medium>(&mut self, region: &mut Region<M>, key: u64, at: Offset) {
        let bucket = self.bucket(key);
        let (array, pairs) = self.array(region, bucket);
        let last = self.unit(region, array + pairs - 1);
        // Read before its unit may be given back.
        let last_pair = region.load_pair(last);
        let smaller = match (size_log2(pairs), size_log2(pairs - 1)) {
            (Some(size), None) => {
                self.give(region, array, size);
                NONE
            }
            (Some(before), Some(size)) if before != size => match self.take(region, size) {
                Ok(smaller) => {
                    for pair in 0..pairs - 1 {
                        let from = self.unit(region, array + pair);
                        let (key, value) =
                            if from == at { last_pair } else { region.load_pair(from) };
                        region.set_pair(self.unit(region, smaller + pair), key, value);
                    }
                    self.give(region, array, before);
                    smaller
                }
                Err(Full) => {
                    self.give(region, array + (1 << size), size);
                    array
                }
            },
            _ => array,
        };
        if smaller == array && at != last {
            region.set_pair(at, last_pair.0, last_pair.1);
        }
        region.set_pair(Self::directory(region, bucket), smaller, pairs - 1);
    }

    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset)) {
        for bucket in 0..self.buckets {
            self.pairs(region, self.array(region, bucket)).for_each(&mut *visit);
        }
    }

    fn check<M: Medium>(&self, region: &Region<M>) -> Result<(), String> {
        let mut owners = vec![0u32; self.units as usize];
        let mut own = |array: u64, size: u64| {
            let units = owners.get_mut(array as usize - 1..(array - 1 + (1 << size)) as usize);
            units.map(|units| units.iter_mut().for_each(|owners| *owners += 1))
        };
        for bucket in 0..self.buckets {
            let (array, pairs) = self.array(region, bucket);
            if let Some(size) = size_log2(pairs)
                && own(array, size).is_none()
            {
                return Err(format!("bucket {bucket} has array {array} of {pairs} pairs"));
            }
        }
        for size in 0..SIZES {
            let mut array = region.load(self.freed(region, size));
            for _ in 0..=self.units {
                if array == NONE {
                    break;
                }
                if own(array, size).is_none() {
                    return Err(format!("free array {array} of size {size} is no array"));
                }
                array = region.load(self.unit(region, array));
            }
        }
        let used = region.load(self.allocator(region));
        let is_right = |(unit, &owners): (u64, &u32)| owners == u32::from(unit < used);
        match (0..).zip(&owners).position(|unit| !is_right(unit)) {
            None => Ok(()),
            Some(unit) => {
                Err(format!("unit {unit} of {used} used ones has {} owners", owners[unit]))
            }
        }
    }

    fn capacity(&self) -> u64 {
        self.slots
    }

    fn bytes(&self) -> u64 {
        self.buckets * PAIR_BYTES
            + ((1 + SIZES) * WORD).next_multiple_of(LINE)
            + self.units * PAIR_BYTES
    }
}
