//! Lines that belong to one thread each.

use super::{Array, AtomicU64, Line, Ordering, THREADS_MAX, known_index, thread_indices_end};
use std::io;
use std::marker::PhantomData;

/// The number of a thread that has lines of its own.
#[derive(Debug, Clone, Copy)]
pub struct Numbered {
    /// Less than `THREADS_MAX`.
    index: usize,
    /// It is the thread's.
    _not_send: PhantomData<*const ()>,
}

impl Numbered {
    /// The calling thread's. `None`: it has asked for none yet, or gets none;
    /// [`thread_index`](super::thread_index) then knows more.
    #[inline(always)]
    pub fn this_thread() -> Option<Numbered> {
        let index = known_index();
        (index < THREADS_MAX).then_some(Numbered { index, _not_send: PhantomData })
    }

    /// What [`thread_index`](super::thread_index) returns.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.index
    }
}

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

    /// The line of a thread.
    #[inline(always)]
    pub fn of(&self, thread: Numbered) -> &Line {
        // SAFETY: there are `THREADS_MAX + 1` lines, and its number is less.
        unsafe { self.lines.get_unchecked(thread.index) }
    }

    /// The line of the thread numbered `index`; `THREADS_MAX` is the shared one.
    #[inline(always)]
    pub fn line(&self, index: usize) -> &Line {
        self.lines.get(index)
    }

    /// Adds one to a word of the calling thread's line; returns the sum.
    #[inline(always)]
    pub fn add_one(&self, thread: Numbered, word: usize) -> u64 {
        let word: &AtomicU64 = &self.of(thread).0[word];
        let sum = word.load(Ordering::Relaxed).wrapping_add(1);
        word.store(sum, Ordering::Release);
        sum
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
