//! Batches: what their operations need is fetched some operations ahead.

use super::Core;
use super::bucket::Unfenced;
use super::fast::{Four, Seen};
use super::layout::{Hash, slot_of_four};
use crate::mutation::Likely;
use index::{Change, Error, Fixed, are_words};
use pmem::Medium;

/// Operations of a batch whose buckets are being fetched at once, and most that share a fence.
const BATCH: usize = 16;
/// Operations ahead at which the bucket is fetched whose word was fetched at twice as many.
const NEAR: usize = BATCH / 2;

/// What is known of a key some operations ahead.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    hash: Hash,
    /// Its buckets, their words, and the slots with its fingerprint.
    four: Option<Four>,
    seen: Seen,
    slots: u32,
}

/// The keys of a batch. Words of the sidecar are fetched [`BATCH`] keys ahead, and the lines that
/// these lead to [`NEAR`].
struct Ahead<'a, M: Medium, K: Fixed, V: Fixed, T, F> {
    core: &'a Core<M, K, V>,
    items: &'a [T],
    key_of: F,
    inserts: bool,
    known: [Known; BATCH],
}

impl<'a, M: Medium, K: Fixed, V: Fixed, T, F: Fn(&T) -> K> Ahead<'a, M, K, V, T, F> {
    #[inline(always)]
    fn new(core: &'a Core<M, K, V>, items: &'a [T], key_of: F, inserts: bool) -> Self {
        let known = [Known::default(); BATCH];
        let mut ahead = Ahead { core, items, key_of, inserts, known };
        for index in 0..items.len().min(BATCH) {
            ahead.fetch_words(index);
        }
        for index in 0..items.len().min(NEAR) {
            ahead.fetch_lines(index);
        }
        ahead
    }

    #[inline(always)]
    fn fetch_words(&mut self, index: usize) {
        let known = &mut self.known[index % BATCH];
        known.hash = self.core.hash((self.key_of)(&self.items[index]));
        known.four = self.core.four(known.hash);
        if let Some(four) = &known.four {
            self.core.prefetch_words(four);
        }
    }

    #[inline(always)]
    fn fetch_lines(&mut self, index: usize) {
        let known = &mut self.known[index % BATCH];
        if let Some(four) = &known.four {
            known.seen = self.core.see(four);
            known.slots = self.core.slots_with(&known.seen, known.hash);
            self.core.prefetch_item(four, &known.seen, known.slots, self.inserts);
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
            self.fetch_words(index + BATCH);
        }
        if index + NEAR < self.items.len() {
            self.fetch_lines(index + NEAR);
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// [`Core::get`] for many keys, with their cache misses overlapped.
    pub(super) fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        let mut ahead = Ahead::new(self, keys, |&key| key, false);
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
        let inserts = likely == Likely::Inserts;
        if const { are_words::<K, V>() } {
            self.mutate_each(items, out, key_of, inserts, decide)
        } else {
            // As in `mutate`.
            let decide = &decide as &dyn Fn(&T, Option<V>) -> Change<V>;
            self.mutate_each(items, out, key_of, inserts, decide)
        }
    }

    fn mutate_each<T>(
        &self,
        items: &[T],
        out: &mut [Option<V>],
        key_of: impl Fn(&T) -> K,
        inserts: bool,
        decide: impl Fn(&T, Option<V>) -> Change<V>,
    ) -> Result<(), Error> {
        let mut unfenced = Unfenced::<M, K, V, BATCH>::new(self);
        let mut ahead = Ahead::new(self, items, key_of, inserts);
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
