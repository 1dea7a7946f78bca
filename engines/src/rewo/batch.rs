//! Batches: what their operations need is fetched some operations ahead.

use super::Core;
use super::bucket::Unfenced;
use super::fast::{Seen, Two, slot_of_two};
use super::layout::Hash;
use crate::mutation::Likely;
use index::{Change, Error, Fixed, are_words};
use pmem::Medium;

/// Operations of a batch whose records are being fetched at once, and most that share a fence.
const BATCH: usize = 16;
/// Operations ahead at which the slot is fetched whose record was fetched at twice as many.
const NEAR: usize = BATCH / 2;

/// What is known of a key some operations ahead.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    hash: Hash,
    /// Its buckets, what they show, and the slots with its fingerprint.
    two: Option<Two>,
    seen: Seen,
    slots: u32,
}

/// The keys of a batch. Records are fetched [`BATCH`] keys ahead, and the lines that these lead to
/// [`NEAR`].
struct Ahead<'a, M: Medium, K: Fixed, V: Fixed, T, F> {
    core: &'a Core<M, K, V>,
    items: &'a [T],
    key_of: F,
    likely: Likely,
    known: [Known; BATCH],
}

impl<'a, M: Medium, K: Fixed, V: Fixed, T, F: Fn(&T) -> K> Ahead<'a, M, K, V, T, F> {
    #[inline(always)]
    fn new(core: &'a Core<M, K, V>, items: &'a [T], key_of: F, likely: Likely) -> Self {
        let known = [Known::default(); BATCH];
        let mut ahead = Ahead { core, items, key_of, likely, known };
        for index in 0..items.len().min(BATCH) {
            ahead.fetch_records(index);
        }
        for index in 0..items.len().min(NEAR) {
            ahead.fetch_slot(index);
        }
        ahead
    }

    #[inline(always)]
    fn fetch_records(&mut self, index: usize) {
        let known = &mut self.known[index % BATCH];
        known.hash = self.core.hash((self.key_of)(&self.items[index]));
        known.two = self.core.two(known.hash);
        if let Some(two) = &known.two {
            self.core.prefetch_records(two);
        }
    }

    #[inline(always)]
    fn fetch_slot(&mut self, index: usize) {
        let known = &mut self.known[index % BATCH];
        if let Some(two) = &known.two {
            known.seen = self.core.see(two);
            known.slots = self.core.slots_with(&known.seen, known.hash);
            let (nth, slot) = match self.core.room(&known.seen) {
                _ if known.slots != 0 => slot_of_two(known.slots.trailing_zeros()),
                Some(room) if self.likely == Likely::Inserts => room,
                _ => return,
            };
            self.core.prefetch_slot(self.core.at(two.buckets[nth]), slot);
        }
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    fn key(&self, index: usize) -> (K, &Known) {
        ((self.key_of)(&self.items[index]), &self.known[index % BATCH])
    }

    /// Goes on from the key numbered `index`.
    #[inline(always)]
    fn advance(&mut self, index: usize) {
        if index + BATCH < self.items.len() {
            self.fetch_records(index + BATCH);
        }
        if index + NEAR < self.items.len() {
            self.fetch_slot(index + NEAR);
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// [`Core::get`] for many keys, with their cache misses overlapped.
    pub(super) fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        if let Some(cache) = &self.cache {
            let each = keys.iter().zip(out);
            return each.for_each(|(&key, out)| *out = self.get_cached(cache, key));
        }
        let mut ahead = Ahead::new(self, keys, |&key| key, Likely::Updates);
        for (index, out) in out.iter_mut().enumerate().take(keys.len()) {
            let (key, known) = ahead.key(index);
            let fast = known
                .two
                .as_ref()
                .and_then(|two| self.find_fast(two, &known.seen, known.slots, key));
            *out = match fast {
                Some(found) => found.map(|found| found.value),
                None => self.get_slow(key),
            };
            ahead.advance(index);
        }
    }

    /// [`Core::mutate`] for many keys, with their cache misses overlapped and sharing fences.
    pub(super) fn mutate_many<T>(
        &self,
        items: &[T],
        out: &mut [Option<V>],
        key_of: impl Fn(&T) -> K,
        likely: Likely,
        decide: impl Fn(&T, Option<V>) -> Change<V>,
    ) -> Result<(), Error> {
        if const { are_words::<K, V>() } {
            self.mutate_each(items, out, key_of, likely, decide)
        } else {
            // As in `mutate`.
            let decide = &decide as &dyn Fn(&T, Option<V>) -> Change<V>;
            self.mutate_each(items, out, key_of, likely, decide)
        }
    }

    fn mutate_each<T>(
        &self,
        items: &[T],
        out: &mut [Option<V>],
        key_of: impl Fn(&T) -> K,
        likely: Likely,
        decide: impl Fn(&T, Option<V>) -> Change<V>,
    ) -> Result<(), Error> {
        let mut unfenced = Unfenced::<M, K, V, BATCH>::new(self);
        let mut ahead = Ahead::new(self, items, key_of, likely);
        for (index, (item, out)) in items.iter().zip(out).enumerate() {
            let (key, known) = ahead.key(index);
            let (two, decide) = (known.two.as_ref(), |found| decide(item, found));
            *out = self.mutate_hashed(&mut unfenced, key, known.hash, two, likely, decide)?;
            ahead.advance(index);
        }
        Ok(())
    }
}
