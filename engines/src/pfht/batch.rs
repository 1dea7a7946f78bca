//! Batches, in which cache misses overlap and fences are shared.

use super::Core;
use super::bucket::Unfenced;
use super::fast::{Seen, Two, slot_of_two};
use crate::ahead::{Ahead, BATCH, Foresee};
use crate::doubling::Hash;
use crate::mutation::Likely;
use index::{Change, Error, Fixed, are_words};
use pmem::Medium;

/// What is known of a key before its turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    hash: Hash,
    /// Its buckets, what they show, and the slots with its fingerprint.
    two: Option<Two>,
    seen: Seen,
    slots: u32,
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
            let (nth, slot) = match self.room(&known.seen) {
                _ if known.slots != 0 => slot_of_two(known.slots.trailing_zeros()),
                Some(room) if likely == Likely::Inserts => room,
                _ => return,
            };
            self.prefetch_slot(self.at(two.buckets[nth]), slot);
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// [`Core::get`] for many keys, with their cache misses overlapped.
    pub(super) fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
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
