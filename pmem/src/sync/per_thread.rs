//! Lines that belong to one thread each.

use super::{Array, AtomicU64, Line, Ordering, THREADS_MAX, thread_indices_end};
use std::io;

/// One line for each thread, and a last one shared by all threads without a number.
///
/// A line with a number is written by its thread alone, so plain stores do; the shared one takes
/// read-modify-writes.
#[derive(Debug)]
pub struct PerThread {
    lines: Array<Line>,
}

impl PerThread {
    /// Zeroed lines.
    pub fn new() -> io::Result<Self> {
        Ok(PerThread { lines: Array::reserve(THREADS_MAX + 1, THREADS_MAX + 1)? })
    }

    /// The line of the thread numbered `index`, unless that has none of its own.
    #[inline(always)]
    pub fn own_line(&self, index: usize) -> Option<&Line> {
        // SAFETY: there are `THREADS_MAX + 1` lines.
        (index < THREADS_MAX).then(|| unsafe { self.lines.get_unchecked(index) })
    }

    /// The line of the thread numbered `index`; `THREADS_MAX` is the shared one.
    #[inline(always)]
    pub fn line(&self, index: usize) -> &Line {
        self.lines.get(index)
    }

    /// Adds `n` to a word of the calling thread's line, `thread` being its index; returns the sum.
    #[inline(always)]
    pub fn add(&self, thread: usize, word: usize, n: u64) -> u64 {
        if let Some(line) = self.own_line(thread) {
            let word: &AtomicU64 = &line.0[word];
            let sum = word.load(Ordering::Relaxed).wrapping_add(n);
            word.store(sum, Ordering::Release);
            sum
        } else {
            let word: &AtomicU64 = &self.line(THREADS_MAX).0[word];
            word.fetch_add(n, Ordering::Release).wrapping_add(n)
        }
    }

    /// All lines that a thread may have used so far, the shared one first.
    pub fn used(&self) -> impl Iterator<Item = &Line> {
        let end = thread_indices_end().min(THREADS_MAX);
        std::iter::once(THREADS_MAX).chain(0..end).map(|index| self.lines.get(index))
    }
}
