//! Batches, in which cache misses overlap and fences are shared.

use super::Core;
use super::bucket::Unfenced;
use super::fast::{Four, Seen};
use super::layout::{Hash, slot_of_four};
use crate::ahead::{Ahead, BATCH, Foresee};
use crate::mutation::Likely;
use index::{Change, Error, Fixed, are_words};
use pmem::Medium;

/// What is known of a key before its turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    hash: Hash,
    /// Its buckets, their words, and the slots with its fingerprint.
    four: Option<Four>,
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

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// [`Core::get`] for many keys, with their cache misses overlapped.
    pub(super) fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        let mut ahead = Ahead::new(self, keys, |&key| key, Likely::Updates);
        for (index, out) in out.iter_mut().enumerate().take(keys.len()) {
            let (key, known) = ahead.key(index);
            let fast = known
                .four
                .as_ref()
                .and_then(|four| self.find_fast(four, &known.seen, known.slots, key));
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
        let inserts = likely == Likely::Inserts;
        let mut unfenced = Unfenced::<M, K, V, BATCH>::new(self);
        let mut ahead = Ahead::new(self, items, key_of, likely);
        for (index, (item, out)) in items.iter().zip(out).enumerate() {
            let (key, known) = ahead.key(index);
            let (four, decide) = (known.four.as_ref(), |found| decide(item, found));
            *out = self.mutate_hashed(&mut unfenced, key, known.hash, four, inserts, decide)?;
            ahead.advance(index);
        }
        Ok(())
    }

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
