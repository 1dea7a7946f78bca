//! A medium that keeps a journal of its stores, and stops at each access.
//!
//! A killed process leaves what it had stored, in the order in which it stored it: a prefix of the journal, whole. So
//! every moment at which a process could have been killed can be tried, one after another. (What a power failure leaves
//! is another matter, and another suite.)

use super::{Backing, Image, Slow};
use crate::common::{Watched, Watcher, dram};
use pmem::medium::{Either, MediumKind};
use pmem::{Offset, SpaceError};
use std::cell::{Cell, RefCell};
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
pub(crate) type Journal = Watched<Entries>;

/// What a [`Journal`] has seen.
pub(crate) struct Entries {
    /// The content before the journal began.
    before: Image,
    entries: Mutex<Vec<Entry>>,
}

impl Entries {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stop(access: Access) {
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

impl Journal {
    fn after(before: Image, limit_bytes: u64) -> Journal {
        let inner = dram(limit_bytes);
        before.fill(&inner);
        Watched::new(inner, Entries { before, entries: Mutex::default() })
    }

    /// The journal of a medium that is a [`Journaled`] pool's.
    pub(crate) fn of(medium: &Slow) -> &Journal {
        match medium {
            Either::Other(journal) => journal,
            Either::One(_) => panic!("a medium without a journal"),
        }
    }

    /// Number of stores and growths so far.
    pub(crate) fn len(&self) -> usize {
        self.watcher.entries().len()
    }

    /// Runs `operation` and calls `hook` before each access that the calling thread makes in it. Accesses of the hook
    /// itself do not count.
    pub(crate) fn stopping<R>(hook: impl Fn(Access) + 'static, operation: impl FnOnce() -> R) -> R {
        HOOK.set(Some(Rc::new(hook)));
        let result = operation();
        HOOK.set(None);
        result
    }

    /// Calls `visit` with the image that each of `cuts` leaves. A cut is a number of entries.
    pub(crate) fn cuts(
        &self,
        cuts: impl IntoIterator<Item = usize>,
        mut visit: impl FnMut(usize, &Image),
    ) {
        let entries = self.watcher.entries().clone();
        let mut image = self.watcher.before.clone();
        let mut done = 0;
        for cut in cuts {
            for entry in &entries[done..cut] {
                match *entry {
                    Entry::Store(at, value) => image.store(at, value),
                    Entry::Grow(size) => image.grow(size),
                }
            }
            done = cut;
            visit(cut, &image);
        }
    }
}

impl Watcher for Entries {
    const KIND: MediumKind = MediumKind::Mapped;

    fn before_load(&self) {
        stop(Access::Load);
    }

    /// Stores under the lock, so that the journal has the order that the memory saw.
    fn store<E>(
        &self,
        at: Offset,
        value: u64,
        store: impl FnOnce() -> Result<u64, E>,
    ) -> Result<u64, E> {
        stop(Access::Store);
        let mut entries = self.entries();
        let found = store()?;
        entries.push(Entry::Store(at, value));
        Ok(found)
    }

    fn before_flush(&self, _at: Offset) {
        stop(Access::Flush);
    }

    fn before_fence(&self) {
        stop(Access::Fence);
    }

    fn grow(&self, grow: impl FnOnce() -> Result<u64, SpaceError>) -> Result<(), SpaceError> {
        let mut entries = self.entries();
        entries.push(Entry::Grow(grow()?));
        Ok(())
    }
}

/// A pool on a [`Journal`].
pub(crate) struct Journaled(Option<Image>);

impl Backing for Journaled {
    type Medium = Slow;

    fn empty(limit_bytes: u64) -> (Self, Slow) {
        (Journaled(None), Either::Other(Journal::after(Image::default(), limit_bytes)))
    }

    fn holding(image: &Image, limit_bytes: u64) -> (Self, Slow) {
        (Journaled(None), Either::Other(Journal::after(image.clone(), limit_bytes)))
    }

    fn keep(&mut self, medium: &Slow) {
        self.0 = Some(Image::of(medium));
    }

    fn again(&self, limit_bytes: u64) -> Slow {
        Either::Other(Journal::after(self.0.clone().expect("kept"), limit_bytes))
    }
}
