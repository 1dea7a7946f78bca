//! The index: which item a key has.
//!
//! Segments of the index are lines of eight slots. A key's hash names two lines of a segment, and the key is in one of
//! them. The directory says which segment, by the lowest bits of the tag.
//!
//! ```text
//! slot | place of an item, in granules: 40 bits | tag, the highest 24 bits of the hash |    0: empty
//! ```
//!
//! A slot that is empty is filled by a compare-exchange. One that is not changes only under its key's lock. Whoever
//! splits or moves a segment holds all locks.

use pmem::arena::{Arena, SEGMENT_HEAD_BYTES};
use pmem::medium::Medium;
use pmem::sync::{Array, AtomicU32, Ordering};
use pmem::{LINE, Offset, WORD};
use std::io;

/// Slots of a line.
pub(super) const SLOTS: u64 = LINE / WORD;
const PLACE_BITS: u32 = 40;
/// Bits of a tag, and so the most that a directory can go by.
pub(super) const TAG_BITS: u32 = 64 - PLACE_BITS;
/// Makes the second line's number from the hash.
const SECOND: u64 = 0x9fb2_1c65_1e98_df25;

pub(super) const fn tag_of(hash: u64) -> u64 {
    hash >> PLACE_BITS
}

/// The slot that leads to an item at this granule.
pub(super) const fn slot_of(granule: u64, hash: u64) -> u64 {
    granule & ((1 << PLACE_BITS) - 1) | tag_of(hash) << PLACE_BITS
}

pub(super) const fn granule_in(slot: u64) -> u64 {
    slot & ((1 << PLACE_BITS) - 1)
}

pub(super) const fn tag_in(slot: u64) -> u64 {
    slot >> PLACE_BITS
}

/// Which slots of a line are such, a bit for each. All of them are looked at, without a branch.
#[inline(always)]
pub(super) fn slots_that(line: &[u64; SLOTS as usize], are: impl Fn(u64) -> bool) -> u32 {
    let mut found = 0;
    for (number, slot) in line.iter().enumerate() {
        found |= u32::from(are(*slot)) << number;
    }
    found
}

/// The numbers of the slots that are found.
#[inline(always)]
pub(super) fn numbers_in(mut found: u32) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let number = found.trailing_zeros();
        found &= found.wrapping_sub(1);
        (number < u32::BITS).then_some(number.into())
    })
}

/// A part of the index: all tags whose lowest `depth` bits are `prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) depth: u32,
    pub(super) prefix: u32,
}

impl Part {
    /// All keys.
    pub(super) const WHOLE: Part = Part { depth: 0, prefix: 0 };

    /// The two halves of it.
    pub(super) fn halves(self) -> [Part; 2] {
        let depth = self.depth + 1;
        [Part { depth, ..self }, Part { depth, prefix: self.prefix | 1 << self.depth }]
    }

    pub(super) fn has(self, tag: u64) -> bool {
        tag & ((1 << self.depth) - 1) == u64::from(self.prefix)
    }
}

/// Which segment has which part of the index.
#[derive(Debug)]
pub(super) struct Directory {
    segments: Array<AtomicU32>,
    bits: u32,
}

impl Directory {
    /// One for an index of up to `segments_max` segments.
    pub(super) fn new(segments_max: u32) -> io::Result<Self> {
        // Parts differ in depth by one or two, since keys are spread evenly.
        let bits = (segments_max.max(1).ilog2() + 3).min(TAG_BITS);
        let len = 1 << bits;
        Ok(Directory { segments: Array::reserve(len, len)?, bits })
    }

    /// The segment with the part that has this hash.
    #[inline(always)]
    pub(super) fn segment(&self, hash: u64) -> u32 {
        self.of_place(tag_of(hash) as usize & ((1 << self.bits) - 1))
    }

    /// Whether such a part can be told from others.
    pub(super) fn can_name(&self, part: Part) -> bool {
        part.depth <= self.bits
    }

    /// The entries that are for a part.
    pub(super) fn places(&self, part: Part) -> impl ExactSizeIterator<Item = usize> + use<> {
        let step = 1usize << part.depth.min(self.bits);
        (part.prefix as usize..1 << self.bits).step_by(step)
    }

    /// The segment that has a part, if a single one has all of it.
    pub(super) fn only_segment(&self, part: Part) -> Option<u32> {
        let mut places = self.places(part).map(|place| self.of_place(place));
        let first = places.next()?;
        places.all(|other| other == first).then_some(first)
    }

    /// Whether the first keys of a part are in this segment.
    pub(super) fn begins_in(&self, part: Part, segment: u32) -> bool {
        self.of_place(part.prefix as usize) == segment
    }

    #[inline(always)]
    fn of_place(&self, place: usize) -> u32 {
        self.segments.get(place).load(Ordering::Acquire)
    }

    /// From now on this segment has the part.
    pub(super) fn set(&self, part: Part, segment: u32) {
        for place in self.places(part) {
            self.segments.get(place).store(segment, Ordering::Release);
        }
    }
}

/// Lines of a segment that have slots.
pub(super) fn lines_of<M: Medium>(arena: &Arena<M>) -> u64 {
    (arena.segment_bytes() - SEGMENT_HEAD_BYTES) / LINE
}

/// A line of a segment, by its number.
pub(super) fn line_of<M: Medium>(arena: &Arena<M>, segment: u32, line: u64) -> Offset {
    arena.start_of(segment).add(SEGMENT_HEAD_BYTES + line * LINE)
}

/// The two lines of a segment in which a key with this hash can be. They may be the same.
#[inline(always)]
pub(super) fn lines_with<M: Medium>(arena: &Arena<M>, segment: u32, hash: u64) -> [Offset; 2] {
    let lines = lines_of(arena);
    let at = |part: u64| line_of(arena, segment, (part * lines) >> 32);
    [at(hash & u64::from(u32::MAX)), at(hash.wrapping_mul(SECOND) >> 32)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_is_in_one_half() {
        let mut parts = vec![Part::WHOLE];
        for _ in 0..5 {
            parts = parts.into_iter().flat_map(Part::halves).collect();
        }
        for tag in [0, 1, 31, 32, 0xff_ffff, 0xabc] {
            assert_eq!(parts.iter().filter(|part| part.has(tag)).count(), 1);
        }
    }

    #[test]
    fn the_directory_leads_to_the_deepest_part() {
        let directory = Directory::new(8).unwrap();
        let [low, high] = Part::WHOLE.halves();
        directory.set(Part::WHOLE, 1);
        directory.set(high, 2);
        directory.set(low.halves()[1], 3);
        let with_tag = |tag: u64| directory.segment(tag << PLACE_BITS);
        assert_eq!([0b00, 0b01, 0b10, 0b11, 0b101].map(with_tag), [1, 2, 3, 2, 2]);
    }

    #[test]
    fn a_slot_has_place_and_tag() {
        let hash = 0xfedc_ba98_7654_3210;
        let slot = slot_of(0xff_1234_5678, hash);
        assert_eq!((granule_in(slot), tag_in(slot)), (0xff_1234_5678, 0xfe_dcba));
    }
}
