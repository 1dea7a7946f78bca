//! Batches: what their operations need is fetched some operations ahead.

use crate::mutation::Likely;
use std::marker::PhantomData;

/// Operations of a batch that are foreseen at once, and most that share a fence.
pub(crate) const BATCH: usize = 16;
/// Operations ahead at which is looked at what was hinted at twice as many ahead.
const NEAR: usize = BATCH / 2;

/// A table whose operations on a key can be begun before their turn.
pub(crate) trait Foresee<K> {
    /// What is known of a key before its turn.
    type Known: Copy + Default;

    /// Hints at what is read first, the sidecar of the key's buckets. `known` may be of another key still: what
    /// [`Foresee::look`] sets, this need not.
    fn foresee(&self, key: K, known: &mut Self::Known);

    /// Reads that, and hints at what it leads to.
    fn look(&self, known: &mut Self::Known, likely: Likely);
}

/// The keys of a batch, in their order.
pub(crate) struct Ahead<'a, C: Foresee<K>, K, T, F> {
    core: &'a C,
    items: &'a [T],
    key_of: F,
    likely: Likely,
    known: [C::Known; BATCH],
    key: PhantomData<fn() -> K>,
}

impl<'a, C: Foresee<K>, K, T, F: Fn(&T) -> K> Ahead<'a, C, K, T, F> {
    #[inline(always)]
    pub(crate) fn new(core: &'a C, items: &'a [T], key_of: F, likely: Likely) -> Self {
        let known = [C::Known::default(); BATCH];
        let mut ahead = Ahead { core, items, key_of, likely, known, key: PhantomData };
        for index in 0..items.len().min(BATCH) {
            ahead.foresee(index);
        }
        for index in 0..items.len().min(NEAR) {
            ahead.look(index);
        }
        ahead
    }

    #[inline(always)]
    fn foresee(&mut self, index: usize) {
        let known = &mut self.known[index % BATCH];
        self.core.foresee((self.key_of)(&self.items[index]), known);
    }

    #[inline(always)]
    fn look(&mut self, index: usize) {
        self.core.look(&mut self.known[index % BATCH], self.likely);
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    pub(crate) fn key(&self, index: usize) -> (K, &C::Known) {
        ((self.key_of)(&self.items[index]), &self.known[index % BATCH])
    }

    /// Goes on from the key numbered `index`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, index: usize) {
        if index + BATCH < self.items.len() {
            self.foresee(index + BATCH);
        }
        if index + NEAR < self.items.len() {
            self.look(index + NEAR);
        }
    }
}
