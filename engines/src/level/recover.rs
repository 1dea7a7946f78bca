//! Recovery (section 3.3.3): it replays the log, and deletes one copy of each item that a crash left twice.
//!
//! Three kinds of items may be there twice: the item of each movement in the log, anywhere; items of interim levels, in
//! any bucket, since several threads rehash at once (the paper looks only at the first one); and items of the top
//! level, if that was interim in a shrink that became an expansion while they were rehashed. Both copies are equal. A
//! cut recovery leaves what a crash leaves, and can run again.

use super::geometry::{Geometry, Resize};
use super::layout::BucketId;
use super::{Core, count_of};
use crate::kit::buckets::Buckets;
use crate::kit::log::Entry;
use crate::kit::parallel::{PartOfWork, in_parallel};
use index::Fixed;
use pmem::sync::Ordering;
use pmem::{Medium, Offset, OpenError};
use std::ops::Range;

/// Buckets that are worth a thread.
const BUCKETS_PER_THREAD: u64 = 4096;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    pub(super) fn recover_all(&self) -> Result<(), OpenError> {
        let geometry = self.geometry();
        for level in geometry.levels() {
            self.words.advise(1 << level..2 << level, false);
            let pairs = self.in_parallel(level, &|range| self.rebuild(level, range))?;
            self.at_open[count_of(level)].fetch_add(pairs, Ordering::Relaxed);
        }
        for (at, entry) in self.shared.log.read(self.medium()) {
            self.replay(geometry, at, &entry)?;
        }
        let mut undrained = Vec::new();
        for level in geometry.interims() {
            undrained
                .push(self.in_parallel(level, &|range| self.deduplicate(geometry, level, range))?);
        }
        // In parallel only within one level, and looking at the others: two threads that looked at
        // one another's buckets could delete both copies.
        if geometry.resize() == Resize::Expand {
            self.in_parallel(geometry.top(), &|range| {
                self.deduplicate(geometry, geometry.top(), range)
            })?;
        }
        match undrained.first() {
            None => {}
            Some(0) if !self.pool.is_read_only() => self.end_level(geometry),
            Some(&undrained) => self.start_rehash(geometry, undrained),
        }
        self.compare_levels(self.geometry());
        Ok(())
    }

    /// Runs `work` over parts of a level's buckets.
    fn in_parallel(&self, level: u32, work: &PartOfWork<'_>) -> Result<u64, OpenError> {
        in_parallel(&self.settings, 1 << level, BUCKETS_PER_THREAD, work)
    }

    /// Rebuilds the words of a level's buckets; returns its number of items.
    fn rebuild(&self, level: u32, range: Range<u64>) -> Result<u64, OpenError> {
        let medium = self.medium();
        let mut items = 0;
        for index in range {
            let bucket = BucketId::new(level, index);
            let at = self.at(bucket);
            let tokens = medium.load(at) & self.bucket.token_bits();
            if tokens & !self.bucket.full() != 0 {
                return Err(OpenError::Corrupt {
                    found: format!("the bucket at {at} has tokens of slots that it has not"),
                });
            }
            let mut word = 0;
            for slot in (0..self.bucket.slots as usize).filter(|slot| tokens & 1 << slot != 0) {
                let print = self.print(self.hash(self.bucket.key(medium, at, slot)));
                word = self.bucket.with(word, slot, print);
            }
            self.state(bucket).store(word, Ordering::Release);
            items += u64::from(tokens.count_ones());
        }
        Ok(items)
    }

    fn unless_read_only(&self) -> Result<(), OpenError> {
        if self.pool.is_read_only() { Err(OpenError::NeedsRecovery) } else { Ok(()) }
    }

    fn replay(&self, geometry: Geometry, at: Offset, entry: &Entry<V>) -> Result<(), OpenError> {
        let Entry { level, index, slot, value } = *entry;
        let is_place = geometry.levels().any(|in_use| in_use == level)
            && index < 1 << level
            && slot < self.bucket.slots as usize
            && self.tokens(self.at(BucketId::new(level, index))) & 1 << slot != 0;
        if is_place {
            let bucket = BucketId::new(level, index);
            match value {
                Some(value) => {
                    self.unless_read_only()?;
                    self.bucket.fill_value(self.medium(), self.at(bucket), slot, value);
                    self.medium().flush_range(self.at(bucket), self.bucket.bytes);
                    self.medium().fence();
                }
                None => self.delete_if_twice(geometry.levels(), bucket, slot)?,
            }
        }
        if value.is_some() {
            self.unless_read_only()?;
            self.shared.log.erase_at(self.medium(), at);
        }
        Ok(())
    }

    /// Deletes the item in a slot if it is also in another bucket of `levels`.
    fn delete_if_twice(
        &self,
        levels: impl Iterator<Item = u32>,
        bucket: BucketId,
        slot: usize,
    ) -> Result<(), OpenError> {
        let medium = self.medium();
        let key = self.bucket.key(medium, self.at(bucket), slot);
        let hash = self.hash(key);
        let holds = |other: BucketId| {
            let (at, tokens) = (self.at(other), self.tokens(self.at(other)));
            other != bucket
                && (0..self.bucket.slots as usize).any(|slot| {
                    tokens & 1 << slot != 0 && self.bucket.has_key(medium, at, slot, key)
                })
        };
        let is_twice = levels.flat_map(|level| self.candidates(level, hash)).any(holds);
        if is_twice {
            self.unless_read_only()?;
            self.delete_slots(bucket, 1 << slot);
            self.count_at(bucket.level, -1);
        }
        Ok(())
    }

    /// Deletes the items of interim buckets that have been rehashed; returns the number of buckets
    /// that are not empty.
    fn deduplicate(
        &self,
        geometry: Geometry,
        interim: u32,
        range: Range<u64>,
    ) -> Result<u64, OpenError> {
        let mut undrained = 0;
        for index in range {
            let bucket = BucketId::new(interim, index);
            let tokens = self.tokens(self.at(bucket));
            for slot in (0..self.bucket.slots as usize).filter(|slot| tokens & 1 << slot != 0) {
                let others = geometry.levels().filter(|&level| level != interim);
                self.delete_if_twice(others, bucket, slot)?;
            }
            match self.tokens(self.at(bucket)) {
                0 if geometry.interim() == Some(interim) => self.mark_drained(geometry, bucket),
                0 => {}
                _ => undrained += 1,
            }
        }
        Ok(undrained)
    }
}
