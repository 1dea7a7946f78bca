//! Batches: what their operations need is fetched some operations ahead.

use super::ops::{Four, Hashes};
use super::{BATCH, Core};
use index::Fixed;
use pmem::Medium;

/// Operations ahead at which the bucket is fetched whose word was fetched at twice as many.
const NEAR: usize = BATCH / 2;

/// The keys of a batch, each with its hashes and buckets. Words of the sidecar are fetched [`BATCH`]
/// keys ahead, and the lines that these lead to [`NEAR`].
pub(super) struct Ahead<'a, M: Medium, K: Fixed, V: Fixed, T, F> {
    core: &'a Core<M, K, V>,
    items: &'a [T],
    key_of: F,
    inserts: bool,
    places: [(Hashes, Option<Four>); BATCH],
}

impl<'a, M: Medium, K: Fixed, V: Fixed, T, F: Fn(&T) -> K> Ahead<'a, M, K, V, T, F> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>, items: &'a [T], key_of: F, inserts: bool) -> Self {
        let places = [(Hashes::default(), None); BATCH];
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
        let hashes = self.core.hashes((self.key_of)(&self.items[index]));
        let four = self.core.four(&hashes);
        if let Some(four) = &four {
            self.core.prefetch_words(four);
        }
        self.places[index % BATCH] = (hashes, four);
    }

    #[inline(always)]
    fn fetch_lines(&self, index: usize) {
        if let (hashes, Some(four)) = &self.places[index % BATCH] {
            self.core.prefetch_item(hashes, four, self.inserts);
        }
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    pub(super) fn next(&mut self, index: usize) -> (K, Hashes, Option<Four>) {
        let (hashes, four) = self.places[index % BATCH];
        if index + BATCH < self.items.len() {
            self.fetch_words(index + BATCH);
        }
        if index + NEAR < self.items.len() {
            self.fetch_lines(index + NEAR);
        }
        ((self.key_of)(&self.items[index]), hashes, four)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Hints that the item with these hashes is about to be read; or, if there is none and
    /// `inserts`, that the slot is about to be written where it would be put.
    #[inline(always)]
    fn prefetch_item(&self, hashes: &Hashes, four: &Four, inserts: bool) {
        let words = self.see(four).words;
        let lanes = self.lanes_of_four(&words, hashes.print);
        let (turn, slot) = if lanes != 0 {
            self.first_of_four(lanes)
        } else {
            let turn = self.less_loaded(four, &words);
            match self.bucket.empty_slot(words[turn]) {
                Some(slot) if inserts => (turn, slot),
                _ => return,
            }
        };
        // The lines of the tokens and of the item's end.
        let at = self.at(four.places[turn]);
        self.medium().prefetch(at);
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch(at.add(beyond.end - 1));
        }
    }
}
