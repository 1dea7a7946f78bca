//! A medium that counts what an operation costs: lines, media blocks, flushes, fences.

use super::{Medium, MediumKind};
use crate::error::SpaceError;
use crate::offset::{LINE, MEDIA_BLOCK, Offset};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

/// What the calling thread did to pools on [`Count`] media during [`measure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Distinct lines that were loaded from.
    pub lines_read: u64,
    /// Distinct lines that were stored to.
    pub lines_written: u64,
    /// Distinct media blocks of 256 bytes that were stored to.
    pub blocks_written: u64,
    /// Flushes, counted each time.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.lines_read += other.lines_read;
        self.lines_written += other.lines_written;
        self.blocks_written += other.blocks_written;
        self.flushes += other.flushes;
        self.fences += other.fences;
    }
}

#[derive(Default)]
struct Tally {
    lines_read: BTreeSet<u64>,
    lines_written: BTreeSet<u64>,
    flushes: u64,
    fences: u64,
}

thread_local! {
    static TALLY: RefCell<Tally> = RefCell::default();
}

/// Runs `operation` and returns its result with what it cost the calling thread. Lines are
/// counted once each, however often they were touched: that is what reaches the memory.
pub fn measure<R>(operation: impl FnOnce() -> R) -> (R, Cost) {
    TALLY.with_borrow_mut(|tally| *tally = Tally::default());
    let result = operation();
    let cost = TALLY.with_borrow(|tally| {
        let blocks: BTreeSet<u64> =
            tally.lines_written.iter().map(|line| line / (MEDIA_BLOCK / LINE)).collect();
        Cost {
            lines_read: tally.lines_read.len() as u64,
            lines_written: tally.lines_written.len() as u64,
            blocks_written: blocks.len() as u64,
            flushes: tally.flushes,
            fences: tally.fences,
        }
    });
    (result, cost)
}

/// Wraps a medium and counts, per thread, what passes through.
#[derive(Debug)]
pub struct Count<M: Medium> {
    inner: M,
}

impl<M: Medium> Count<M> {
    /// Counts what is done to `inner`.
    pub fn new(inner: M) -> Self {
        Count { inner }
    }

    fn read(&self, at: Offset, bytes: u64) {
        TALLY.with_borrow_mut(|tally| {
            tally.lines_read.extend(at.line()..=at.add(bytes.max(1) - 1).line());
        });
    }

    fn written(&self, at: Offset, bytes: u64) {
        TALLY.with_borrow_mut(|tally| {
            tally.lines_written.extend(at.line()..=at.add(bytes.max(1) - 1).line());
        });
    }
}

impl<M: Medium> Medium for Count<M> {
    fn kind(&self) -> MediumKind {
        self.inner.kind()
    }

    fn load(&self, at: Offset) -> u64 {
        self.read(at, 8);
        self.inner.load(at)
    }

    fn store(&self, at: Offset, value: u64) {
        self.written(at, 8);
        self.inner.store(at, value);
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.written(at, 8);
        self.inner.store_release(at, value);
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.read(at, 8);
        self.written(at, 8);
        self.inner.compare_exchange(at, current, new)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        self.read(at, 16);
        self.inner.load_pair(at)
    }

    fn prefetch(&self, at: Offset) {
        self.inner.prefetch(at);
    }

    fn prefetch_write(&self, at: Offset) {
        self.inner.prefetch_write(at);
    }

    fn flush(&self, at: Offset) {
        TALLY.with_borrow_mut(|tally| tally.flushes += 1);
        self.inner.flush(at);
    }

    fn fence(&self) {
        TALLY.with_borrow_mut(|tally| tally.fences += 1);
        self.inner.fence();
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        self.written(at, bytes.len() as u64);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.copy_in(at, bytes) };
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> &[u8] {
        self.read(at, len);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.bytes(at, len) }
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn limit(&self) -> u64 {
        self.inner.limit()
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        self.inner.grow(size)
    }

    fn populate(&self, range: Range<u64>) {
        self.inner.populate(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.sync(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Memory;

    #[test]
    fn lines_count_once_and_flushes_each_time() {
        let medium = Count::new(Memory::dram(1 << 20).unwrap());
        medium.grow(4096).unwrap();
        let ((), cost) = measure(|| {
            medium.store(Offset(0), 1);
            medium.store_release(Offset(8), 1);
            medium.store(Offset(64), 1);
            medium.flush_range(Offset(60), 8);
            medium.fence();
            medium.load_pair(Offset(256));
            medium.load(Offset(264));
        });
        assert_eq!(
            cost,
            Cost { lines_read: 1, lines_written: 2, blocks_written: 1, flushes: 2, fences: 1 }
        );
    }
}
