//! Values and iterators, as calls lend, use and release them.

use crate::code::Code;
use crate::failure::Failure;
use crate::handle::Kind;
use crate::held::{Cursor, Thing, released};
use crate::pools::{Opened, Visit};
use crate::threads;
use firndex::{Iter, Record, Store, StoreIter};

#[cold]
fn ending() -> Failure {
    Failure::new(
        Code::Thread,
        "the calling thread is ending, and has released what it held: it can hold no values and iterators any more; \
         copy values with `firndex_store_get`",
    )
}

/// Something that a call may hold later. It is asked for before the call changes anything.
pub(crate) fn check_room(more: usize) -> Result<(), Failure> {
    threads::with_held(|held, thread| held.check_room(more, thread))
        .unwrap_or_else(|| Err(ending()))
}

fn keep<T: Opened>(visit: &Visit<T>, thing: Thing) -> Result<u64, Failure> {
    threads::with_held(|held, thread| {
        held.check_room(1, thread)?;
        Ok(held.keep(visit.handle(), thing, thread))
    })
    .unwrap_or_else(|| Err(ending()))
}

/// Holds a value; its handle.
pub(crate) fn keep_value(visit: &Visit<Store>, record: Record<'_>) -> Result<u64, Failure> {
    // SAFETY: it is only its lifetime that changes, which is that of the store. The store is not freed before the
    // record: a close finds this visit, and after it the hold that `keep` counts; it is counted until the record is
    // dropped, and if there is no room it is dropped here.
    let record = unsafe { std::mem::transmute::<Record<'_>, Record<'static>>(record) };
    keep(visit, Thing::Value { _record: record })
}

/// Holds an iterator over a store; its handle.
pub(crate) fn keep_store_iterator(visit: &Visit<Store>) -> Result<u64, Failure> {
    let pairs = visit.iter();
    // SAFETY: as in `keep_value`. A close of the same thread drops the iterator before the store.
    let pairs = unsafe { std::mem::transmute::<StoreIter<'_>, StoreIter<'static>>(pairs) };
    keep(visit, Thing::StoreIterator(Box::new(Cursor { pairs: Some(pairs), last: None })))
}

/// Holds an iterator over a table; its handle.
pub(crate) fn keep_table_iterator(visit: &Visit<crate::pools::Table>) -> Result<u64, Failure> {
    let pairs = visit.iter();
    // SAFETY: as in `keep_value`. A close of the same thread drops the iterator before the table.
    let pairs =
        unsafe { std::mem::transmute::<Iter<'_, u64, u64>, Iter<'static, u64, u64>>(pairs) };
    keep(visit, Thing::TableIterator(Box::new(Cursor { pairs: Some(pairs), last: None })))
}

/// Ends what the calling thread holds with this handle.
pub(crate) fn release(handle: u64, kind: Kind) -> Result<(), Failure> {
    threads::with_held(|held, thread| {
        let place = held.find(handle, kind, thread)?;
        held.let_go(place, thread);
        Ok(())
    })
    // Its end has released everything.
    .unwrap_or_else(|| Err(released(kind)))
}

fn with_thing<R>(
    handle: u64,
    kind: Kind,
    use_it: impl FnOnce(&mut Thing) -> Result<R, Failure>,
) -> Result<R, Failure> {
    threads::with_held(|held, thread| {
        let place = held.find(handle, kind, thread)?;
        match &mut held.entries[place] {
            Some(entry) => use_it(&mut entry.thing),
            None => Err(released(kind)),
        }
    })
    .unwrap_or_else(|| Err(released(kind)))
}

/// Calls `tell` with the next pair of a store's iterator. The pair stays in place until the next call. Returns `None`
/// at the end.
pub(crate) fn next_of_store<R>(
    handle: u64,
    tell: impl FnOnce(&[u8], &[u8]) -> R,
) -> Result<Option<R>, Failure> {
    with_thing(handle, Kind::StoreIterator, |thing| match thing {
        Thing::StoreIterator(cursor) => Ok(cursor.next()?.map(|(key, value)| tell(key, value))),
        _ => Err(released(Kind::StoreIterator)),
    })
}

/// The next pair of a table's iterator. Returns `None` at the end.
pub(crate) fn next_of_table(handle: u64) -> Result<Option<(u64, u64)>, Failure> {
    with_thing(handle, Kind::TableIterator, |thing| match thing {
        Thing::TableIterator(cursor) => Ok(cursor.next()?.copied()),
        _ => Err(released(Kind::TableIterator)),
    })
}
