//! Segments: each is a slab of slots of one size, or part of a wide slab, or of a run that holds one large item.
//!
//! One word per segment survives. It is kept apart from the segment ([`map`](super::map)), so that no item's bytes can
//! be taken for it:
//!
//! ```text
//! bits  0..8   kind: 0 free, 1 small (the first of a slab), 2 large (the first of a run), 3 free, and perhaps without
//!              space of the file
//!       8..16  small: size class
//!      16..40  large: segments in the run
//!      40..64  incarnation in which the segment was taken, low 24 bits
//! ```
//!
//! The words of further segments of a slab or run say nothing. Everything else, above all which slots are free, is
//! volatile. A sweep finds it again.

use super::class::SLOT_BYTES_MIN;
use crate::superblock::SEGMENT_LOG2_MAX;
use crate::sync::{Array, AtomicU32, AtomicU64, Ordering, Zeroable};
use std::io;
use std::ops::{Deref, Range};

/// Words of a bitmap: enough for the largest segment with the smallest slots.
pub(super) const BITMAP_WORDS: usize = 32;
const _: () = assert!(BITMAP_WORDS as u64 * 64 * SLOT_BYTES_MIN >= 1 << SEGMENT_LOG2_MAX);
/// Words of a bitmap that lie in one line with the rest of a segment's state.
const NEAR_WORDS: usize = 6;

/// A segment's surviving word, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descriptor {
    Free,
    Vacant,
    Small { class: u8, incarnation: u64 },
    Large { segments: u32, incarnation: u64 },
}

const INCARNATION_BITS: u64 = (1 << 24) - 1;

impl Descriptor {
    pub(super) fn encode(self) -> u64 {
        match self {
            Descriptor::Free => 0,
            Descriptor::Vacant => 3,
            Descriptor::Small { class, incarnation } => {
                1 | u64::from(class) << 8 | (incarnation & INCARNATION_BITS) << 40
            }
            Descriptor::Large { segments, incarnation } => {
                2 | u64::from(segments) << 16 | (incarnation & INCARNATION_BITS) << 40
            }
        }
    }

    /// `None` for a word that is no descriptor.
    pub(super) fn decode(word: u64) -> Option<Descriptor> {
        let incarnation = word >> 40;
        match word & 0xff {
            0 if word == 0 => Some(Descriptor::Free),
            3 if word == 3 => Some(Descriptor::Vacant),
            1 if word >> 16 & INCARNATION_BITS == 0 => {
                Some(Descriptor::Small { class: (word >> 8) as u8, incarnation })
            }
            2 if word >> 8 & 0xff == 0 => {
                let segments = (word >> 16 & INCARNATION_BITS) as u32;
                Some(Descriptor::Large { segments, incarnation })
            }
            _ => None,
        }
    }
}

/// What a segment is used for now.
pub(super) mod usage {
    /// Not part of the heap, or not [set up](super::super::adopt) since the opening.
    pub(in crate::heap) const NONE: u32 = 0;
    /// In the heap, unused.
    pub(in crate::heap) const FREE: u32 = 1;
    /// The first of a large item's segments.
    pub(in crate::heap) const LARGE: u32 = 2;
    /// A further one of a large item's segments.
    pub(in crate::heap) const TAIL: u32 = 3;
    /// In the heap, unused, and perhaps without space of the file.
    pub(in crate::heap) const VACANT: u32 = 4;
    /// A further one of a wide slab's segments.
    pub(in crate::heap) const PART: u32 = 5;
    /// `SMALL + class`: a slab of that class, or the first segment of one. All else that is kept of a slab is kept
    /// here.
    pub(in crate::heap) const SMALL: u32 = 16;
}

/// Who hands out a small segment's slots. Those of a segment below [`FULL`](status::FULL) nobody may keep.
pub(super) mod status {
    /// Nobody, until a sweep has passed: a crash or a close came between. Of a large item: as its slots.
    pub(in crate::heap) const SEALED: u32 = 0;
    /// Nobody: what lies in it is being moved elsewhere.
    pub(in crate::heap) const DRAINING: u32 = 1;
    /// Nobody, since it had no free slot when last looked at.
    pub(in crate::heap) const FULL: u32 = 2;
    /// Nobody; it is in its class's list of segments with free slots.
    pub(in crate::heap) const LISTED: u32 = 3;
    /// One thread.
    pub(in crate::heap) const OWNED: u32 = 4;
    /// It has no slots: it is free, or a large item's.
    pub(in crate::heap) const WHOLE: u32 = 5;
}

/// The volatile state of a segment, without what of its bitmap is too long for the line.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct SegmentState {
    /// See [`usage`].
    pub(super) usage: AtomicU32,
    /// See [`status`].
    pub(super) status: AtomicU32,
    /// Slots of a slab; segments of a large item; of a further segment of a slab, how many segments it is behind the
    /// first one.
    pub(super) count: AtomicU32,
    near_bits: [AtomicU64; NEAR_WORDS],
}

