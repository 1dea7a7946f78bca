//! A medium that keeps a journal of its stores, and stops at each access.
//!
//! What a killed process leaves is what it had stored, in the order in which it stored it: a
//! beginning of the journal, whole. So every moment at which a process could have been killed can
//! be tried, one after another. (What a power failure leaves is another matter, and another suite.)

use super::{Backing, Image};
use pmem::medium::{Dram, Medium, MediumKind, Memory};
use pmem::{Offset, SpaceError, WORD};
use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was done to the medium.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Store(Offset, u64),
    Grow(u64),
}

/// An access that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    Flush,
    Fence,
}

type Hook = Rc<dyn Fn(Access)>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Anonymous memory with a journal.
pub(crate) struct Journal {
    inner: Dram,
    /// What was there before the journal began.
    before: Image,
    entries: Mutex<Vec<Entry>>,
}

impl Journal {
    fn new(before: Image, limit_bytes: u64) -> Journal {
        let inner = Memory::dram(limit_bytes).expect("anonymous memory");
        before.fill(&inner);
        Journal { inner, before, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of stores and growths so far.
    pub(crate) fn len(&self) -> usize {
        self.entries().len()
    }

    /// Runs `operation` and calls `hook` before each access that the calling thread makes in it.
    /// Accesses made by the hook do not count.
    pub(crate) fn stopping<R>(hook: impl Fn(Access) + 'static, operation: impl FnOnce() -> R) -> R {
        HOOK.set(Some(Rc::new(hook)));
        let result = operation();
        HOOK.set(None);
        result
    }

    fn stop(&self, access: Access) {
        if IN_HOOK.get() {
            return;
        }
        let hook = HOOK.with_borrow(Clone::clone);
        if let Some(hook) = hook {
            IN_HOOK.set(true);
            hook(access);
            IN_HOOK.set(false);
        }
    }

    /// Calls `visit` with the image that each cut from `cuts` leaves, `cuts` counting entries.
    pub(crate) fn cuts(
        &self,
        cuts: impl IntoIterator<Item = usize>,
        mut visit: impl FnMut(usize, &Image),
    ) {
        let entries = self.entries().clone();
        let mut image = self.before.clone();
        let mut done = 0;
        for cut in cuts {
            for entry in &entries[done..cut] {
                match *entry {
                    Entry::Store(at, value) => image.words(at, WORD)[0] = value,
                    Entry::Grow(size) => image.0.resize((size / WORD) as usize, 0),
                }
            }
            done = cut;
            visit(cut, &image);
        }
    }

    /// Stores under the lock, so that the journal has the order that the memory saw.
    fn record(&self, at: Offset, value: u64, store: impl FnOnce()) {
        self.stop(Access::Store);
        let mut entries = self.entries();
        store();
        entries.push(Entry::Store(at, value));
    }
}

impl Medium for Journal {
    fn kind(&self) -> MediumKind {
        MediumKind::Mapped
    }

    fn load(&self, at: Offset) -> u64 {
        self.stop(Access::Load);
        self.inner.load(at)
    }

    fn store(&self, at: Offset, value: u64) {
        self.record(at, value, || self.inner.store(at, value));
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.record(at, value, || self.inner.store_release(at, value));
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.stop(Access::Store);
        let mut entries = self.entries();
        let found = self.inner.compare_exchange(at, current, new)?;
        entries.push(Entry::Store(at, new));
        Ok(found)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        self.stop(Access::Load);
        self.inner.load_pair(at)
    }

    fn prefetch(&self, at: Offset) {
        self.inner.prefetch(at);
    }

    fn prefetch_write(&self, at: Offset) {
        self.inner.prefetch_write(at);
    }

    fn flush(&self, at: Offset) {
        self.stop(Access::Flush);
        self.inner.flush(at);
    }

    fn fence(&self) {
        self.stop(Access::Fence);
        self.inner.fence();
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.stop(Access::Store);
        let mut entries = self.entries();
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.copy_in(at, bytes) };
        // A killed process may have come as far as any of the words.
        let end = at.0 + bytes.len() as u64;
        for word in at.0 / WORD..end.div_ceil(WORD) {
            let at = Offset(word * WORD);
            entries.push(Entry::Store(at, self.inner.load(at)));
        }
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> &[u8] {
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
        let mut entries = self.entries();
        self.inner.grow(size)?;
        entries.push(Entry::Grow(self.inner.size()));
        Ok(())
    }

    fn populate(&self, range: Range<u64>) {
        self.inner.populate(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.sync(range)
    }
}

/// A pool on a [`Journal`].
pub(crate) struct Journaled(Option<Image>);

impl Backing for Journaled {
    type Medium = Journal;

    fn empty(limit_bytes: u64) -> (Self, Journal) {
        (Journaled(None), Journal::new(Image(Vec::new()), limit_bytes))
    }

    fn holding(image: &Image, limit_bytes: u64) -> (Self, Journal) {
        (Journaled(None), Journal::new(image.clone(), limit_bytes))
    }

    fn keep(&mut self, medium: &Journal) {
        self.0 = Some(Image::of(medium));
    }

    fn again(&self, limit_bytes: u64) -> Journal {
        Journal::new(self.0.clone().expect("kept"), limit_bytes)
    }
}
