//! Growth of the heap: by lengthening its last extent, or by another one.

use super::segment::{Descriptor, usage};
use super::{Heap, SEGMENT_LOG2_SMALL, map};
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::pool::Draft;
use crate::superblock::{EXTENTS_MAX, Extent, HEAP, HEAP_WORDS};
use crate::sync::Ordering;
use std::ops::Range;

/// A heap grows by at least this many segments.
pub(super) const GROWTH_SEGMENTS_MIN: u64 = 4;
/// Most extents of the heap, tables included: the engine must find records for its extents.
const EXTENTS_OF_HEAP_MAX: usize = EXTENTS_MAX / 2;
/// A descriptor has 24 bits for the segments of a large item.
const SEGMENTS_OF_AN_ITEM_MAX: u64 = (1 << 24) - 1;
/// A heap grows by this fraction of it, so that it takes few steps to any size.
const GROWTH_FRACTION: u64 = 4;
/// A small heap grows by this fraction, or by a segment, so that little of a small pool is unused.
const GROWTH_FRACTION_SMALL: u64 = 32;
/// Tables reach up to this multiple of the pool's size, or to its limit: where one is taken, the heap goes on behind
/// it, and no large item can lie across. Not ahead on the crash lab's machine, where histories are to need tables.
const TABLES_AHEAD: u64 = if cfg!(feature = "simulated") { 1 } else { 4 };
/// A heap of small segments is small below this size.
pub(super) const SMALL_HEAP_BYTES: u64 = 4 << 20;

/// What a change of the superblock takes for the heap.
pub(super) struct Taken {
    segments: Range<u64>,
    /// Extents of tables for their words.
    tables: Vec<Extent>,
}

impl<M: Medium> Heap<M> {
    /// Adds segments, so that there is a run of at least `run` free ones.
    pub(super) fn grow(&self, run: u64) -> Result<(), SpaceError> {
        if run > SEGMENTS_OF_AN_ITEM_MAX {
            return Err(SpaceError::Full {
                needed_bytes: run << self.segment_log2,
                reason: format!("an item has at most {SEGMENTS_OF_AN_ITEM_MAX} segments"),
            });
        }
        let least = self.segments_missing_for(run);
        // A nearly full file system may still have the space that is needed now.
        let mut asked = self.segments_in_need().max(least);
        loop {
            // What comes behind a table joins nothing before it.
            let count = if self.grows_in_a_row(asked) { asked } else { asked.max(run) };
            match self.add_segments(count) {
                Err(SpaceError::Full { .. }) if asked > least => asked = (asked / 2).max(least),
                Err(refused) => return Err(refused),
                Ok(()) => {
                    self.ask_again();
                    return Ok(());
                }
            }
        }
    }

    /// How many segments to add for a run of `run` free ones. What a helper has added ahead counts. Otherwise it would
    /// depend on the helper's timing what a full pool takes.
    fn segments_missing_for(&self, run: u64) -> u64 {
        let missing = run.saturating_sub(self.free_tail()).max(1);
        if self.grows_in_a_row(missing) { missing } else { run }
    }

    /// Whether the next `count` segments follow those at the end of the heap.
    fn grows_in_a_row(&self, count: u64) -> bool {
        self.end_of_last().is_some_and(|end| self.have_words(&(end..end + count)))
    }

    fn have_words(&self, segments: &Range<u64>) -> bool {
        self.tables.missing_for(segments).next().is_none()
    }

    /// The segment with which the pool would go on, if it ends with the heap.
    fn end_of_last(&self) -> Option<u64> {
        let last = self.pool.last_extent().filter(|last| last.owner == HEAP)?;
        Some(last.end() >> self.segment_log2)
    }

    /// Number of free segments at the end of the heap, if it can be lengthened there.
    pub(super) fn free_tail(&self) -> u64 {
        let Some(end) = self.end_of_last() else { return 0 };
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

    /// Adds `count` segments. The caller holds the lock for growth.
    pub(super) fn add_segments(&self, count: u64) -> Result<(), SpaceError> {
        let taken = self.pool.extend(|draft| self.take_segments(draft, count))?;
        for table in &taken.tables {
            // Its record has none of the faults that this could find: it has just been made.
            let _ = self.tables.adopt(table);
        }
        let Range { start, end } = taken.segments;
        for segment in start..end {
            let word = self.descriptor_at(segment).map_or(0, |at| self.medium().load(at));
            if word != Descriptor::Free.encode() {
                // Only damage leaves such a word where no segment was. The next opening would believe it.
                self.describe(segment, Descriptor::Free);
            }
            self.state(segment).usage.store(usage::FREE, Ordering::Release);
        }
        self.segments_taken.fetch_add(count, Ordering::Relaxed);
        self.release_run(start, count);
        Ok(())
    }

    /// Takes `count` segments, with the tables for their words: behind the heap's last extent if nothing lies there,
    /// otherwise as a new extent. If each step took an extent, a heap that grows by little at a time, near a limit or
    /// as a file system is freed, would use up the records.
    pub(super) fn take_segments(&self, draft: &mut Draft, count: u64) -> Result<Taken, SpaceError> {
        let mut taken = Taken { segments: self.next_segments(draft, count), tables: Vec::new() };
        let ends_with_heap = draft.last_extent().is_some_and(|last| last.owner == HEAP);
        if ends_with_heap && self.have_words(&taken.segments) {
            draft.lengthen_last(count << self.segment_log2);
        } else {
            // Each table moves the segments on, perhaps to where they need one more.
            let missing = |taken: &Taken| {
                let is_taken = |table: &usize| {
                    taken.tables.iter().any(|extent| usize::from(extent.index) == *table)
                };
                let Range { start, end } = taken.segments;
                let limit = self.medium().limit() >> self.segment_log2;
                let ahead = end.max((end * TABLES_AHEAD).min(limit));
                self.tables.missing_for(&(start..ahead)).find(|table| !is_taken(table))
            };
            while let Some(table) = missing(&taken) {
                self.check_records(draft)?;
                let bytes = map::bytes_of(table);
                taken.tables.push(draft.take_extent(HEAP_WORDS, table as u8, bytes)?);
                taken.segments = self.next_segments(draft, count);
            }
            self.check_records(draft)?;
            // In order: an owner's extents are sorted by index.
            let index = draft.extents_of(HEAP) as u8;
            let bytes = count << self.segment_log2;
            draft.take_aligned_extent(HEAP, index, bytes, self.segment_bytes())?;
        }
        self.check_reach(draft.end())?;
        Ok(taken)
    }

    /// The segments with which a heap at the pool's end would go on.
    fn next_segments(&self, draft: &Draft, count: u64) -> Range<u64> {
        let first = draft.end().div_ceil(self.segment_bytes());
        first..first + count
    }

    /// Whether the heap may have one more extent.
    fn check_records(&self, draft: &Draft) -> Result<(), SpaceError> {
        if draft.extents_of(HEAP) + draft.extents_of(HEAP_WORDS) < EXTENTS_OF_HEAP_MAX {
            return Ok(());
        }
        Err(SpaceError::Full {
            needed_bytes: draft.end() + self.segment_bytes(),
            reason: format!("its heap has {EXTENTS_OF_HEAP_MAX} extents, the most it can have"),
        })
    }

    /// Whether there is volatile state for segments up to `end`.
    pub(super) fn check_reach(&self, end: u64) -> Result<(), SpaceError> {
        if end >> self.segment_log2 < self.segments.len() as u64 {
            return Ok(());
        }
        Err(self.pool.no_room_for("a larger heap", end))
    }
}
