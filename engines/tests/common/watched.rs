//! A medium under somebody's eyes.

use pmem::medium::{Dram, Medium, MediumKind};
use pmem::{Offset, SpaceError, WORD};
use std::io;
use std::ops::Range;

/// Sees every access to a [`Watched`] medium.
pub(crate) trait Watcher: Send + Sync + 'static {
    /// What the medium passes itself off as.
    const KIND: MediumKind;

    /// A word is about to be loaded.
    fn before_load(&self) {}

    /// Two words that follow each other are about to be loaded.
    fn before_load_two(&self) {
        self.before_load();
    }

    /// Does `store`, which puts `value` to `at` if it returns `Ok`.
    fn store<E>(
        &self,
        _at: Offset,
        _value: u64,
        store: impl FnOnce() -> Result<u64, E>,
    ) -> Result<u64, E> {
        store()
    }

    /// The line of an offset is about to be flushed.
    fn before_flush(&self, _at: Offset) {}

    /// A fence is about to come.
    fn before_fence(&self) {}

    /// Does `grow`, which returns the size it comes to.
    fn grow(&self, grow: impl FnOnce() -> Result<u64, SpaceError>) -> Result<(), SpaceError> {
        grow().map(drop)
    }
}

/// A medium with a watcher. What is copied in is stored word by word, from the first to the last.
pub(crate) struct Watched<W, M = Dram> {
    inner: M,
    pub(crate) watcher: W,
}

impl<W: Watcher, M: Medium> Watched<W, M> {
    /// What has happened to `inner` so far is the caller's business.
    pub(crate) fn new(inner: M, watcher: W) -> Self {
        Watched { inner, watcher }
    }

    fn stored(&self, at: Offset, value: u64, store: impl FnOnce()) {
        let done = || {
            store();
            Ok::<u64, std::convert::Infallible>(value)
        };
        let Ok(_) = self.watcher.store(at, value, done);
    }
}

impl<W: Watcher, M: Medium> Medium for Watched<W, M> {
    fn kind(&self) -> MediumKind {
        W::KIND
    }

    fn load(&self, at: Offset) -> u64 {
        self.watcher.before_load();
        self.inner.load(at)
    }

    fn store(&self, at: Offset, value: u64) {
        self.stored(at, value, || self.inner.store(at, value));
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.stored(at, value, || self.inner.store_release(at, value));
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.watcher.store(at, new, || self.inner.compare_exchange(at, current, new))
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        self.watcher.before_load();
        self.inner.load_pair(at)
    }

    fn load_two(&self, at: Offset) -> [u64; 2] {
        self.watcher.before_load_two();
        self.inner.load_two(at)
    }

    fn prefetch(&self, at: Offset) {
        self.inner.prefetch(at);
    }

    fn prefetch_write(&self, at: Offset) {
        self.inner.prefetch_write(at);
    }

    fn flush(&self, at: Offset) {
        self.watcher.before_flush(at);
        self.inner.flush(at);
    }

    fn fence(&self) {
        self.watcher.before_fence();
        self.inner.fence();
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        let mut rest = bytes;
        let mut at = at;
        while !rest.is_empty() {
            let word = Offset(at.0 / WORD * WORD);
            let from = (at.0 - word.0) as usize;
            let (now, later) = rest.split_at(rest.len().min(WORD as usize - from));
            let mut whole = self.inner.load(word).to_ne_bytes();
            whole[from..from + now.len()].copy_from_slice(now);
            self.store(word, u64::from_ne_bytes(whole));
            (rest, at) = (later, word.add(WORD));
        }
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
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
        self.watcher.grow(|| {
            self.inner.grow(size)?;
            Ok(self.inner.size())
        })
    }

    fn populate(&self, range: Range<u64>) {
        self.inner.populate(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.sync(range)
    }
}
