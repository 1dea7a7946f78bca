//! Recovery: it rebuilds records, replays the log, links nodes of the stash, and deletes one copy of each item that a
//! crash left twice.
//!
//! Items that were being moved may be there twice: to their other bucket by a displacement, onwards by a resize, or
//! from a node of the stash. Both copies are equal. A cut recovery leaves what a crash leaves, and can run again.

use super::Core;
use super::layout::{Bucket, PRINTS, STASHED};
use super::search::Spot;
use crate::kit::buckets::Buckets;
use crate::kit::doubling::{Doubles, Geometry};
use crate::kit::hash::{Hash, slots_in};
use crate::kit::log::Entry;
use index::Fixed;
use pmem::sync::Ordering;
use pmem::{Medium, Offset, OpenError};
use std::ops::Range;

/// Buckets that are worth a thread.
const BUCKETS_PER_THREAD: u64 = 4096;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    pub(super) fn recover_all(&self) -> Result<(), OpenError> {
        let geometry = self.geometry();
        let buckets = 0..geometry.buckets();
        self.advise_used_records();
        let pairs = self
            .tables
            .in_parallel(buckets.clone(), BUCKETS_PER_THREAD, &|range| Ok(self.rebuild(range)))?;
        self.tables.set_at_open(pairs);
        for (at, entry) in self.shared.log.read(self.medium()) {
            self.replay(geometry, at, &entry)?;
        }
        let twice = self
            .tables
            .in_parallel(buckets, BUCKETS_PER_THREAD, &|range| self.deduplicate(geometry, range))?;
        let stashed = self.recover_stash(geometry)?;
        self.tables.set_at_open(pairs - twice + stashed);
        if !geometry.is_resizing() {
            return Ok(());
        }
        let sources = geometry.sources();
        let passed = self.tables.cursor().min(sources.end - sources.start);
        let undrained = self.tables.in_parallel(sources, BUCKETS_PER_THREAD, &|range| {
            Ok(self.find_undrained(geometry, range, passed))
        })?;
        self.resume(passed, undrained);
        Ok(())
    }

    /// Rebuilds the records of buckets; returns the number of items. All are written, also those of empty buckets:
    /// huge pages come where memory is written first.
    fn rebuild(&self, range: Range<u64>) -> u64 {
        let medium = self.medium();
        let mut items = 0;
        for bucket in range {
            let at = self.at(bucket);
            let used = self.bucket.bitmap(medium, at);
            let prints = slots_in(used).fold(0, |prints, slot| {
                let hash = self.hash(self.bucket.key(medium, at, slot));
                prints | u64::from(hash.print()) << (slot * 8)
            });
            self.record_of(bucket)[PRINTS].store(prints, Ordering::Release);
            items += u64::from(used.count_ones());
        }
        items
    }

    fn replay(&self, geometry: Geometry, at: Offset, entry: &Entry<V>) -> Result<(), OpenError> {
        let Some(value) = entry.value else { return Ok(()) };
        self.tables.unless_read_only()?;
        let spot = Spot::of_log(entry.level, entry.slot);
        let key = match spot {
            Spot::Slot(slot) => {
                let is_possible =
                    entry.index < geometry.buckets() && slot < self.bucket.slots as usize;
                let is_used = || self.empty(entry.index) & 1 << slot == 0;
                (is_possible && is_used())
                    .then(|| self.bucket.key(self.medium(), self.at(entry.index), slot))
            }
            Spot::Node(node) => self.stash.key_in_use(self.medium(), node),
        };
        if let Some(key) = key {
            self.overwrite(entry.index, spot, (key, value));
        }
        self.shared.log.erase_at(self.medium(), at);
        Ok(())
    }

    /// The buckets where a key may be, in the order in which it moves: what is later stays.
    fn places_of(&self, geometry: Geometry, hash: Hash) -> impl Iterator<Item = u64> {
        geometry.places().flat_map(move |log2| {
            let [first, second] = self.pair_among(log2, hash);
            [second, first]
        })
    }

    /// Whether a bucket has a key.
    fn holds(&self, bucket: u64, key: K, print: u8) -> bool {
        let (medium, at) = (self.medium(), self.at(bucket));
        slots_in(self.bucket.slots_with(self.prints(bucket), print))
            .any(|slot| self.bucket.has_key(medium, at, slot, key))
    }

    /// Deletes items that are in a later place, too; returns how many. Of two copies the later one stays, so no two
    /// threads delete both.
    fn deduplicate(&self, geometry: Geometry, range: Range<u64>) -> Result<u64, OpenError> {
        let medium = self.medium();
        let mut deleted = 0;
        for bucket in range {
            let mut twice = 0;
            for slot in slots_in(self.bucket.full() & !self.empty(bucket)) {
                let key = self.bucket.key(medium, self.at(bucket), slot);
                let hash = self.hash(key);
                let here = |&(_, place): &(usize, u64)| place == bucket;
                let Some((last, _)) =
                    self.places_of(geometry, hash).enumerate().filter(here).last()
                else {
                    // It never belonged here: that is damage, and left to `check`.
                    continue;
                };
                let mut later = self.places_of(geometry, hash).skip(last + 1);
                if later.any(|place| self.holds(place, key, hash.print())) {
                    twice |= 1 << slot;
                }
            }
            if twice != 0 {
                self.tables.unless_read_only()?;
                self.delete_slots(bucket, twice);
                deleted += u64::from(twice.count_ones());
            }
        }
        Ok(deleted)
    }

    /// Links the nodes of the stash, each to the bucket to which its key belongs by now. What is in the main table as
    /// well is erased. Returns how many are left.
    fn recover_stash(&self, geometry: Geometry) -> Result<u64, OpenError> {
        let owner = |key: K| {
            let hash = self.hash(key);
            let is_in_table = Bucket::<K, V>::takes(key)
                && self
                    .places_of(geometry, hash)
                    .any(|bucket| self.holds(bucket, key, hash.print()));
            let [first, _] = self.pair_among(geometry.log2(), hash);
            (!is_in_table).then(|| {
                self.change_state(first, |state| state | STASHED);
                first
            })
        };
        self.stash.rebuild(self.medium(), owner, || self.tables.unless_read_only())
    }

    /// The number of buckets that a resize has not emptied, of which it has emptied the first `passed`; marks the
    /// others.
    fn find_undrained(&self, geometry: Geometry, range: Range<u64>, passed: u64) -> u64 {
        let first = geometry.sources().start;
        let mut undrained = 0;
        for bucket in range {
            if bucket - first < passed || self.misplaced(geometry, bucket) == 0 {
                self.mark_drained(geometry, bucket);
            } else {
                undrained += 1;
            }
        }
        undrained
    }
}
