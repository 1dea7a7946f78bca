//! Growth of the heap: by lengthening its last extent, or by another one.

use super::segment::{Descriptor, usage};
use super::{Heap, SEGMENT_LOG2_SMALL};
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::offset::{HUGE_PAGE_BYTES, LINE, Offset, WORD};
use crate::superblock::{EXTENTS_MAX, Extent, HEAP};
use crate::sync::Ordering;
use std::ops::Range;

/// A heap grows by at least this many segments.
pub(super) const GROWTH_SEGMENTS_MIN: u64 = 4;
/// Most extents of the heap: the engine must find records for its extents.
const EXTENTS_OF_HEAP_MAX: usize = EXTENTS_MAX / 2;
/// A descriptor has 24 bits for the segments of a large item.
const SEGMENTS_OF_AN_ITEM_MAX: u64 = (1 << 24) - 1;
/// A heap grows by this fraction of it, so that it takes few steps to any size.
const GROWTH_FRACTION: u64 = 4;
/// A small heap grows by this fraction, or by a segment, so that little of a small pool is unused.
const GROWTH_FRACTION_SMALL: u64 = 32;
/// A heap of small segments is small below this size.
pub(super) const SMALL_HEAP_BYTES: u64 = 4 << 20;

impl<M: Medium> Heap<M> {
    /// Adds segments, so that there is a run of at least `run` free ones.
    pub(super) fn grow(&self, run: u64) -> Result<(), SpaceError> {
        if run > SEGMENTS_OF_AN_ITEM_MAX {
            return Err(SpaceError::Full {
                needed_bytes: run << self.segment_log2,
                reason: format!("an item has at most {SEGMENTS_OF_AN_ITEM_MAX} segments"),
            });
        }
        // What a helper has added ahead counts. Otherwise it would depend on the helper's timing what a full pool
        // takes.
        let least = run.saturating_sub(self.free_tail()).max(1);
        // A nearly full file system may still have the space that is needed now.
        let mut asked = self.segments_in_need().max(least);
        loop {
            match self.add_segments(asked) {
                Err(SpaceError::Full { .. }) if asked > least => asked = (asked / 2).max(least),
                Err(refused) => return Err(refused),
                Ok(()) => {
                    self.ask_again();
                    return Ok(());
                }
            }
        }
    }

    /// Number of free segments at the end of the heap, if it can be lengthened there.
    pub(super) fn free_tail(&self) -> u64 {
        let Some(last) = self.pool.last_extent().filter(|last| last.owner == HEAP) else {
            return 0;
        };
        let end = (last.start.0 >> self.segment_log2) + self.parts(&last).0;
        let last_run = self.free_runs.lock().last();
        last_run.filter(|(first, len)| first + len == end).map_or(0, |(_, len)| len)
    }

    /// Whether a heap of so many segments is small.
    pub(super) fn is_small(&self, segments: u64) -> bool {
        self.segment_log2 == SEGMENT_LOG2_SMALL && segments << self.segment_log2 < SMALL_HEAP_BYTES
    }

    pub(super) fn segments_of_next_extent(&self) -> u64 {
        let total = self.segments_taken.load(Ordering::Relaxed);
        if self.is_small(total) {
            return (total / GROWTH_FRACTION_SMALL).max(1);
        }
        (total / GROWTH_FRACTION).max(GROWTH_SEGMENTS_MIN)
    }

    pub(super) fn extent_bytes(&self, count: u64) -> u64 {
        (count << self.segment_log2) + (count * 8).next_multiple_of(LINE)
    }

    /// Adds `count` segments: to the heap's last extent if nothing lies behind it, otherwise as a new extent. If each
    /// step took an extent, a heap that grows by little at a time, near a limit or as a file system is freed, would use
    /// up the records. The caller holds the lock for growth.
    pub(super) fn add_segments(&self, count: u64) -> Result<(), SpaceError> {
        match self.pool.last_extent() {
            Some(last) if last.owner == HEAP => self.lengthen(&last, count),
            _ => self.add_extent(count),
        }
    }

    /// Adds segments to the pool's last extent. The descriptor words lie behind all segments, so they are copied to
    /// their new place. Nobody changes one until the new place counts.
    fn lengthen(&self, last: &Extent, count: u64) -> Result<(), SpaceError> {
        let (before, _) = self.parts(last);
        let bytes = self.extent_bytes(before + count);
        self.check_reach(last.start.0 + bytes)?;
        let first = last.start.0 >> self.segment_log2;
        let describing = self.describing.lock();
        let copy_words = |longer: &Extent| {
            let (total, descriptors) = self.parts(longer);
            for index in 0..total {
                let word = if index < before {
                    self.medium().load(self.descriptor_at(first + index))
                } else {
                    Descriptor::Free.encode()
                };
                self.medium().store(descriptors.word(index), word);
            }
            self.medium().flush_range(descriptors, total * WORD);
            self.medium().fence();
        };
        let Some(longer) = self.pool.lengthen(HEAP, bytes, copy_words)? else {
            drop(describing);
            return self.add_extent(count);
        };
        let (_, descriptors) = self.parts(&longer);
        // A thread that joins runs compares where words are.
        let runs = (self.free_runs.lock(), self.vacant_runs.lock());
        self.place_descriptors(first, 0..before, descriptors);
        drop(runs);
        drop(describing);
        self.adopt_new(first, before..before + count, descriptors);
        Ok(())
    }

    /// Adds an extent of `count` segments.
    fn add_extent(&self, count: u64) -> Result<(), SpaceError> {
        let index = self.pool.extents_of(HEAP).len();
        if index >= EXTENTS_OF_HEAP_MAX {
            return Err(SpaceError::Full {
                needed_bytes: count << self.segment_log2,
                reason: format!("its heap has {EXTENTS_OF_HEAP_MAX} extents, the most it can have"),
            });
        }
        let bytes = self.extent_bytes(count);
        // Aligned to their own size, small extents would waste up to that size.
        let align = if bytes < HUGE_PAGE_BYTES { self.segment_bytes() } else { HUGE_PAGE_BYTES };
        let extent = self.pool.extend(|draft| {
            let extent = draft.take_aligned_extent(HEAP, index as u8, bytes, align)?;
            self.check_reach(extent.end()).map(|()| extent)
        })?;
        let (count, descriptors) = self.parts(&extent);
        self.adopt_new(extent.start.0 >> self.segment_log2, 0..count, descriptors);
        Ok(())
    }

    /// Whether there is volatile state for segments up to `end`.
    pub(super) fn check_reach(&self, end: u64) -> Result<(), SpaceError> {
        if end >> self.segment_log2 < self.segments.len() as u64 {
            return Ok(());
        }
        Err(self.pool.no_room_for("a larger heap", end))
    }

    /// Takes in new segments of the extent whose first segment is `first`.
    pub(super) fn adopt_new(&self, first: u64, new: Range<u64>, descriptors: Offset) {
        self.place_descriptors(first, new.clone(), descriptors);
        let count = new.end - new.start;
        for segment in first + new.start..first + new.end {
            self.state(segment).usage.store(usage::FREE, Ordering::Release);
        }
        self.segments_taken.fetch_add(count, Ordering::Relaxed);
        self.release_run(first + new.start, count);
    }
}
