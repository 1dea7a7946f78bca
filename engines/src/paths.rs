//! Operations with a fast path and a slow one, single and in batches: what an engine has to say of its own, and what
//! follows from it.

use crate::ahead::{Ahead, BATCH, Foresee};
use crate::mutation::Likely;
use index::{Change, Error, Fixed, are_words};

/// A table whose operations have a fast path, which does what nearly all of them need, and a slow one, which does all.
pub(crate) trait Paths<K: Fixed, V: Fixed>: Foresee<K> + Sized {
    /// Changes whose flushes have begun and whose fence is still to come, at most `MOST`, with their locks. What is left
    /// when it is dropped is made durable, then visible.
    type Unfenced<'a, const MOST: usize>
    where
        Self: 'a;

    fn unfenced<const MOST: usize>(&self) -> Self::Unfenced<'_, MOST>;

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
        // Of types that are not words a program may have many: their copies of the fast path would add up.
        if const { are_words::<K, V>() } {
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
    ) -> Result<(), Error> {
        if const { are_words::<K, V>() } {
            mutate_each(self, items, out, key_of, likely, decide)
        } else {
            // As in `mutate`.
            let decide = &decide as &dyn Fn(&T, Option<V>) -> Change<V>;
            mutate_each(self, items, out, key_of, likely, decide)
        }
    }
}

/// [`Paths::get_many`] by the fast path, where that suffices.
pub(crate) fn get_each<K: Fixed, V: Fixed, P: Paths<K, V>>(
    table: &P,
    keys: &[K],
    out: &mut [Option<V>],
) {
    let mut ahead = Ahead::new(table, keys, |&key| key, Likely::Updates);
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

fn mutate_each<K: Fixed, V: Fixed, P: Paths<K, V>, T>(
    table: &P,
    items: &[T],
    out: &mut [Option<V>],
    key_of: impl Fn(&T) -> K,
    likely: Likely,
    decide: impl Fn(&T, Option<V>) -> Change<V>,
) -> Result<(), Error> {
    let mut unfenced = table.unfenced::<BATCH>();
    let mut ahead = Ahead::new(table, items, key_of, likely);
    for (index, (item, out)) in items.iter().zip(out).enumerate() {
        let (key, known) = ahead.key(index);
        let decide = |found| decide(item, found);
        *out = match table.mutate_fast(&mut unfenced, key, known, likely, &decide) {
            Some(before) => before,
            None => mutate_otherwise(table, &mut unfenced, key, likely, decide)?,
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
