//! Batches: prefetches what operations need, some operations ahead.

use crate::kit::mutation::Likely;
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
pub(crate) struct Ahead<'a, C: Foresee<K>, K, F> {
    core: &'a C,
    count: usize,
    key_at: F,
    likely: Likely,
    known: [C::Known; BATCH],
    key: PhantomData<fn() -> K>,
}

impl<'a, C: Foresee<K>, K, F: Fn(usize) -> K> Ahead<'a, C, K, F> {
    /// The `count` keys that `key_at` tells by their numbers.
    #[inline(always)]
    pub(crate) fn new(core: &'a C, count: usize, key_at: F, likely: Likely) -> Self {
        let known = [C::Known::default(); BATCH];
        let mut ahead = Ahead { core, count, key_at, likely, known, key: PhantomData };
        for index in 0..count.min(BATCH) {
            ahead.foresee(index);
        }
        for index in 0..count.min(NEAR) {
            ahead.look(index);
        }
        ahead
    }

    #[inline(always)]
    fn foresee(&mut self, index: usize) {
        let known = &mut self.known[index % BATCH];
        self.core.foresee((self.key_at)(index), known);
    }

    #[inline(always)]
    fn look(&mut self, index: usize) {
        self.core.look(&mut self.known[index % BATCH], self.likely);
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    pub(crate) fn key(&self, index: usize) -> (K, &C::Known) {
        ((self.key_at)(index), &self.known[index % BATCH])
    }

    /// Goes on from the key numbered `index`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, index: usize) {
        if index + BATCH < self.count {
            self.foresee(index + BATCH);
        }
        if index + NEAR < self.count {
            self.look(index + NEAR);
        }
    }
}
