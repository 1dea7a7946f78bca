//! Hits of items since they were looked at last, to decide what stays.

use pmem::arena::GRANULE;
use pmem::sync::{Array, AtomicU8, Ordering};
use std::io;

/// Most hits that count.
pub(super) const HITS_MAX: u8 = 3;
const HIT_BITS: u64 = 2;
/// Granules in which one item's hits are counted. An item has two at least, but for the shortest ones: where two begin
/// in the same granules, both have the hits of either.
const GRANULES: u64 = 32 / GRANULE;
const PER_BYTE: u64 = 8 / HIT_BITS * GRANULES;

/// Hits of each item, at the place where it begins: 2 bits for 32 bytes. A slot of a damaged pool may lead beyond all
/// of them: what is there has no hits.
///
/// A hit that is counted beside another one in the same byte may be lost. It only means that an item seems a little
/// less popular.
#[derive(Debug)]
pub(super) struct Hits(Array<AtomicU8>);

impl Hits {
    pub(super) fn new(granules: u64) -> io::Result<Hits> {
        let bytes = granules.div_ceil(PER_BYTE) as usize;
        Ok(Hits(Array::reserve(bytes, bytes)?))
    }

    fn place(granule: u64) -> (usize, u64) {
        ((granule / PER_BYTE) as usize, granule % PER_BYTE / GRANULES * HIT_BITS)
    }

    #[inline(always)]
    fn at(&self, granule: u64) -> Option<(&AtomicU8, u64)> {
        let (byte, shift) = Self::place(granule);
        (byte < self.0.len()).then(|| (self.0.get(byte), shift))
    }

    #[inline(always)]
    pub(super) fn add(&self, granule: u64) {
        let Some((byte, shift)) = self.at(granule) else { return };
        let hits = byte.load(Ordering::Relaxed);
        if hits >> shift & HITS_MAX != HITS_MAX {
            byte.store(hits.wrapping_add(1 << shift), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, granule: u64) {
        self.0.prefetch(Self::place(granule).0);
    }

    pub(super) fn of(&self, granule: u64) -> u8 {
        self.at(granule).map_or(0, |(byte, shift)| byte.load(Ordering::Relaxed) >> shift & HITS_MAX)
    }

    pub(super) fn set(&self, granule: u64, hits: u8) {
        let Some((byte, shift)) = self.at(granule) else { return };
        let others = byte.load(Ordering::Relaxed) & !(HITS_MAX << shift);
        byte.store(others | hits.min(HITS_MAX) << shift, Ordering::Relaxed);
    }

    /// Volatile bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    /// Forgets those of a range.
    pub(super) fn clear(&self, granules: std::ops::Range<u64>) {
        for byte in granules.start / PER_BYTE..granules.end.div_ceil(PER_BYTE) {
            self.0.get(byte as usize).store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_counted_up_to_three_each_by_itself() {
        let hits = Hits::new(20 * GRANULES).unwrap();
        for place in 0..20 {
            (0..place).for_each(|_| hits.add(place * GRANULES));
        }
        for place in 0..20 {
            assert_eq!(u64::from(hits.of(place * GRANULES)), place.min(3));
        }
        hits.set(9 * GRANULES, 1);
        assert_eq!((hits.of(8 * GRANULES), hits.of(9 * GRANULES)), (3, 1));
        hits.clear(8 * GRANULES..12 * GRANULES);
        let of = [7, 8, 11, 12].map(|place| hits.of(place * GRANULES));
        assert_eq!(of, [3, 0, 0, 3]);
    }
}
