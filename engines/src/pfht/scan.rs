//! Scans: buckets in the order of their numbers, each with the nodes of the stash that belong to it.

use super::Core;
use super::layout::{Locked, STASHED};
use crate::kit::doubling::slots_in;
use crate::kit::scan::{Scanned, Scans};
use index::Fixed;
use pmem::Medium;
use pmem::sync::Ordering;
use std::ops::Range;

impl<M: Medium, K: Fixed, V: Fixed> Scanned<K, V> for Core<M, K, V> {
    type Items = Vec<Option<(K, V)>>;

    fn scans(&self) -> &Scans<K> {
        &self.scans
    }

    fn buckets(&self) -> Range<u64> {
        0..self.geometry().buckets()
    }

    fn take(&self, bucket: u64, take: impl FnOnce(&mut [Option<(K, V)>])) -> Self::Items {
        let (medium, at) = (self.medium(), self.at(bucket));
        let _locked = Locked::wait(self.state(bucket));
        let used = self.bucket.full() & !self.empty(bucket);
        let mut items: Vec<_> =
            slots_in(used).map(|slot| Some(self.bucket.pair(medium, at, slot))).collect();
        if self.state(bucket).load(Ordering::Relaxed) & STASHED != 0 {
            let nodes = self.stash.nodes_of(bucket);
            items.extend(nodes.into_iter().map(|node| Some(self.stash.pair(medium, node))));
        }
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
    pub(super) fn tell_scans(&self, key: K, from: u64, to: u64) {
        self.scans.tell(key, from, to, |key| self.hashed(key));
    }
}
