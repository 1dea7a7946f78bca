//! Batches: what their operations need is fetched some operations ahead.

use super::layout::slot_of_four;
use super::ops::Hash;
use super::search::{Four, Seen};
use super::{BATCH, Core};
use index::Fixed;
use pmem::Medium;

/// Operations ahead at which the bucket is fetched whose word was fetched at twice as many.
const NEAR: usize = BATCH / 2;

/// What is known of a key some operations ahead.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) hash: Hash,
    /// Its buckets, their words, and the slots with its fingerprint.
    pub(super) four: Option<Four>,
    pub(super) seen: Seen,
    pub(super) slots: u32,
}

/// The keys of a batch. Words of the sidecar are fetched [`BATCH`] keys ahead, and the lines that
/// these lead to [`NEAR`].
pub(super) struct Ahead<'a, M: Medium, K: Fixed, V: Fixed, T, F> {
    core: &'a Core<M, K, V>,
    items: &'a [T],
    key_of: F,
    inserts: bool,
    known: [Known; BATCH],
}

impl<'a, M: Medium, K: Fixed, V: Fixed, T, F: Fn(&T) -> K> Ahead<'a, M, K, V, T, F> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>, items: &'a [T], key_of: F, inserts: bool) -> Self {
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
    pub(super) fn key(&self, index: usize) -> (K, &Known) {
        ((self.key_of)(&self.items[index]), &self.known[index % BATCH])
    }

    /// Goes on from the key numbered `index`.
    #[inline(always)]
    pub(super) fn advance(&mut self, index: usize) {
        if index + BATCH < self.items.len() {
            self.fetch_words(index + BATCH);
        }
        if index + NEAR < self.items.len() {
            self.fetch_lines(index + NEAR);
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Hints that the item in the first of these slots is about to be read; or, if there is none and
    /// `inserts`, that the slot is about to be written where it would be put.
    #[inline(always)]
    fn prefetch_item(&self, four: &Four, seen: &Seen, slots: u32, inserts: bool) {
        let (turn, slot) = if slots != 0 {
            slot_of_four(slots.trailing_zeros())
        } else {
            match self.room(&seen.words) {
                Some(room) if inserts => room,
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
