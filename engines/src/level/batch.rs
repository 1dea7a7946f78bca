//! Batches, in which cache misses overlap and fences are shared.

use super::Core;
use super::bucket::Unfenced;
use super::fast::{Four, Seen};
use super::layout::{Hash, slot_of_four};
use crate::kit::ahead::Foresee;
use crate::kit::mutation::Likely;
use crate::kit::paths::Paths;
use index::{Change, Error, Fixed, are_words};
use pmem::Medium;

/// What is known of a key before its turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) hash: Hash,
    /// Its buckets, their words, and the slots with its fingerprint.
    pub(super) four: Option<Four>,
    seen: Seen,
    slots: u32,
}

impl<M: Medium, K: Fixed, V: Fixed> Foresee<K> for Core<M, K, V> {
    type Known = Known;

    #[inline(always)]
    fn foresee(&self, key: K, known: &mut Known) {
        known.hash = self.hash(key);
        known.four = self.four(known.hash);
        if let Some(four) = &known.four {
            self.prefetch_words(four);
        }
    }

    #[inline(always)]
    fn look(&self, known: &mut Known, likely: Likely) {
        if let Some(four) = &known.four {
            known.seen = self.see(four);
            known.slots = self.slots_with(&known.seen, known.hash);
            self.prefetch_item(four, &known.seen, known.slots, likely == Likely::Inserts);
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
        let found = self.find_fast(known.four.as_ref()?, &known.seen, known.slots, key)?;
        Some(found.map(|found| found.value))
    }

    fn get_slow(&self, key: K) -> Option<V> {
        self.get_slow(key)
    }

    #[inline(always)]
    fn hint(&self, known: &mut Known, _likely: Likely) {
        if let Some(four) = &known.four {
            self.prefetch_likely(four);
        }
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
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Hints that the item in the first of these slots is about to be read; or, if there is none and
    /// `inserts`, that the slot is about to be written where it would be put.
    #[inline(always)]
    fn prefetch_item(&self, four: &Four, seen: &Seen, slots: u32, inserts: bool) {
        let (nth, slot) = if slots != 0 {
            slot_of_four(slots.trailing_zeros())
        } else {
            match self.room(&seen.words) {
                Some(room) if inserts => room,
                _ => return,
            }
        };
        // The lines of the tokens and of the item's end.
        let at = self.at(four.bucket(nth));
        self.medium().prefetch(at);
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch(at.add(beyond.end - 1));
        }
    }
}
