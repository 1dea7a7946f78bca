//! Search: algorithm 1 (section 4). What one bucket says of a key; the rest is the kit's.

use super::Core;
use super::layout::BucketId;
use crate::kit::buckets::Buckets;
use crate::kit::hash::slots_in;
use index::Fixed;
use pmem::{Medium, Offset};

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// In which slot of a bucket a key is, and on which slots an absence rests.
    pub(super) fn look_for(
        &self,
        bucket: BucketId,
        word: u64,
        key: K,
        print: u64,
    ) -> (Option<usize>, u64) {
        let (medium, at) = (self.medium(), self.at(bucket));
        if !self.has_print(at, word, key, print) {
            return (None, 0);
        }
        // The tokens decide: the key may be on its way out, or from one slot to another.
        let tokens = self.tokens(at);
        let slot = slots_in(tokens).find(|&slot| self.bucket.has_key(medium, at, slot, key));
        (slot, self.bucket.full())
    }

    /// Whether a bucket with this word shows the key, be it in a slot that it is just leaving.
    /// Without, no search reports it: what one of them does, the others must.
    fn has_print(&self, at: Offset, word: u64, key: K, print: u64) -> bool {
        let shows = |slot: usize| {
            self.bucket.print_in(word, slot) == print
                && self.bucket.has_key(self.medium(), at, slot, key)
        };
        !self.shape.design.fingerprints || (0..self.bucket.slots as usize).any(shows)
    }
}
