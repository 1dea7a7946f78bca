//! Recovery: algorithm 6 (section 3.7). It rebuilds records, replays the log, and deletes one copy of each item that a
//! crash left twice.
//!
//! Two kinds of items may be there twice: those in locked slots, which were being evicted; and, if a resize is under
//! way, those that are not in their place, in buckets that the cursor has not passed. Both copies are equal. A cut
//! recovery leaves what a crash leaves, and can run again.

use super::Core;
use super::layout::BUCKET_BYTES;
use crate::kit::buckets::Buckets;
use crate::kit::doubling::{Doubles, Geometry};
use crate::kit::hash::slots_in;
use crate::kit::log::Entry;
use index::Fixed;
use pmem::sync::Mutex;
use pmem::{Medium, Offset, OpenError};
use std::ops::Range;

/// Buckets that are worth a thread.
const BUCKETS_PER_THREAD: u64 = 2048;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    pub(super) fn recover_all(&self) -> Result<(), OpenError> {
        let geometry = self.geometry();
        let locked = Mutex::new(Vec::new());
        let pairs =
            self.tables.in_parallel(0..geometry.buckets(), BUCKETS_PER_THREAD, &|range| {
                self.rebuild(range, &locked)
            })?;
        self.tables.set_at_open(pairs);
        for (at, entry) in self.shared.log.read(self.medium()) {
            self.replay(geometry, at, &entry)?;
        }
        for bucket in std::mem::take(&mut *locked.lock()) {
            self.unlock_slots(geometry, bucket)?;
        }
        if let Some(cache) = &self.cache
            && pairs == 0
        {
            cache.begin_full_loaded();
        }
        if !geometry.is_resizing() {
            return Ok(());
        }
        let sources = geometry.sources();
        let passed = self.tables.cursor().min(sources.end - sources.start);
        let undrained = self.tables.in_parallel(sources, BUCKETS_PER_THREAD, &|range| {
            self.deduplicate(geometry, range, passed)
        })?;
        self.resume(passed, undrained);
        Ok(())
    }

    /// Rebuilds the records of buckets; returns the number of items. Buckets with locked slots are added to
    /// `locked`.
    fn rebuild(&self, range: Range<u64>, locked: &Mutex<Vec<u64>>) -> Result<u64, OpenError> {
        let medium = self.medium();
        let mut items = 0;
        for bucket in range {
            let at = self.at(bucket);
            let meta = medium.load(at);
            if meta == 0 {
                // As its record is.
                continue;
            }
            let bitmap = self.bucket.bitmap(meta);
            if !self.bucket.is_meta(meta) {
                return Err(OpenError::Corrupt {
                    found: format!(
                        "the bucket at {at} has bits of slots that it has not: {meta:#x}"
                    ),
                });
            }
            for slot in slots_in(bitmap) {
                let hash = self.hash(self.bucket.key(medium, at, slot));
                self.set_print(bucket, slot, hash.print());
            }
            if self.bucket.lockmap(meta) != 0 {
                locked.lock().push(bucket);
            }
            items += u64::from(bitmap.count_ones());
        }
        Ok(items)
    }

    fn replay(&self, geometry: Geometry, at: Offset, entry: &Entry<V>) -> Result<(), OpenError> {
        let Some(value) = entry.value else { return Ok(()) };
        self.tables.unless_read_only()?;
        let (medium, bucket, slot) = (self.medium(), entry.index, entry.slot);
        if entry.level == 0
            && bucket < geometry.buckets()
            && slot < self.bucket.slots as usize
            && self.bucket.bitmap(medium.load(self.at(bucket))) & 1 << slot != 0
        {
            let at = self.at(bucket);
            let key = self.bucket.key(medium, at, slot);
            self.bucket.fill(medium, at, slot, (key, value));
            medium.flush_range(at, BUCKET_BYTES);
            medium.fence();
        }
        self.shared.log.erase_at(medium, at);
        Ok(())
    }

    /// Deletes the items in a bucket's locked slots if they have been copied elsewhere, and unlocks all
    /// slots.
    fn unlock_slots(&self, geometry: Geometry, bucket: u64) -> Result<(), OpenError> {
        self.tables.unless_read_only()?;
        let meta = self.medium().load(self.at(bucket));
        let locked = self.bucket.lockmap(meta);
        let mut twice = 0;
        for slot in slots_in(locked & self.bucket.bitmap(meta)) {
            if self.is_elsewhere(geometry.places(), bucket, slot) {
                twice |= 1 << slot;
            }
        }
        self.delete_slots(bucket, twice, self.bucket.lock_bits(locked));
        self.tables.count(0u64.wrapping_sub(u64::from(twice.count_ones())));
        Ok(())
    }

    /// Whether the key in a slot is in another bucket where it may be among one of these numbers of buckets.
    fn is_elsewhere(
        &self,
        mut places: impl Iterator<Item = u32>,
        bucket: u64,
        slot: usize,
    ) -> bool {
        let medium = self.medium();
        let key = self.bucket.key(medium, self.at(bucket), slot);
        let hash = self.hash(key);
        let holds = |other: u64| {
            let at = self.at(other);
            let bitmap = self.bucket.bitmap(medium.load(at));
            other != bucket
                && slots_in(bitmap).any(|slot| self.bucket.has_key(medium, at, slot, key))
        };
        places.any(|log2| self.pair_among(log2, hash).into_iter().any(holds))
    }

    /// Deletes items that have moved on from buckets that a resize empties, of which it has emptied the first
    /// `passed`; returns the number of buckets that it has not emptied.
    ///
    /// Of two copies, of which perhaps neither is in its place, the one goes that is further from it. So no
    /// two threads delete both.
    fn deduplicate(
        &self,
        geometry: Geometry,
        range: Range<u64>,
        passed: u64,
    ) -> Result<u64, OpenError> {
        let first = geometry.sources().start;
        let mut undrained = 0;
        for bucket in range {
            if bucket - first < passed {
                self.mark_drained(geometry, bucket);
                continue;
            }
            let mut twice = 0;
            let misplaced = self.misplaced(geometry, bucket);
            for slot in slots_in(misplaced) {
                let hash = self.hash(self.bucket.key(self.medium(), self.at(bucket), slot));
                let is_here = |log2: &u32| self.pair_among(*log2, hash).contains(&bucket);
                let last_here = geometry.places().position(|log2| is_here(&log2)).map(|first| {
                    first + geometry.places().skip(first + 1).take_while(is_here).count()
                });
                let later = geometry.places().skip(last_here.map_or(usize::MAX, |last| last + 1));
                if self.is_elsewhere(later, bucket, slot) {
                    twice |= 1 << slot;
                }
            }
            if twice != 0 {
                self.tables.unless_read_only()?;
                self.delete_slots(bucket, twice, 0);
                self.tables.count(0u64.wrapping_sub(u64::from(twice.count_ones())));
            }
            if misplaced & !twice == 0 {
                self.mark_drained(geometry, bucket);
            } else {
                undrained += 1;
            }
        }
        Ok(undrained)
    }
}
