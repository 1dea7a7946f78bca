//! A medium that counts what an operation costs: lines, media blocks, flushes, fences.

use super::lines::Lines;
use super::media_writes::{MediaWrites, WriteCombining};
use super::{Medium, MediumKind};
use crate::error::SpaceError;
use crate::offset::{LINE, MEDIA_BLOCK, Offset};
use crate::view::View;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

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
    /// There while [`measure`] runs: sets that nobody asked for would grow with the pool.
    static TALLY: RefCell<Option<Tally>> = const { RefCell::new(None) };
    /// There while [`media_writes`] runs.
    static WRITE_COMBINING: RefCell<Option<WriteCombining>> = const { RefCell::new(None) };
}

fn tally(add: impl FnOnce(&mut Tally)) {
    TALLY.with_borrow_mut(|tally| tally.as_mut().map(add));
}

fn combine_writes(pass_on: impl FnOnce(&mut WriteCombining)) {
    WRITE_COMBINING.with_borrow_mut(|model| model.as_mut().map(pass_on));
}

/// Runs `operation` and returns its result with what it cost the calling thread. Lines are
/// counted once each, however often they were touched: that is what reaches the memory.
///
/// Calls do not nest.
pub fn measure<R>(operation: impl FnOnce() -> R) -> (R, Cost) {
    TALLY.set(Some(Tally::default()));
    let result = operation();
    let tally = TALLY.take().unwrap_or_default();
    let blocks: BTreeSet<u64> =
        tally.lines_written.iter().map(|line| line / (MEDIA_BLOCK / LINE)).collect();
    let cost = Cost {
        lines_read: tally.lines_read.len() as u64,
        lines_written: tally.lines_written.len() as u64,
        blocks_written: blocks.len() as u64,
        flushes: tally.flushes,
        fences: tally.fences,
    };
    (result, cost)
}

/// Runs `operations`, which may be any number, and returns their result with what the calling
/// thread's write-backs to pools on [`Count`] media would cost Optane-like media, by a model of
/// the buffer of 64 media blocks in front of them: [`MediaWrites`] says what counts.
///
/// Starts and ends with nothing buffered, so a run should be long compared with 64 blocks.
///
/// [`measure`] may be called inside. Calls of this do not nest.
pub fn media_writes<R>(operations: impl FnOnce() -> R) -> (R, MediaWrites) {
    WRITE_COMBINING.set(Some(WriteCombining::default()));
    let result = operations();
    (result, WRITE_COMBINING.take().unwrap_or_default().drain())
}

/// Wraps a medium and counts, per thread, what passes through while [`measure`] or
/// [`media_writes`] runs.
#[derive(Debug)]
pub struct Count<M: Medium> {
    inner: M,
    lines: Lines,
}

impl<M: Medium> Count<M> {
    /// Counts what is done to `inner`.
    pub fn new(inner: M) -> Self {
        Count { inner, lines: Lines::new() }
    }

    fn read(&self, at: Offset, bytes: u64) {
        tally(|tally| tally.lines_read.extend(self.lines.range(at, bytes)));
    }

    fn written(&self, at: Offset, bytes: u64) {
        let lines = self.lines.range(at, bytes);
        tally(|tally| tally.lines_written.extend(lines.clone()));
        combine_writes(|model| lines.for_each(|line| model.store(line)));
    }
}

impl<M: Medium> Medium for Count<M> {
    fn kind(&self) -> MediumKind {
        self.inner.kind()
    }

    fn reads_slowly(&self) -> bool {
        self.inner.reads_slowly()
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
        tally(|tally| tally.flushes += 1);
        combine_writes(|model| model.flush(self.lines.at(at)));
        self.inner.flush(at);
    }

    fn fence(&self) {
        tally(|tally| tally.fences += 1);
        self.inner.fence();
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        self.written(at, bytes.len() as u64);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.copy_in(at, bytes) };
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        // SAFETY: the caller's promise is passed on.
        let bytes = unsafe { self.inner.bytes(at, len) }?;
        // Only now is it known that there are that many lines.
        self.read(at, len);
        Some(bytes)
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

    fn cut(&self, size: u64) {
        self.inner.cut(size);
    }

    fn give_back(&self, range: Range<u64>) -> bool {
        self.inner.give_back(range)
    }

    fn take_back(&self, range: Range<u64>) -> Result<(), SpaceError> {
        self.inner.take_back(range)
    }

    fn populate(&self, range: Range<u64>) {
        self.inner.populate(range);
    }

    fn read_ahead(&self, range: Range<u64>) {
        self.inner.read_ahead(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.sync(range)
    }

    fn has_failed(&self) -> bool {
        self.inner.has_failed()
    }

    fn close_on_failure(&self, view: &Arc<View>) {
        self.inner.close_on_failure(view);
    }

    fn read_two(&self, at: Offset) -> Option<[u64; 2]> {
        self.inner.read_two(at)
    }

    fn fail(&self) {
        self.inner.fail();
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

    #[test]
    fn write_backs_are_combined_across_operations() {
        let medium = Count::new(Memory::dram(1 << 20).unwrap());
        let other = Count::new(Memory::dram(1 << 20).unwrap());
        medium.grow(1 << 20).unwrap();
        other.grow(4096).unwrap();
        // Stored to before the run, and so not part of it.
        medium.store(Offset(512), 1);
        let (cost, writes) = media_writes(|| {
            medium.flush(Offset(512));
            // One block, by four operations; a line that is never flushed; a flush too many.
            medium.store(Offset(0), 1);
            medium.persist(Offset(0));
            medium.store_release(Offset(64 + 8), 1);
            medium.persist(Offset(64));
            medium.compare_exchange(Offset(128), 0, 1).unwrap();
            medium.persist(Offset(128));
            // SAFETY: nobody else uses the memory.
            unsafe { medium.copy_in(Offset(192), &[1; 64]) };
            medium.flush_range(Offset(192), 64);
            medium.store(Offset(4096), 1);
            medium.flush(Offset(192));
            // The same offset of another medium is another block.
            other.store(Offset(0), 1);
            measure(|| other.persist(Offset(0))).1
        });
        assert_eq!((cost.flushes, cost.fences), (1, 1));
        assert_eq!(writes, MediaWrites { line_write_backs: 5, block_writes: 2 });
        assert_eq!(writes.amplification(), 1.6);
        assert_eq!(media_writes(|| ()).1, MediaWrites::default());
    }

    #[test]
    fn each_medium_has_lines_of_its_own() {
        let media = [(); 2].map(|()| Count::new(Memory::dram(4096).unwrap()));
        let ((), cost) = measure(|| {
            for medium in &media {
                medium.grow(4096).unwrap();
                medium.store(Offset(0), medium.load(Offset(64)));
            }
        });
        assert_eq!((cost.lines_read, cost.lines_written, cost.blocks_written), (2, 2, 2));
    }
}
