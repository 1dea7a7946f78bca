//! Lightweight resizing (section 3.6) while operations run: the part that only this engine has.
//!
//! An extension adds a data table as large as all before it, and about half of the items of each of these move there.
//! Every insertion or removal also empties some buckets of what must move. The items of a bucket are copied, with few
//! fences, and then deleted there with one word. A shrink does the reverse: it empties the last table.

use super::Core;
use super::bucket::Unfenced;
use super::layout::{Locked, RECORD_WORDS};
use crate::kit::crowded::Room;
use crate::kit::doubling::{Doubles, Geometry, Hash, Placed, Tables, slots_in};
use index::Fixed;
use pmem::Medium;
use pmem::sync::{Array, AtomicU64, Ordering};

/// Copies of a bucket's items that share their fences.
const COPIES: usize = 8;

impl<M: Medium, K: Fixed, V: Fixed> Doubles for Core<M, K, V> {
    type Medium = M;

    const RECORD_WORDS: usize = RECORD_WORDS;
    const FULL: &'static str = "the buckets of a key are full";

    #[inline(always)]
    fn tables(&self) -> &Tables<M> {
        &self.tables
    }

    fn records(&self) -> &Array<AtomicU64> {
        &self.records
    }

    fn capacity(&self, geometry: Geometry) -> u64 {
        u64::from(self.bucket.slots) << geometry.log2()
    }

    fn room(&self) -> Room {
        Room { of_bucket: self.bucket.slots, has_way_out: self.shape.design.evictions > 0 }
    }

    fn open_scans(&self) -> u64 {
        self.scans.open()
    }

    fn lock_bucket(&self, bucket: u64) -> impl Sized {
        Locked::wait(self.state(bucket))
    }

    fn is_drained(&self, geometry: Geometry, bucket: u64) -> bool {
        self.mark(bucket).load(Ordering::Acquire) == geometry.generation()
    }

    fn mark_drained(&self, geometry: Geometry, bucket: u64) {
        self.mark(bucket).store(geometry.generation(), Ordering::Release);
    }

    fn used(&self, bucket: u64) -> u64 {
        self.bucket.bitmap(self.medium().load(self.at(bucket)))
    }

    fn hash_in(&self, bucket: u64, slot: usize) -> Hash {
        self.hash(self.bucket.key(self.medium(), self.at(bucket), slot))
    }

    fn prepare_for(&self, next: Geometry) {
        if let Some(cache) = &self.cache {
            cache.fit(next.log2());
            self.refills.wake();
        }
    }

    fn copy_out(&self, geometry: Geometry, bucket: u64) -> Placed {
        let (medium, at) = (self.medium(), self.at(bucket));
        let mut unfenced = Unfenced::<M, K, V, COPIES>::from(self, bucket);
        for slot in slots_in(self.misplaced(geometry, bucket)) {
            let item = self.bucket.pair(medium, at, slot);
            match self.insert(&mut unfenced, geometry, item, self.hash(item.0)) {
                Placed::Done => unfenced.end_copy(slot, item.0),
                other => return other,
            }
        }
        Placed::Done
    }
}
