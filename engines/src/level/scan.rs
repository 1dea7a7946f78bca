//! Scans: buckets in the order of their words in the sidecar.

use super::Core;
use super::layout::{BucketId, Locked};
use crate::kit::scan::{Scanned, Scans};
use index::Fixed;
use pmem::Medium;
use std::ops::Range;

const SLOTS_MAX: usize = super::SLOTS_MAX as usize;

impl<M: Medium, K: Fixed, V: Fixed> Scanned<K, V> for Core<M, K, V> {
    type Items = [Option<(K, V)>; SLOTS_MAX];

    fn scans(&self) -> &Scans<K> {
        &self.scans
    }

    fn buckets(&self) -> Range<u64> {
        self.geometry().words()
    }

    fn take(&self, bucket: u64, take: impl FnOnce(&mut [Option<(K, V)>])) -> Self::Items {
        let bucket = BucketId::of_word(bucket);
        let (medium, at) = (self.medium(), self.at(bucket));
        let _locked = Locked::wait(self.word(bucket));
        let tokens = self.tokens(at);
        let mut items = std::array::from_fn(|slot| {
            (tokens & 1 << slot != 0).then(|| self.bucket.pair(medium, at, slot))
        });
        take(&mut items);
        items
    }

    fn value_of(&self, key: K) -> Option<V> {
        self.get(key)
    }

    fn hash_of(&self, key: K) -> u64 {
        self.hashed(key)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// The mover of an item calls this, while both are locked and after a look at the geometry.
    pub(super) fn tell_scans(&self, key: K, from: BucketId, to: BucketId) {
        self.scans.tell(key, from.word, to.word, |key| self.hashed(key));
    }
}
