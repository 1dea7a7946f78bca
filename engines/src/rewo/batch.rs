//! Batches, in which cache misses overlap and fences are shared.

use super::Core;
use super::bucket::Unfenced;
use super::fast::{Seen, Two, slot_of_two};
use crate::kit::ahead::{BATCH, Foresee};
use crate::kit::doubling::{Hash, slots_in};
use crate::kit::mutation::Likely;
use crate::kit::paths::{Paths, get_each};
use index::{Change, Error, Fixed, are_words};
use pmem::Medium;

/// What is known of a key before its turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) hash: Hash,
    /// Its buckets, what they show, and the slots with its fingerprint.
    pub(super) two: Option<Two>,
    pub(super) seen: Seen,
    pub(super) slots: u32,
}

impl<M: Medium, K: Fixed, V: Fixed> Foresee<K> for Core<M, K, V> {
    type Known = Known;

    #[inline(always)]
    fn foresee(&self, key: K, known: &mut Known) {
        known.hash = self.hash(key);
        known.two = self.two(known.hash);
        if let Some(two) = &known.two {
            self.prefetch_records(two);
        }
    }

    #[inline(always)]
    fn look(&self, known: &mut Known, likely: Likely) {
        if likely != Likely::Inserts
            && let Some(cache) = &self.cache
        {
            // An entry of a key that changes is marked before the change.
            cache.prefetch(known.hash);
        }
        if let Some(two) = &known.two {
            known.seen = self.see(two);
            known.slots = self.slots_with(&known.seen, known.hash);
            if known.slots != 0 {
                let (nth, slot) = slot_of_two(known.slots.trailing_zeros());
                let at = self.at(two.buckets[nth]);
                if self.changes_meta(likely) {
                    self.prefetch_slot(at, slot);
                } else {
                    self.medium().prefetch_write(at.add(self.bucket.item_at(slot)));
                }
            } else if likely == Likely::Inserts
                && let Some((nth, slot)) = self.room(&known.seen)
            {
                self.prefetch_slot(self.at(two.buckets[nth]), slot);
            }
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Paths<K, V> for Core<M, K, V> {
    type Unfenced<'a, const MOST: usize>
        = Unfenced<'a, M, K, V, MOST>
    where
        Self: 'a;

    const IS_INLINED: bool = M::IS_BARE && are_words::<K, V>();

    #[inline(always)]
    fn unfenced<const MOST: usize>(&self) -> Self::Unfenced<'_, MOST> {
        Unfenced::new(self)
    }

    #[inline(always)]
    fn get_fast(&self, key: K, known: &Known) -> Option<Option<V>> {
        let found = self.find_fast(known.two.as_ref()?, &known.seen, known.slots, key)?;
        Some(found.map(|found| found.value))
    }

    fn get_slow(&self, key: K) -> Option<V> {
        self.get_slow(key)
    }

    #[inline(always)]
    fn mutate_fast<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Self::Unfenced<'a, MOST>,
        key: K,
        known: &Known,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        self.mutate_fast(unfenced, key, known, likely, decide)
    }

    fn mutate_slow<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Self::Unfenced<'a, MOST>,
        key: K,
        likely: Likely,
        decide: &dyn Fn(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error> {
        self.mutate_slow(unfenced, key, likely, decide)
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        let Some(cache) = &self.cache else { return get_each(self, keys, out) };
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let mut known = [Known::default(); BATCH];
            for (known, &key) in known.iter_mut().zip(keys) {
                self.foresee(key, known);
                cache.prefetch(known.hash);
            }
            let mut missed = 0;
            for (index, ((out, &key), known)) in
                out.iter_mut().zip(keys).zip(&mut known).enumerate()
            {
                match self.ask_cache(cache, key, known.hash) {
                    Some(answer) => *out = answer,
                    None => {
                        missed |= 1 << index;
                        self.look(known, Likely::Updates);
                    }
                }
            }
            for index in slots_in(missed) {
                out[index] = self.get_uncached(cache, keys[index], &known[index]);
            }
        }
    }
}
