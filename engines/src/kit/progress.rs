//! How far a resize has come.

use pmem::sync::{Line, Ordering};

/// How far what a resize empties is emptied.
#[derive(Debug, Default)]
pub(crate) struct Progress(Line);

impl Progress {
    /// Word: the generation of the geometry, and buckets not yet drained.
    const UNDRAINED: usize = 0;
    /// Word: the next bucket to be drained.
    const NEXT: usize = 1;
    /// Word: how many threads copy items.
    const COPYING: usize = 2;

    /// Bits that count buckets not yet drained; above is the generation.
    const COUNT_BITS: u32 = 33;

    /// The buckets that a word of a geometry's generation counts.
    fn count_in(word: u64, generation: u64) -> Option<u64> {
        let count = word & ((1 << Self::COUNT_BITS) - 1);
        (word - count == generation << Self::COUNT_BITS).then_some(count)
    }

    /// Buckets not yet drained, if the geometry of this generation is still the one counted for.
    pub(crate) fn undrained(&self, generation: u64) -> Option<u64> {
        Self::count_in(self.0.0[Self::UNDRAINED].load(Ordering::Acquire), generation)
    }

    /// Begins to count for the geometry of a generation, of which the first `passed` buckets are drained and
    /// `undrained` others are not.
    pub(crate) fn start(&self, generation: u64, passed: u64, undrained: u64) {
        let word = undrained | generation << Self::COUNT_BITS;
        self.0.0[Self::UNDRAINED].store(word, Ordering::Relaxed);
        self.0.0[Self::NEXT].store(passed, Ordering::Relaxed);
    }

    /// Counts a bucket as drained, if the geometry of this generation is still the one counted for; whether
    /// it was the last one.
    pub(crate) fn end_bucket(&self, generation: u64) -> bool {
        let one_less = |word: u64| Self::count_in(word, generation).map(|_| word - 1);
        let before =
            self.0.0[Self::UNDRAINED].fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less);
        before.is_ok_and(|before| Self::count_in(before, generation) == Some(1))
    }

    /// The number of the next bucket to be drained; it counts on for ever.
    pub(crate) fn take_next(&self) -> u64 {
        self.0.0[Self::NEXT].fetch_add(1, Ordering::Relaxed)
    }

    /// Announces that items are about to be copied.
    pub(crate) fn begin_copying(&self) -> Copying<'_> {
        self.0.0[Self::COPYING].fetch_add(1, Ordering::AcqRel);
        Copying(self)
    }

    /// Whether somebody copies. By addition: either this sees the announcement, or who announced
    /// sees what was published before.
    pub(crate) fn is_copying(&self) -> bool {
        self.0.0[Self::COPYING].fetch_add(0, Ordering::AcqRel) != 0
    }
}

/// Items may be copied, until dropped.
pub(crate) struct Copying<'a>(&'a Progress);

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.0.0.0[Progress::COPYING].fetch_sub(1, Ordering::AcqRel);
    }
}