// SAFETY: all fields are atomic integers, for which zero is valid.
unsafe impl Zeroable for SegmentState {}

/// The volatile states of all segments.
pub(super) struct Segments {
    states: Array<SegmentState>,
    /// The rest of each bitmap. Apart, so that small segments, of which there are many, take one line each.
    far_bits: Array<AtomicU64>,
    far_words: usize,
    len: usize,
}

impl Segments {
    /// For segments of this size: `len` of them, or fewer if the system does not grant the addresses. Fails if it
    /// does not even grant `len_min`.
    pub(super) fn reserve(segment_bytes: u64, len: usize, len_min: usize) -> io::Result<Segments> {
        let slots_max = (segment_bytes / SLOT_BYTES_MIN) as usize;
        let far_words = slots_max.div_ceil(64).saturating_sub(NEAR_WORDS);
        let states = Array::reserve(len, len_min)?;
        let len = states.len();
        let far_bits = Array::reserve(len * far_words, len_min * far_words)?;
        let len = far_bits.len().checked_div(far_words).map_or(len, |has_bits| has_bits.min(len));
        Ok(Segments { states, far_bits, far_words, len })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Asks for huge pages for the states of segments that are all about to be asked for: otherwise that meets a page
    /// fault for every 64 of them. A hint.
    pub(super) fn advise(&self, segments: &Range<u64>) {
        self.states.advise(segments.start as usize..segments.end as usize, false);
    }

    #[inline(always)]
    pub(super) fn get(&self, segment: u64) -> Segment<'_> {
        Segment { state: self.states.get(segment as usize), segments: self, number: segment }
    }

    /// Hints that somebody is about to ask what a segment is used for. Prefetches only to read, since other threads
    /// ask, too.
    #[inline(always)]
    pub(super) fn prefetch(&self, segment: u64) {
        if segment < self.len as u64 {
            self.states.prefetch(segment as usize);
        }
    }
}

/// The volatile state of one segment.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    state: &'a SegmentState,
    segments: &'a Segments,
    number: u64,
}

impl Deref for Segment<'_> {
    type Target = SegmentState;

    #[inline(always)]
    fn deref(&self) -> &SegmentState {
        self.state
    }
}

impl<'a> Segment<'a> {
    /// A word of the bitmap. Bit set: the slot is free. While sealed: the slot was reached by the sweep.
    #[inline(always)]
    pub(super) fn bits(&self, word: usize) -> &'a AtomicU64 {
        match self.state.near_bits.get(word) {
            Some(bits) => bits,
            None => {
                let first = self.number as usize * self.segments.far_words;
                self.segments.far_bits.get(first + word - NEAR_WORDS)
            }
        }
    }

    pub(super) fn slots(&self) -> u64 {
        u64::from(self.count.load(Ordering::Acquire))
    }

    /// Bitmap words in use.
    pub(super) fn words(&self) -> usize {
        (self.slots() as usize).div_ceil(64).min(NEAR_WORDS + self.segments.far_words)
    }

    /// The bits of word `index` that stand for a slot.
    pub(super) fn valid_bits(&self, index: usize) -> u64 {
        let slots = self.slots() as usize;
        match slots.saturating_sub(index * 64) {
            0 => 0,
            rest if rest >= 64 => u64::MAX,
            rest => (1 << rest) - 1,
        }
    }

    pub(super) fn has_free(&self) -> bool {
        // In one total order with the status: either this sees a freed bit, or its freer sees
        // the status that this thread has just stored.
        (0..self.words()).any(|index| self.bits(index).load(Ordering::SeqCst) != 0)
    }

    /// Free slots, except those in caches and magazines and those set aside.
    pub(super) fn free(&self) -> u64 {
        let free_of = |index: usize| self.bits(index).load(Ordering::Acquire).count_ones();
        (0..self.words()).map(|index| u64::from(free_of(index))).sum()
    }

    /// Forgets the whole bitmap.
    pub(super) fn clear_bits(&self) {
        let words = NEAR_WORDS + self.segments.far_words;
        (0..words).for_each(|word| self.bits(word).store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_survive_encoding_and_other_words_are_refused() {
        for descriptor in [
            Descriptor::Free,
            Descriptor::Vacant,
            Descriptor::Small { class: 40, incarnation: 5 },
            Descriptor::Large { segments: 1025, incarnation: INCARNATION_BITS },
        ] {
            assert_eq!(Descriptor::decode(descriptor.encode()), Some(descriptor));
        }
        for word in [4, 0x103, 0x100, 1 | 1 << 16, 2 | 1 << 8, u64::MAX] {
            assert_eq!(Descriptor::decode(word), None, "{word:#x}");
        }
    }
}
