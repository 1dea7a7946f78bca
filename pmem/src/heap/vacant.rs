//! Free segments whose space the system has: of a file it is a hole.
//!
//! They are not among the free runs, so nobody stores there. Before the heap grows, it takes their space back. That may
//! be refused, where a store into a hole would end the process.
//!
//! Their surviving words only tell an opening which segments need no space: it takes space for all others. Whatever a
//! crash leaves of the words does no harm. One that says vacant of a segment with space costs a call. One that says
//! free of a hole has it filled at the opening. A segment that is in use has another word.

use super::Heap;
use super::class::Classes;
use super::grow::GROWTH_SEGMENTS_MIN;
use super::map::{Tables, Words, segments_of};
use super::runs::FreeRuns;
use super::salvage::Remains;
use super::segment::{Descriptor, usage};
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::superblock::Superblock;
use crate::sync::Ordering;
use std::ops::Range;

/// One call gives back at most this much, since a sync waits for it.
const GIVE_BACK_BYTES_MAX: u64 = 16 << 20;
/// Shorter runs stay: they cost a call each, and pieces of the file.
const GIVE_BACK_BYTES_MIN: u64 =
    if cfg!(any(feature = "simulated", feature = "loom")) { 1 } else { 16 << 10 };
/// The heap keeps this fraction of what is in use as free space, so that changes seldom wait for the system.
const KEPT_FRACTION: u64 = 6;
/// ... and at least this many segments. On the crash lab's machine a pool has few.
const KEPT_SEGMENTS_MIN: u64 = if cfg!(feature = "simulated") { 0 } else { GROWTH_SEGMENTS_MIN };
/// Space is taken back in steps of this size, if that is enough.
const TAKE_BACK_BYTES: u64 = 1 << 20;

impl<M: Medium> Heap<M> {
    /// Gives some of the free space back to the system, and then what was prepared for growth; returns how many bytes.
    /// If none, nothing is left to be given back. The caller has the right to write.
    #[inline(never)]
    pub fn give_back(&self) -> u64 {
        let is_useless = self.keeps_space.load(Ordering::Relaxed);
        if is_useless || self.is_damaged() {
            return 0;
        }
        // A thread that empties segments has counted on what is free.
        let _compacting = self.compacting.lock();
        let Some((first, count)) = self.take_surplus() else {
            return self.pool.give_prepared_back();
        };
        for segment in first..first + count {
            self.state(segment).usage.store(usage::VACANT, Ordering::Release);
            self.describe(segment, Descriptor::Vacant);
        }
        let bytes = count << self.segment_log2;
        if !self.pool.give_back(self.bytes_of(first, count)) {
            self.keeps_space.store(true, Ordering::Relaxed);
            self.make_free(first, count);
            return 0;
        }
        self.add_vacant(first, count);
        bytes
    }

    /// A free run that the heap can do without. The last one: what comes next is put at the beginning.
    fn take_surplus(&self) -> Option<(u64, u64)> {
        let mut runs = self.free_runs.lock();
        let free = self.segments_free.load(Ordering::Relaxed);
        let with_space = self.segments_taken.load(Ordering::Relaxed)
            - self.segments_vacant.load(Ordering::Relaxed);
        let in_use = with_space.saturating_sub(free);
        let surplus = free.checked_sub(in_use / KEPT_FRACTION + KEPT_SEGMENTS_MIN)?;
        let longest = surplus.min((GIVE_BACK_BYTES_MAX >> self.segment_log2).max(1));
        let shortest = (GIVE_BACK_BYTES_MIN >> self.segment_log2).max(1);
        let taken = runs.take_last(shortest, longest)?;
        self.segments_free.fetch_sub(taken.1, Ordering::Relaxed);
        Some(taken)
    }

