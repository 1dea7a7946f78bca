//! Operations with a fast path and a slow one, single and in batches: what an engine must provide, and what follows
//! from it.

use crate::kit::ahead::{Ahead, BATCH, Foresee};
use crate::kit::mutation::Likely;
use index::{Change, Error, Fixed, Unfinished};

/// A table whose operations have a fast path, which does what nearly all of them need, and a slow one, which does all.
pub(crate) trait Paths<K: Fixed, V: Fixed>: Foresee<K> + Sized {
    /// Changes whose flushes have begun and whose fence is still to come, at most `MOST`, with their locks. What is
    /// left when it is dropped is made durable, then visible.
    type Unfenced<'a, const MOST: usize>
    where
        Self: 'a;

    fn unfenced<const MOST: usize>(&self) -> Self::Unfenced<'_, MOST>;

    /// Whether mutations are compiled anew for each operation, for the instructions of a call that this saves. Not
    /// where its accesses cost more than that, nor for types that are not words, of which a program may have many.
    const IS_INLINED: bool;

    /// What has been foreseen of a key tells its value; `None`: it is left to the slow path.
    fn get_fast(&self, key: K, known: &Self::Known) -> Option<Option<V>>;

    fn get_slow(&self, key: K) -> Option<V>;

    /// Hints at what a single mutation is about to read and write. This comes before its first lock, whose
    /// instruction waits for all earlier stores: so the misses overlap with those of the mutation before.
    #[inline(always)]
    fn hint(&self, known: &mut Self::Known, likely: Likely) {
        self.look(known, likely);
    }

    /// As [`Paths::mutate_slow`]; returns the state before, or `None`: nothing was done.
    fn mutate_fast<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Self::Unfenced<'a, MOST>,
        key: K,
        known: &Self::Known,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>>;

    /// [`Paths::mutate_fast`] of a single key, of which nothing is foreseen yet.
    #[inline(always)]
    fn mutate_alone(
        &self,
        key: K,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        let mut known = Self::Known::default();
        self.foresee(key, &mut known);
        self.hint(&mut known, likely);
        self.mutate_fast(&mut self.unfenced::<1>(), key, &known, likely, decide)
    }

    /// As [`Paths::mutate`], with a fence that may be still to come.
    fn mutate_slow<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Self::Unfenced<'a, MOST>,
        key: K,
        likely: Likely,
        decide: &dyn Fn(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error>;

    /// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state before. `decide` may
    /// be called several times. `likely`: what it is expected to do.
    #[inline(always)]
    fn mutate(
        &self,
        key: K,
        likely: Likely,
        decide: impl Fn(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error> {
        if const { Self::IS_INLINED } {
            mutate_one(self, key, likely, decide)
        } else {
            mutate_dyn(self, key, likely, &decide)
        }
    }

    /// The values of many keys, with their cache misses overlapped.
    #[inline(always)]
    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        get_each(self, keys, out);
    }

    /// [`Paths::mutate`] for many keys, with their cache misses overlapped and sharing fences.
    fn mutate_many<T>(
        &self,
        items: &[T],
        out: &mut [Option<V>],
        key_of: impl Fn(&T) -> K,
        likely: Likely,
        decide: impl Fn(&T, Option<V>) -> Change<V>,
    ) -> Result<(), Unfinished<Error>> {
        let key_at = |index: usize| key_of(&items[index]);
        let decide = |index: usize, found| decide(&items[index], found);
        let out = &mut out[..items.len()];
        if const { Self::IS_INLINED } {
            mutate_each(self, out, key_at, likely, decide)
        } else {
            mutate_each_dyn(self, out, &key_at, likely, &decide)
        }
    }
}

/// [`Paths::get_many`] by the fast path, where that suffices.
pub(crate) fn get_each<K: Fixed, V: Fixed, P: Paths<K, V>>(
    table: &P,
    keys: &[K],
    out: &mut [Option<V>],
) {
    let mut ahead = Ahead::new(table, keys.len(), |index| keys[index], Likely::Updates);
    for (index, out) in out.iter_mut().enumerate().take(keys.len()) {
        let (key, known) = ahead.key(index);
        *out = match table.get_fast(key, known) {
            Some(found) => found,
            None => table.get_slow(key),
        };
        ahead.advance(index);
    }
}

/// Behind a virtual call mutations are compiled once a type, not once for each operation.
#[inline(never)]
fn mutate_dyn<K: Fixed, V: Fixed, P: Paths<K, V>>(
    table: &P,
    key: K,
    likely: Likely,
    decide: &dyn Fn(Option<V>) -> Change<V>,
) -> Result<Option<V>, Error> {
    mutate_one(table, key, likely, decide)
}

#[inline(always)]
fn mutate_one<K: Fixed, V: Fixed, P: Paths<K, V>>(
    table: &P,
    key: K,
    likely: Likely,
    decide: impl Fn(Option<V>) -> Change<V>,
) -> Result<Option<V>, Error> {
    match table.mutate_alone(key, likely, &decide) {
        Some(before) => Ok(before),
        // With another `Unfenced`: that of the fast path stays in registers, since nobody has an address of it.
        None => mutate_otherwise(table, &mut table.unfenced::<1>(), key, likely, decide),
    }
}

/// As `mutate_dyn`.
#[inline(never)]
fn mutate_each_dyn<K: Fixed, V: Fixed, P: Paths<K, V>>(
    table: &P,
    out: &mut [Option<V>],
    key_at: &dyn Fn(usize) -> K,
    likely: Likely,
    decide: &dyn Fn(usize, Option<V>) -> Change<V>,
) -> Result<(), Unfinished<Error>> {
    mutate_each(table, out, key_at, likely, decide)
}

/// Replaces the states of as many keys as `out` has room for, in order.
#[inline(always)]
fn mutate_each<K: Fixed, V: Fixed, P: Paths<K, V>>(
    table: &P,
    out: &mut [Option<V>],
    key_at: impl Fn(usize) -> K,
    likely: Likely,
    decide: impl Fn(usize, Option<V>) -> Change<V>,
) -> Result<(), Unfinished<Error>> {
    let mut unfenced = table.unfenced::<BATCH>();
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

/// [`Paths::mutate_slow`], which is compiled once for all that may be decided. Here and not in the fast path `decide`
/// goes to memory, since that has an address of it.
#[cold]
#[inline(never)]
fn mutate_otherwise<'a, K: Fixed, V: Fixed, P: Paths<K, V>, const MOST: usize>(
    table: &'a P,
    unfenced: &mut P::Unfenced<'a, MOST>,
    key: K,
    likely: Likely,
    decide: impl Fn(Option<V>) -> Change<V>,
) -> Result<Option<V>, Error> {
    table.mutate_slow(unfenced, key, likely, &decide)
}
