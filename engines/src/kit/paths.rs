//! Operations with a fast path, which does what nearly all of them need, and a slow one, which does all: single and in
//! batches.

use super::ahead::{Ahead, BATCH, Known};
use super::change::Mutate;
use super::mutation::Likely;
use super::operations::Operations;
use super::unfenced::Unfenced;
use index::{Change, Error, Unfinished, are_words};
use pmem::Medium;

/// Whether mutations are compiled anew for each operation, for the instructions of a call that this saves. Not
/// where accesses cost more than that, nor for types that are not words, of which a program may have many.
const fn is_inlined<T: Operations>() -> bool {
    T::Medium::IS_BARE && are_words::<T::Key, T::Value>()
}

/// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state before. `decide` may
/// be called several times. `likely`: what it is expected to do.
#[inline(always)]
pub(super) fn mutate<T: Operations>(
    table: &T,
    key: T::Key,
    likely: Likely,
    decide: impl Fn(Option<T::Value>) -> Change<T::Value>,
) -> Result<Option<T::Value>, Error> {
    if const { is_inlined::<T>() } {
        mutate_one(table, key, likely, decide)
    } else {
        mutate_dyn(table, key, likely, &decide)
    }
}

/// [`mutate`] for many keys, with their cache misses overlapped and sharing fences.
pub(super) fn mutate_many<T: Operations, I>(
    table: &T,
    items: &[I],
    out: &mut [Option<T::Value>],
    key_of: impl Fn(&I) -> T::Key,
    likely: Likely,
    decide: impl Fn(&I, Option<T::Value>) -> Change<T::Value>,
) -> Result<(), Unfinished<Error>> {
    let key_at = |index: usize| key_of(&items[index]);
    let decide = |index: usize, found| decide(&items[index], found);
    let out = &mut out[..items.len()];
    if const { is_inlined::<T>() } {
        mutate_each(table, out, key_at, likely, decide)
    } else {
        mutate_each_dyn(table, out, &key_at, likely, &decide)
    }
}

/// Behind a virtual call mutations are compiled once a type, not once for each operation.
#[inline(never)]
pub(super) fn mutate_dyn<T: Operations>(
    table: &T,
    key: T::Key,
    likely: Likely,
    decide: &dyn Fn(Option<T::Value>) -> Change<T::Value>,
) -> Result<Option<T::Value>, Error> {
    mutate_one(table, key, likely, decide)
}

#[inline(always)]
fn mutate_one<T: Operations>(
    table: &T,
    key: T::Key,
    likely: Likely,
    decide: impl Fn(Option<T::Value>) -> Change<T::Value>,
) -> Result<Option<T::Value>, Error> {
    match table.mutate_alone(key, likely, &decide) {
        Some(before) => Ok(before),
        None => mutate_one_otherwise(table, key, likely, decide),
    }
}

/// [`Mutate::mutate_fast`] of a single key, of which nothing is foreseen yet.
#[inline(always)]
pub(crate) fn mutate_alone<T: Operations>(
    table: &T,
    key: T::Key,
    likely: Likely,
    decide: &impl Fn(Option<T::Value>) -> Change<T::Value>,
) -> Option<Option<T::Value>> {
    let mut known = Known::default();
    known.foresee(table, key);
    table.hint(&mut known, likely);
    Unfenced::alone(table, |unfenced| table.mutate_fast(unfenced, key, &known, likely, decide))
}

/// As `mutate_dyn`.
#[inline(never)]
fn mutate_each_dyn<T: Operations>(
    table: &T,
    out: &mut [Option<T::Value>],
    key_at: &dyn Fn(usize) -> T::Key,
    likely: Likely,
    decide: &dyn Fn(usize, Option<T::Value>) -> Change<T::Value>,
) -> Result<(), Unfinished<Error>> {
    mutate_each(table, out, key_at, likely, decide)
}

/// Replaces the states of as many keys as `out` has room for, in order.
#[inline(always)]
fn mutate_each<T: Operations>(
    table: &T,
    out: &mut [Option<T::Value>],
    key_at: impl Fn(usize) -> T::Key,
    likely: Likely,
    decide: impl Fn(usize, Option<T::Value>) -> Change<T::Value>,
) -> Result<(), Unfinished<Error>> {
    let mut unfenced = Unfenced::<T, BATCH>::new(table);
    let mut ahead = Ahead::new(table, out.len(), key_at, likely);
    for (index, out) in out.iter_mut().enumerate() {
        let (key, known) = ahead.key(index);
        let decide = |found| decide(index, found);
        *out = match table.mutate_fast(&mut unfenced, key, known, likely, &decide) {
            Some(before) => before,
            None => mutate_otherwise(table, &mut unfenced, key, likely, decide)
                .map_err(|error| Unfinished::at(index, error))?,
        };
        ahead.advance(index);
    }
    Ok(())
}

/// [`mutate_otherwise`] of a single key. With another `Unfenced`: that of the fast path stays in registers, since
/// nobody has an address of it. It has room for a batch, so that the slow path is compiled once for both.
#[cold]
#[inline(never)]
fn mutate_one_otherwise<T: Operations>(
    table: &T,
    key: T::Key,
    likely: Likely,
    decide: impl Fn(Option<T::Value>) -> Change<T::Value>,
) -> Result<Option<T::Value>, Error> {
    table.mutate_slow(&mut Unfenced::<T, BATCH>::new(table), key, likely, &decide)
}

/// [`Mutate::mutate_slow`], which is compiled once for all that may be decided. Here and not in the fast path `decide`
/// goes to memory, since that has an address of it.
#[cold]
#[inline(never)]
fn mutate_otherwise<'a, T: Operations, const MOST: usize>(
    table: &'a T,
    unfenced: &mut Unfenced<'a, T, MOST>,
    key: T::Key,
    likely: Likely,
    decide: impl Fn(Option<T::Value>) -> Change<T::Value>,
) -> Result<Option<T::Value>, Error> {
    table.mutate_slow(unfenced, key, likely, &decide)
}