    /// Takes space back for a run of at least `shortest` vacant segments, and of `count` if there is one. Returns
    /// whether there was such a run. The caller holds the lock for growth.
    pub(super) fn fill_vacant(&self, shortest: u64, count: u64) -> Result<bool, SpaceError> {
        if self.segments_vacant.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let mut longest = (TAKE_BACK_BYTES >> self.segment_log2).max(count);
        loop {
            let taken = self.vacant_runs.lock().take_first(shortest, longest);
            let Some((first, len)) = taken else { return Ok(false) };
            match self.pool.take_back(self.bytes_of(first, len)) {
                Ok(()) => {
                    self.segments_vacant.fetch_sub(len, Ordering::Relaxed);
                    self.make_free(first, len);
                    return Ok(true);
                }
                Err(refused) => {
                    self.join_vacant(first, len);
                    if len <= shortest {
                        return Err(refused);
                    }
                    // A nearly full file system may still have the space that is needed now.
                    longest = (len / 2).max(shortest);
                }
            }
        }
    }

    /// Takes in a segment that an opening found vacant.
    pub(super) fn adopt_vacant(&self, segment: u64) {
        self.state(segment).usage.store(usage::VACANT, Ordering::Relaxed);
        self.pool.note_hole(self.bytes_of(segment, 1));
        self.add_vacant(segment, 1);
    }

    fn add_vacant(&self, first: u64, count: u64) {
        self.segments_vacant.fetch_add(count, Ordering::Relaxed);
        self.join_vacant(first, count);
    }

    fn join_vacant(&self, first: u64, count: u64) {
        self.vacant_runs.lock().add(first, count);
    }

    /// Adds segments that have space to the free ones.
    fn make_free(&self, first: u64, count: u64) {
        for segment in first..first + count {
            self.describe(segment, Descriptor::Free);
            self.state(segment).usage.store(usage::FREE, Ordering::Release);
        }
        self.release_run(first, count);
    }

    fn bytes_of(&self, first: u64, count: u64) -> Range<u64> {
        self.start_of(first).0..self.start_of(first + count).0
    }
}

/// The ranges of a closed or crashed pool that need no space, in order.
pub(crate) fn vacant_ranges(superblock: &Superblock, remains: &dyn Remains) -> Vec<Range<u64>> {
    let log2 = superblock.segment_log2;
    let classes = Classes::new(1 << log2);
    let tables = Tables::of(superblock);
    let mut vacant: Vec<Range<u64>> = Vec::new();
    // If the extents make no sense, the opening says so.
    for segments in segments_of(superblock.extents.iter().copied(), log2).unwrap_or_default() {
        if segments.end << log2 > remains.len() {
            continue;
        }
        let mut words = Words::new(&tables, remains);
        let mut segment = segments.start;
        while segment < segments.end
            && let Some(word) = words.get(segment)
        {
            let at = segment << log2;
            segment += match Descriptor::decode(word) {
                Some(Descriptor::Vacant) => {
                    let end = at + (1 << log2);
                    match vacant.last_mut() {
                        Some(last) if last.end == at => last.end = end,
                        _ => vacant.push(at..end),
                    }
                    1
                }
                // The words of further segments mean nothing.
                Some(Descriptor::Small { class, .. }) => classes.segments(class.into()),
                Some(Descriptor::Large { segments, .. }) => u64::from(segments).max(1),
                _ => 1,
            };
        }
    }
    vacant
}

impl FreeRuns {
    /// Takes up to `longest` segments from the end of the last run that has at least `shortest`.
    fn take_last(&mut self, shortest: u64, longest: u64) -> Option<(u64, u64)> {
        let (run, len) = self.iter().filter(|&(_, len)| len >= shortest).last()?;
        let count = len.min(longest);
        (count >= shortest).then(|| self.take_at(run, run + len - count, count))
    }

    /// Takes up to `longest` segments from the beginning of the first run that has as many, or else of the first that
    /// has at least `shortest`.
    fn take_first(&mut self, shortest: u64, longest: u64) -> Option<(u64, u64)> {
        let first = |bound: u64| self.iter().find(|&(_, len)| len >= bound);
        let (run, len) = first(longest).or_else(|| first(shortest))?;
        Some(self.take_at(run, run, len.min(longest)))
    }
}
