//! Values and iterators that a thread holds.
//!
//! Both keep items of a pool in place for one thread, so they belong to the thread that got them, and end with it.
//! Their handles say so:
//!
//! ```text
//!   63     60 59          48 47             28 27                          0
//!  +---------+--------------+-----------------+-----------------------------+
//!  |  kind   |  thread      |  place          |  how many were given before |
//!  +---------+--------------+-----------------+-----------------------------+
//! ```

use crate::code::Code;
use crate::failure::Failure;
use crate::handle::{KIND_SHIFT, Kind, slot_of};
use crate::places::Thread;
use firndex::{Iter, Record, StoreIter};

const GIVEN_BITS: u32 = 28;
const PLACE_BITS: u32 = 20;
const THREAD_SHIFT: u32 = GIVEN_BITS + PLACE_BITS;
const GIVEN_MASK: u32 = (1 << GIVEN_BITS) - 1;
/// Values and iterators that a thread may hold at once.
const HELD_MAX: usize = 1 << PLACE_BITS;
/// Threads that may hold some at once.
const THREADS_MAX: u32 = 1 << (KIND_SHIFT - THREAD_SHIFT);

/// Borrows a pool that stays open while it is held: its lifetime is that of the hold.
pub(crate) enum Thing {
    Value { _record: Record<'static> },
    StoreIterator(Box<StoreCursor>),
    TableIterator(Box<TableCursor>),
}

type StoreCursor = Cursor<StoreIter<'static>, (Vec<u8>, Vec<u8>)>;
type TableCursor = Cursor<Iter<'static, u64, u64>, (u64, u64)>;

/// An iterator, and the pair that it returned last, which the caller may still read when the pool is closed.
pub(crate) struct Cursor<I, P> {
    /// `None` once the pool is closed.
    pub(crate) pairs: Option<I>,
    pub(crate) last: Option<P>,
}

impl<P, I: Iterator<Item = firndex::Result<P>>> Cursor<I, P> {
    pub(crate) fn next(&mut self) -> Result<Option<&P>, Failure> {
        let Some(pairs) = &mut self.pairs else {
            let message = "the iterator's store or table was closed; free the iterator, and make \
                           another one when it is open again";
            return Err(Failure::new(Code::Closed, message));
        };
        self.last = pairs.next().transpose()?;
        Ok(self.last.as_ref())
    }
}

impl Thing {
    fn kind(&self) -> Kind {
        match self {
            Thing::Value { .. } => Kind::Value,
            Thing::StoreIterator(_) => Kind::StoreIterator,
            Thing::TableIterator(_) => Kind::TableIterator,
        }
    }

    /// Whether it borrows its pool.
    fn borrows(&self) -> bool {
        match self {
            Thing::Value { .. } => true,
            Thing::StoreIterator(cursor) => cursor.pairs.is_some(),
            Thing::TableIterator(cursor) => cursor.pairs.is_some(),
        }
    }

    fn end(&mut self) {
        match self {
            Thing::Value { .. } => {}
            Thing::StoreIterator(cursor) => cursor.pairs = None,
            Thing::TableIterator(cursor) => cursor.pairs = None,
        }
    }
}

pub(crate) struct Entry {
    handle: u64,
    /// The handle of its pool.
    pool: u64,
    pub(crate) thing: Thing,
}

/// What one thread holds.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) entries: Vec<Option<Entry>>,
    free: Vec<u32>,
}

impl Held {
    /// Whether so many more can be held.
    pub(crate) fn check_room(&self, more: usize, thread: &Thread) -> Result<(), Failure> {
        let held = self.entries.len() - self.free.len();
        if thread.number >= THREADS_MAX {
            let message = format!(
                "more than {THREADS_MAX} threads make calls, and only so many can hold values and iterators: copy \
                 values with `firndex_store_get`, or use fewer threads"
            );
            return Err(Failure::new(Code::TooMany, message));
        }
        if HELD_MAX - held < more {
            let message = format!(
                "this thread holds {held} values and iterators, and would hold {more} more, at most {HELD_MAX} are \
                 possible: release some, or ask for fewer at once"
            );
            return Err(Failure::new(Code::TooMany, message));
        }
        Ok(())
    }

    /// Holds it for the calling thread, which has been found to have room; the handle.
    pub(crate) fn keep(&mut self, pool: u64, thing: Thing, thread: &Thread) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        let handle = (thing.kind() as u64) << KIND_SHIFT
            | u64::from(thread.number) << THREAD_SHIFT
            | u64::from(place) << GIVEN_BITS
            | u64::from(thread.next_handle() & GIVEN_MASK);
        thread.hold(slot_of(pool));
        self.entries[place as usize] = Some(Entry { handle, pool, thing });
        handle
    }

    /// The place of what has this handle.
    pub(crate) fn find(&self, handle: u64, kind: Kind, thread: &Thread) -> Result<usize, Failure> {
        kind.check(handle)?;
        let of = (handle >> THREAD_SHIFT) as u32 % THREADS_MAX;
        if of != thread.number {
            return Err(Failure::new(
                Code::Thread,
                format!(
                    "this is {} of another thread: use and release it in the thread that got it",
                    kind.noun()
                ),
            ));
        }
        let place = (handle >> GIVEN_BITS) as usize % HELD_MAX;
        match self.entries.get(place) {
            Some(Some(entry)) if entry.handle == handle => Ok(place),
            _ => Err(released(kind)),
        }
    }

    pub(crate) fn let_go(&mut self, place: usize, thread: &Thread) {
        let Some(entry) = self.entries[place].take() else { return };
        let borrows = entry.thing.borrows();
        // Before it is no longer counted, and its pool may be closed.
        drop(entry.thing);
        if borrows {
            thread.let_go(slot_of(entry.pool));
        }
        self.free.push(place as u32);
    }

    /// The thread ends.
    pub(crate) fn release_all(&mut self, thread: &Thread) {
        for place in 0..self.entries.len() {
            self.let_go(place, thread);
        }
    }

    fn iterators_of_mut(&mut self, pool: u64) -> impl Iterator<Item = &mut Thing> {
        let entries = self.entries.iter_mut().flatten().filter(move |entry| entry.pool == pool);
        let things = entries.map(|entry| &mut entry.thing);
        things.filter(|thing| thing.kind() != Kind::Value && thing.borrows())
    }

    /// How many iterators of a pool, not ended yet, the thread has.
    pub(crate) fn iterators_of(&mut self, pool: u64) -> u64 {
        self.iterators_of_mut(pool).count() as u64
    }

    /// Ends the thread's iterators of a pool, which is about to be closed.
    pub(crate) fn end_iterators_of(&mut self, pool: u64, thread: &Thread) {
        for thing in self.iterators_of_mut(pool) {
            thing.end();
            thread.let_go(slot_of(pool));
        }
    }
}

#[cold]
pub(crate) fn released(kind: Kind) -> Failure {
    let message = match kind {
        Kind::Value => "the value was released before; release each value once",
        _ => {
            "the iterator was freed before; free each iterator once, and make another one to go on"
        }
    };
    Failure::new(Code::Released, message)
}
