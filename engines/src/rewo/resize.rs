//! Lightweight resizing (section 3.6) while operations run: the part that only this engine has.
//!
//! An extension adds a data table as large as all before it, and about half of the items of each of these move there.
//! Every insertion or removal also empties some buckets of what must move. The items of a bucket are copied, with few
//! fences, and then deleted there with one word. A shrink does the reverse: it empties the last table.

use super::Core;
use super::layout::RECORD_WORDS;
use crate::kit::crowded::Room;
use crate::kit::doubling::{Doubles, Geometry, Tables};
use index::Fixed;
use pmem::Medium;
use pmem::sync::{Array, AtomicU64, Ordering};

impl<M: Medium, K: Fixed, V: Fixed> Doubles for Core<M, K, V> {
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

    fn room_for_keys(&self) -> Room {
        Room { of_bucket: self.bucket.slots, has_way_out: self.shape.design.evictions > 0 }
    }

    fn is_drained(&self, geometry: Geometry, bucket: u64) -> bool {
        self.mark(bucket).load(Ordering::Acquire) == geometry.generation()
    }

    fn mark_drained(&self, geometry: Geometry, bucket: u64) {
        self.mark(bucket).store(geometry.generation(), Ordering::Release);
    }

    fn prepare_for(&self, next: Geometry) {
        if let Some(cache) = &self.cache {
            cache.fit(next.log2());
            self.refills.wake();
        }
    }
}
