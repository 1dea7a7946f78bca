//! Batches that fail part-way: why, and which of their entries took effect.

use crate::error::{Error, ItemError};

/// The entries of a batch that took effect: all before one of them, and some of those behind it.
///
/// Batches are worked on in chunks. Only in the chunk that fails may an entry take effect and an earlier one not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// All entries before this one, which itself did not.
    first: usize,
    /// Bit *i*: entry `first + i` did.
    behind: u32,
}

impl Done {
    /// No entry.
    pub const NONE: Done = Done { first: 0, behind: 0 };

    /// The first `count` entries.
    pub const fn first(count: usize) -> Done {
        Done { first: count, behind: 0 }
    }

    /// All entries before one of them, and those behind it that `behind` has a bit for.
    pub const fn of(first: usize, behind: u32) -> Done {
        Done { first, behind: behind & !1 }
    }

    /// All entries before a chunk, and those of the chunk that `mask` has a bit for.
    fn in_chunk(before: usize, mask: u32) -> Done {
        let ones = mask.trailing_ones();
        Done { first: before + ones as usize, behind: mask.checked_shr(ones).unwrap_or(0) }
    }

    /// The first entry that did not take effect. All before it did.
    pub fn first_undone(&self) -> usize {
        self.first
    }

    /// How many entries took effect.
    pub fn count(&self) -> usize {
        self.first + self.behind.count_ones() as usize
    }

    /// Whether the entry took effect.
    pub fn contains(&self, entry: usize) -> bool {
        match entry.checked_sub(self.first) {
            None => true,
            Some(behind) => behind < u32::BITS as usize && self.behind & 1 << behind != 0,
        }
    }

    /// The same entries in a batch that has `count` more before them, which took effect.
    pub fn behind(self, count: usize) -> Done {
        Done { first: self.first + count, ..self }
    }
}

/// A batch failed part-way. The entry that failed has changed nothing.
///
/// No entry took effect whose key an earlier one has that did not: the changes of one key keep their order.
#[derive(Debug)]
pub struct Unfinished<E> {
    /// Why it ended.
    pub error: E,
    /// The entry that failed.
    pub failed: usize,
    /// The entries that took effect.
    pub done: Done,
}

impl<E> Unfinished<E> {
    /// In place of the entry that failed, where the error concerns all of them.
    pub const NO_ENTRY: usize = usize::MAX;

    /// A batch whose entries are done in order failed at one of them.
    #[cold]
    pub fn at(failed: usize, error: E) -> Self {
        Unfinished { error, failed, done: Done::first(failed) }
    }

    /// A batch was refused for what an entry is, before anything of it was done.
    #[cold]
    pub fn refused(failed: usize, error: E) -> Self {
        Unfinished { error, failed, done: Done::NONE }
    }

    /// A batch failed in a chunk with `before` entries before it, at the entry `failed` of the chunk, after the
    /// entries of the chunk that `mask` has a bit for.
    #[cold]
    pub fn in_chunk(before: usize, mask: u32, failed: usize, error: E) -> Self {
        Unfinished { error, failed: before + failed, done: Done::in_chunk(before, mask) }
    }
}

impl From<Unfinished<Error>> for Error {
    fn from(unfinished: Unfinished<Error>) -> Self {
        unfinished.error
    }
}

impl From<Unfinished<ItemError>> for ItemError {
    fn from(unfinished: Unfinished<ItemError>) -> Self {
        unfinished.error
    }
}

impl From<Unfinished<Error>> for Unfinished<ItemError> {
    fn from(Unfinished { error, failed, done }: Unfinished<Error>) -> Self {
        Unfinished { error: error.into(), failed, done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_chunk_follow_all_before_it() {
        for (before, mask) in [(0, 0), (0, 0b1011), (64, 0), (64, 0b110), (64, !0), (7, !0 >> 1)] {
            let done = Done::in_chunk(before, mask);
            let expected = |entry: usize| match entry.checked_sub(before) {
                None => true,
                Some(bit) => bit < 32 && mask & 1 << bit != 0,
            };
            assert!((0..200).all(|entry| done.contains(entry) == expected(entry)), "{done:?}");
            assert_eq!(done.count(), (0..200).filter(|&entry| expected(entry)).count());
            assert_eq!(Some(done.first_undone()), (0..).find(|&entry| !expected(entry)));
            let later = done.behind(10);
            assert!((0..200).all(|entry| later.contains(entry + 10) == expected(entry)));
            assert!((0..10).all(|entry| later.contains(entry)));
        }
    }
}
