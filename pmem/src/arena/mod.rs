//! Equal segments, in which items are written one behind the other: the space of a cache.
//!
//! ```text
//! segment | state: u64 | mark: u64 | time: u64 | unused: 5 words | items, each at a multiple of 8, or index lines |
//! item    | key bytes: 17 bits | value bytes: 29 bits | sum: 18 bits | stamp: u64 | key | value |
//! ```
//!
//! The state says what a segment is for. Whoever makes one, makes what lies in it durable first. The stamp may change
//! while an item is read; all else of an item is immutable until its segment is used again.
//!
//! Items of a segment follow each other without gaps. An item's head is durable before the head of the next one is
//! written, so after a crash every item that anything leads to is found by walking over those before it.

mod bound;
mod item;

pub(crate) use bound::vacant_range;
pub use bound::{BESIDE_BYTES, CAPACITY_ROOT, SEGMENT_PARAMETER, SEGMENTS_MIN, segments_within};
pub use item::{Entry, HEAD_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX, item_bytes};

use crate::error::SpaceError;
use crate::medium::Medium;
use crate::offset::{HUGE_PAGE_BYTES, LINE, Offset};
use crate::pool::Pool;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a segment before its first item.
pub const SEGMENT_HEAD_BYTES: u64 = LINE;
/// Items begin at multiples of this.
pub const GRANULE: u64 = 8;
/// log2 of the least and the most bytes of a segment. On the crash lab's machine a few items fill one.
pub const SEGMENT_LOG2_MIN: u32 = if cfg!(feature = "simulated") { 8 } else { 12 };
/// See [`SEGMENT_LOG2_MIN`].
pub const SEGMENT_LOG2_MAX: u32 = 22;

/// The extents' owner.
const OWNER: u8 = 1;
/// From this size on a part of a huge page at the beginning does not matter.
const HUGE_PAGES_FROM: u64 = 256 << 20;
const PAGE_BYTES: u64 = 4096;
/// How many segments a pool gets at once, at least.
const GROWTH_MIN: u32 = if cfg!(feature = "simulated") { 2 } else { 16 };

/// The segments of a pool, which are numbered from 0.
#[derive(Debug)]
pub struct Arena<M: Medium> {
    pool: Arc<Pool<M>>,
    base: Offset,
    segment_log2: u32,
}

impl<M: Medium> Arena<M> {
    /// The segments of this pool, each of `1 << segment_log2` bytes. A pool that has none gets `count` of them, all
    /// zero. It may grow up to `most`.
    pub fn open(
        pool: Arc<Pool<M>>,
        segment_log2: u32,
        count: u32,
        most: u32,
    ) -> Result<Self, SpaceError> {
        let extent = match pool.extents_of(OWNER).first() {
            Some(extent) => *extent,
            None => {
                let bytes = u64::from(count) << segment_log2;
                let align = match u64::from(most) << segment_log2 {
                    HUGE_PAGES_FROM.. => HUGE_PAGE_BYTES,
                    _ => PAGE_BYTES,
                };
                pool.extend(|draft| draft.take_aligned_extent(OWNER, 0, bytes, align))?
            }
        };
        Ok(Arena { pool, base: extent.start, segment_log2 })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// Its medium.
    #[inline(always)]
    pub fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// Bytes of a segment.
    #[inline(always)]
    pub fn segment_bytes(&self) -> u64 {
        1 << self.segment_log2
    }

    /// How many segments the pool has now.
    pub fn count(&self) -> u32 {
        let bytes = self.pool.extents_of(OWNER).first().map_or(0, |extent| extent.bytes);
        u32::try_from(bytes >> self.segment_log2).unwrap_or(u32::MAX)
    }

    /// Makes the pool longer, by some segments and up to `most` in all; returns how many it has then.
    pub fn grow(&self, most: u32) -> Result<u32, SpaceError> {
        let count = self.count();
        let more = (count / 8).max(GROWTH_MIN).min(most.saturating_sub(count));
        if more > 0 {
            let bytes = u64::from(more) << self.segment_log2;
            self.pool.extend(|draft| {
                draft.lengthen_last(bytes);
                Ok(())
            })?;
        }
        Ok(count + more)
    }

    /// Gives the space of segments back to the file system, to which nothing leads.
    pub fn give_back(&self, segments: Range<u32>) {
        self.pool.give_back(self.bytes_of(segments));
    }

    /// Takes space again for segments that were given back.
    pub fn take_back(&self, segments: Range<u32>) -> Result<(), SpaceError> {
        self.pool.take_back(self.bytes_of(segments))
    }

    /// Notes that segments were given back in an earlier opening.
    pub fn note_hole(&self, segments: Range<u32>) {
        self.pool.note_hole(self.bytes_of(segments));
    }

    fn bytes_of(&self, segments: Range<u32>) -> Range<u64> {
        self.start_of(segments.start).0..self.start_of(segments.end).0
    }

    /// Where a segment begins.
    #[inline(always)]
    pub fn start_of(&self, segment: u32) -> Offset {
        self.base.add(u64::from(segment) << self.segment_log2)
    }

    /// The segment in which an item lies.
    #[inline(always)]
    pub fn segment_of(&self, at: Offset) -> u32 {
        (at.0.wrapping_sub(self.base.0) >> self.segment_log2) as u32
    }

    /// Where among all granules of the arena an item begins.
    #[inline(always)]
    pub fn granule_of(&self, at: Offset) -> u64 {
        at.0.wrapping_sub(self.base.0) / GRANULE
    }

    /// The inverse of [`Arena::granule_of`].
    #[inline(always)]
    pub fn at_granule(&self, granule: u64) -> Offset {
        self.base.add(granule.wrapping_mul(GRANULE))
    }

    /// What a segment is for, in words of the user's.
    #[inline(always)]
    pub fn state(&self, segment: u32) -> u64 {
        self.medium().load(self.start_of(segment))
    }

    /// Sets state and mark, durably. A crash may leave either without the other.
    pub fn set_state(&self, segment: u32, state: u64, mark: u64) {
        let at = self.start_of(segment);
        self.medium().store(at.word(1), mark);
        self.medium().store(at, state);
        self.medium().persist(at);
    }

    /// Notes a time in a segment's head. It is durable with the state that is set next.
    pub fn note_time(&self, segment: u32, time: u64) {
        self.medium().store(self.start_of(segment).word(2), time);
    }

    /// The time that was noted last.
    pub fn time(&self, segment: u32) -> u64 {
        self.medium().load(self.start_of(segment).word(2))
    }

    /// The mark that was set with the state.
    pub fn mark(&self, segment: u32) -> u64 {
        self.medium().load(self.start_of(segment).word(1))
    }
}
