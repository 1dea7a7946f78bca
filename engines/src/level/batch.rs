//! Batches: what their operations need is fetched some operations ahead.

use super::layout::slot_of_four;
use super::ops::{Four, Hash};
use super::{BATCH, Core};
use index::Fixed;
use pmem::Medium;

/// Operations ahead at which the bucket is fetched whose word was fetched at twice as many.
const NEAR: usize = BATCH / 2;

/// The keys of a batch, each with its hash and buckets. Words of the sidecar are fetched [`BATCH`]
/// keys ahead, and the lines that these lead to [`NEAR`].
pub(super) struct Ahead<'a, M: Medium, K: Fixed, V: Fixed, T, F> {
    core: &'a Core<M, K, V>,
    items: &'a [T],
    key_of: F,
    inserts: bool,
    places: [(Hash, Option<Four>); BATCH],
}

impl<'a, M: Medium, K: Fixed, V: Fixed, T, F: Fn(&T) -> K> Ahead<'a, M, K, V, T, F> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>, items: &'a [T], key_of: F, inserts: bool) -> Self {
        let places = [(Hash::default(), None); BATCH];
        let mut ahead = Ahead { core, items, key_of, inserts, places };
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
        let hash = self.core.hash((self.key_of)(&self.items[index]));
        let four = self.core.four(hash);
        if let Some(four) = &four {
            self.core.prefetch_words(four);
        }
        self.places[index % BATCH] = (hash, four);
    }

    #[inline(always)]
    fn fetch_lines(&self, index: usize) {
        if let (hash, Some(four)) = self.places[index % BATCH] {
            self.core.prefetch_item(hash, &four, self.inserts);
        }
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    pub(super) fn next(&mut self, index: usize) -> (K, Hash, Option<Four>) {
        let (hash, four) = self.places[index % BATCH];
        if index + BATCH < self.items.len() {
            self.fetch_words(index + BATCH);
        }
        if index + NEAR < self.items.len() {
            self.fetch_lines(index + NEAR);
        }
        ((self.key_of)(&self.items[index]), hash, four)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Hints that the item with these hash is about to be read; or, if there is none and
    /// `inserts`, that the slot is about to be written where it would be put.
    #[inline(always)]
    fn prefetch_item(&self, hash: Hash, four: &Four, inserts: bool) {
        let words = self.see(four).words;
        let slots = self.bucket.slots_with(&words, self.print(hash));
        let (turn, slot) = if slots != 0 {
            slot_of_four(slots.trailing_zeros())
        } else {
            let turn = self.less_loaded(&words);
            match self.bucket.empty_slot(words[turn]) {
                Some(slot) if inserts => (turn, slot),
                _ => return,
            }
        };
        // The lines of the tokens and of the item's end.
        let at = self.at(four.place(turn));
        self.medium().prefetch(at);
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch(at.add(beyond.end - 1));
        }
    }
}
