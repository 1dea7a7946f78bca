//! Batches: prefetches what operations need, some operations ahead.

use super::buckets::Buckets;
use super::hash::Hash;
use super::mutation::Likely;

/// Operations of a batch that are foreseen at once, and most that share a fence.
pub(crate) const BATCH: usize = 16;
/// Operations ahead at which is looked at what was hinted at twice as many ahead.
const NEAR: usize = BATCH / 2;

/// What is known of a key before its turn.
pub(crate) struct Known<T: Buckets> {
    pub(crate) hash: Hash,
    /// Its buckets, what they show, and the slots with its fingerprint.
    pub(crate) near: Option<T::Near>,
    pub(crate) seen: T::Seen,
    pub(crate) slots: u32,
}

impl<T: Buckets> Clone for Known<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Buckets> Copy for Known<T> {}

impl<T: Buckets> Default for Known<T> {
    #[inline(always)]
    fn default() -> Self {
        Known { hash: Hash::default(), near: None, seen: T::Seen::default(), slots: 0 }
    }
}

impl<T: Buckets> Known<T> {
    /// Hints at what is read first, the states of the key's buckets. This may be of another key still: what
    /// [`Known::look`] sets, this need not.
    #[inline(always)]
    pub(crate) fn foresee(&mut self, table: &T, key: T::Key) {
        self.hash = table.hash(key);
        self.near = table.near(self.hash);
        if let Some(near) = &self.near {
            table.prefetch_states(near);
        }
    }

    /// Reads that, and hints at what it leads to.
    #[inline(always)]
    pub(crate) fn look(&mut self, table: &T, likely: Likely) {
        if let Some(near) = &self.near {
            self.seen = table.see(near);
            self.slots = table.slots_with(&self.seen, self.hash);
            table.prefetch_likely(near, &self.seen, self.slots, likely);
        }
        table.prefetch_aside(self.hash, likely);
    }
}

/// The keys of a batch, in their order.
pub(crate) struct Ahead<'a, T: Buckets, F> {
    table: &'a T,
    count: usize,
    key_at: F,
    likely: Likely,
    known: [Known<T>; BATCH],
}

impl<'a, T: Buckets, F: Fn(usize) -> T::Key> Ahead<'a, T, F> {
    /// The `count` keys that `key_at` tells by their numbers.
    #[inline(always)]
    pub(crate) fn new(table: &'a T, count: usize, key_at: F, likely: Likely) -> Self {
        let known = [Known::default(); BATCH];
        let mut ahead = Ahead { table, count, key_at, likely, known };
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
        self.known[index % BATCH].foresee(self.table, (self.key_at)(index));
    }

    #[inline(always)]
    fn look(&mut self, index: usize) {
        self.known[index % BATCH].look(self.table, self.likely);
    }

    /// The key numbered `index`, which is one more each time.
    #[inline(always)]
    pub(crate) fn key(&self, index: usize) -> (T::Key, &Known<T>) {
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
