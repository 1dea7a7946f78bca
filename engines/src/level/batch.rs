//! Batches: what their operations need is fetched some operations ahead.

use super::layout::Resize;
use super::ops::Hashes;
use super::{BATCH, Core};
use index::Fixed;
use pmem::sync::Ordering;
use pmem::{Medium, Offset};

/// Operations ahead at which the bucket is fetched whose word was fetched at twice as many.
const NEAR: usize = BATCH / 2;

/// The keys of a batch, each with its hashes. Words of the sidecar are fetched [`BATCH`] keys ahead,
/// and the lines that these lead to [`NEAR`].
pub(super) struct Ahead<'a, M: Medium, K: Fixed, V: Fixed, T, F> {
    core: &'a Core<M, K, V>,
    items: &'a [T],
    key_of: F,
    inserts: bool,
    hashes: [Hashes; BATCH],
}

impl<'a, M: Medium, K: Fixed, V: Fixed, T, F: Fn(&T) -> K> Ahead<'a, M, K, V, T, F> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>, items: &'a [T], key_of: F, inserts: bool) -> Self {
        let hashes = [Hashes::default(); BATCH];
        let mut ahead = Ahead { core, items, key_of, inserts, hashes };
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
        self.core.prefetch(self.core.geometry(), &hashes);
        self.hashes[index % BATCH] = hashes;
    }

    #[inline(always)]
    fn fetch_lines(&self, index: usize) {
        self.core.prefetch_item(&self.hashes[index % BATCH], self.inserts);
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    pub(super) fn next(&mut self, index: usize) -> (K, Hashes) {
        let hashes = self.hashes[index % BATCH];
        if index + BATCH < self.items.len() {
            self.fetch_words(index + BATCH);
        }
        if index + NEAR < self.items.len() {
            self.fetch_lines(index + NEAR);
        }
        ((self.key_of)(&self.items[index]), hashes)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Hints that the item with these hashes is about to be read; or, if there is none and
    /// `inserts`, that the slot is about to be written where it would be put.
    #[inline(always)]
    fn prefetch_item(&self, hashes: &Hashes, inserts: bool) {
        let geometry = self.geometry();
        if geometry.resize() != Resize::No {
            return;
        }
        let places = self.four_places(geometry, hashes);
        let mut words = [0; 4];
        for turn in 0..4 {
            words[turn] = self.word(places[turn]).load(Ordering::Relaxed);
        }
        let lanes = self.lanes_of_four(&words, hashes.print);
        let (at, slot) = if lanes != 0 {
            let (turn, slot) = self.first_of_four(lanes);
            (self.at(places[turn]), slot)
        } else if inserts {
            let [place, _] = self.less_loaded_first(self.places(geometry.top(), hashes));
            let word = self.word(place).load(Ordering::Relaxed);
            let Some(slot) = self.bucket.empty_slot(word) else { return };
            (self.at(place), slot)
        } else {
            return;
        };
        self.prefetch_slot(at, slot);
    }

    /// The lines of the tokens and of the item's end.
    #[inline(always)]
    fn prefetch_slot(&self, at: Offset, slot: usize) {
        self.medium().prefetch(at);
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch(at.add(beyond.end - 1));
        }
    }
}
