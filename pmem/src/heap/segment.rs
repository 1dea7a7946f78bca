//! Segments: each has slots of one size, or is part of a run that holds one large item.
//!
//! One word per segment survives. It is kept apart from the segment, so that no item's bytes can be taken for it:
//!
//! ```text
//! bits  0..8   kind: 0 free, 1 small, 2 large (the first of a run)
//!       8..16  small: size class
//!      16..40  large: segments in the run
//!      40..64  incarnation in which the segment was taken, low 24 bits
//! ```
//!
//! Everything else, above all which slots are free, is volatile. A sweep finds it again.

use super::class::SLOT_BYTES_MIN;
use crate::superblock::SEGMENT_LOG2_MAX;
use crate::sync::{AtomicU32, AtomicU64, Ordering, Zeroable};

/// Words of a bitmap: enough for the largest segment with the smallest slots.
pub(super) const BITMAP_WORDS: usize = 32;
const _: () = assert!(BITMAP_WORDS as u64 * 64 * SLOT_BYTES_MIN >= 1 << SEGMENT_LOG2_MAX);

/// A segment's surviving word, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descriptor {
    Free,
    Small { class: u8, incarnation: u64 },
    Large { segments: u32, incarnation: u64 },
}

const INCARNATION_BITS: u64 = (1 << 24) - 1;

impl Descriptor {
    pub(super) fn encode(self) -> u64 {
        match self {
            Descriptor::Free => 0,
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
    /// Not part of the heap.
    pub(in crate::heap) const NONE: u32 = 0;
    /// In the heap, unused.
    pub(in crate::heap) const FREE: u32 = 1;
    /// The first of a large item's segments.
    pub(in crate::heap) const LARGE: u32 = 2;
    /// A further one of a large item's segments.
    pub(in crate::heap) const TAIL: u32 = 3;
    /// `SMALL + class`: slots of that class.
    pub(in crate::heap) const SMALL: u32 = 16;
}

/// Who hands out a small segment's slots.
pub(super) mod status {
    /// Nobody, until a sweep has passed: a crash or a close came between.
    pub(in crate::heap) const SEALED: u32 = 0;
    /// Nobody, since it had no free slot when last looked at.
    pub(in crate::heap) const FULL: u32 = 1;
    /// Nobody; it is in its class's list of segments with free slots.
    pub(in crate::heap) const LISTED: u32 = 2;
    /// One thread.
    pub(in crate::heap) const OWNED: u32 = 3;
    /// Nobody: what lies in it is being moved elsewhere.
    pub(in crate::heap) const DRAINING: u32 = 4;
}

/// The volatile state of a segment.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct SegmentState {
    /// See [`usage`].
    pub(super) usage: AtomicU32,
    /// See [`status`].
    pub(super) status: AtomicU32,
    /// Slots of a small segment; segments of a large item.
    pub(super) count: AtomicU32,
    /// Where the surviving word is.
    pub(super) descriptor_at: AtomicU64,
    /// Bit set: the slot is free. While sealed: the slot was reached by the sweep.
    pub(super) bits: [AtomicU64; BITMAP_WORDS],
}

// SAFETY: all fields are atomic integers, for which zero is valid.
unsafe impl Zeroable for SegmentState {}

impl SegmentState {
    pub(super) fn slots(&self) -> u64 {
        u64::from(self.count.load(Ordering::Acquire))
    }

    /// Bitmap words in use.
    pub(super) fn words(&self) -> usize {
        (self.slots() as usize).div_ceil(64).min(BITMAP_WORDS)
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
        (0..self.words()).any(|index| self.bits[index].load(Ordering::SeqCst) != 0)
    }

    /// Free slots, except those in caches and magazines and those set aside.
    pub(super) fn free(&self) -> u64 {
        let free_of = |index: usize| self.bits[index].load(Ordering::Acquire).count_ones();
        (0..self.words()).map(|index| u64::from(free_of(index))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_survive_encoding_and_other_words_are_refused() {
        for descriptor in [
            Descriptor::Free,
            Descriptor::Small { class: 40, incarnation: 5 },
            Descriptor::Large { segments: 1025, incarnation: INCARNATION_BITS },
        ] {
            assert_eq!(Descriptor::decode(descriptor.encode()), Some(descriptor));
        }
        for word in [3, 0x100, 1 | 1 << 16, 2 | 1 << 8, u64::MAX] {
            assert_eq!(Descriptor::decode(word), None, "{word:#x}");
        }
    }
}
