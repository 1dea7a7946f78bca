//! A medium whose flushes and fences go to a line log as well: what [`Memory::logged`](super::Memory::logged) is, over
//! any medium.

use super::{Medium, MediumKind};
use crate::error::SpaceError;
use crate::line_log::LineLog;
use crate::offset::{LINE, Offset, WORD};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Wraps another medium. For the crash lab: in production, memory appends to its log itself, so that engines are
/// compiled once.
#[derive(Debug)]
pub struct Logged<M> {
    medium: M,
    log: Arc<LineLog>,
}

impl<M: Medium> Logged<M> {
    /// `medium`, whose flushes and fences append to `log`.
    pub fn new(medium: M, log: Arc<LineLog>) -> Self {
        Logged { medium, log }
    }

    /// The wrapped medium.
    pub fn inner(&self) -> &M {
        &self.medium
    }

    /// The log.
    pub fn log(&self) -> &Arc<LineLog> {
        &self.log
    }
}

impl<M: Medium> Medium for Logged<M> {
    fn kind(&self) -> MediumKind {
        self.medium.kind()
    }

    fn reads_slowly(&self) -> bool {
        self.medium.reads_slowly()
    }

    fn load(&self, at: Offset) -> u64 {
        self.medium.load(at)
    }

    #[track_caller]
    fn store(&self, at: Offset, value: u64) {
        self.medium.store(at, value);
    }

    #[track_caller]
    fn store_release(&self, at: Offset, value: u64) {
        self.medium.store_release(at, value);
    }

    #[track_caller]
    fn store_pair(&self, at: Offset, low: u64, high: u64) {
        self.medium.store_pair(at, low, high);
    }

    #[track_caller]
    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.medium.compare_exchange(at, current, new)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        self.medium.load_pair(at)
    }

    fn prefetch(&self, at: Offset) {
        self.medium.prefetch(at);
    }

    fn prefetch_write(&self, at: Offset) {
        self.medium.prefetch_write(at);
    }

    #[track_caller]
    fn flush(&self, at: Offset) {
        self.medium.flush(at);
        let line = Offset(at.line() * LINE);
        self.log.note(line, LINE / WORD, |at| self.medium.load(at));
    }

    #[track_caller]
    fn fence(&self) {
        self.medium.fence();
        self.log.fence(|at| self.medium.load(at));
    }

    #[track_caller]
    fn flush_range(&self, at: Offset, bytes: u64) {
        self.medium.flush_range(at, bytes);
        let first = at.0 / WORD;
        let words = at.add(bytes).0.div_ceil(WORD) - first;
        if bytes > 0 {
            self.log.note(Offset(first * WORD), words, |at| self.medium.load(at));
        }
    }

    #[track_caller]
    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.medium.copy_in(at, bytes) };
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        // SAFETY: as above.
        unsafe { self.medium.bytes(at, len) }
    }

    fn size(&self) -> u64 {
        self.medium.size()
    }

    fn limit(&self) -> u64 {
        self.medium.limit()
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        self.medium.grow(size)
    }

    fn populate(&self, range: Range<u64>) {
        self.medium.populate(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.medium.sync(range)
    }
}
