//! Batches, in which cache misses overlap and fences are shared.

use super::Core;
use super::bucket::Unfenced;
use super::fast::{Seen, Two};
use crate::kit::ahead::Foresee;
use crate::kit::doubling::Hash;
use crate::kit::mutation::Likely;
use crate::kit::paths::Paths;
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
        if let Some(two) = &known.two {
            known.seen = self.see(two);
            known.slots = self.slots_with(&known.seen, known.hash);
            self.prefetch_likely(known, likely);
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

    #[inline(always)]
    fn mutate_alone(
        &self,
        key: K,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        self.mutate_alone(key, likely, decide)
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
}
