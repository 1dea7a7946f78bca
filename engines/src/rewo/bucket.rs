//! A bucket: where it is, its record, and what is stored there.

use super::Core;
use super::layout::{MARK, PRINTS, RECORD_WORDS, Record, VERSION, state_and_prints};
use crate::kit::buckets::Buckets;
use crate::kit::doubling::Change;
use index::Fixed;
use pmem::sync::{AtomicU64, Ordering, fence};
use pmem::{Medium, Offset};

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Index of the first word of a bucket's record.
    #[inline(always)]
    pub(super) fn record(&self, bucket: u64) -> usize {
        bucket as usize * RECORD_WORDS
    }

    /// A bucket's record.
    #[inline(always)]
    pub(super) fn record_of(&self, bucket: u64) -> &Record {
        &self.records.as_slice().as_chunks().0[bucket as usize]
    }

    /// In which resize a bucket was emptied last.
    pub(super) fn mark(&self, bucket: u64) -> &AtomicU64 {
        &self.record_of(bucket)[MARK]
    }

    /// The fingerprints of a bucket.
    #[inline(always)]
    pub(super) fn prints(&self, bucket: u64) -> [u64; 2] {
        state_and_prints(self.record_of(bucket)).1
    }

    /// Sets the fingerprint in a slot of a locked bucket; 0: it is empty.
    #[inline(always)]
    pub(super) fn set_print(&self, bucket: u64, slot: usize, print: u8) {
        let word = self.records.get(self.record(bucket) + PRINTS + slot / 8);
        let shift = slot % 8 * 8;
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(print) << shift, Ordering::Release);
    }

    /// Flushes what of an item is not in the line of the meta word; whether there is such.
    #[inline(always)]
    pub(super) fn flush_beyond(&self, at: Offset, slot: usize) -> bool {
        let beyond = self.bucket.beyond_meta(slot);
        self.medium().flush_range(at.add(beyond.start), beyond.end - beyond.start);
        !beyond.is_empty()
    }

    /// Stores an item into an empty slot of a locked bucket, and flushes what of it is not in the line of
    /// the meta word; whether there is such, which has to be durable before the meta word shows it.
    #[inline(always)]
    pub(super) fn store_item(&self, at: Offset, slot: usize, item: (K, V)) -> bool {
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(self.medium(), at, slot, item);
        self.flush_beyond(at, slot)
    }

    /// Commits a change of a locked bucket with one word; a fence is still to come.
    #[inline(always)]
    pub(super) fn commit_meta(&self, at: Offset, change: &Change) {
        let medium = self.medium();
        let mut meta = medium.load(at) & !change.clear;
        if change.print != 0 {
            meta = self.bucket.with(meta, change.slot, change.print);
        }
        medium.store_release(at, meta);
        medium.flush(at);
    }

    /// The empty slots of a bucket.
    #[inline(always)]
    pub(super) fn empty(&self, bucket: u64) -> u64 {
        self.bucket.empty(self.prints(bucket))
    }

    /// Puts an item into an empty slot of a locked bucket, durably and visibly; the lock stays.
    pub(super) fn put_locked(&self, bucket: u64, slot: usize, item: (K, V), print: u8) {
        let is_beyond = self.store_item(self.at(bucket), slot, item);
        if is_beyond {
            self.medium().fence();
        }
        let change = Change { bucket, slot, print, is_beyond, ..Change::default() };
        self.commit_meta(self.at(bucket), &change);
        self.medium().fence();
        self.show_of(&change);
    }

    /// Shows a durable change of a locked bucket; the lock stays. What an item was is hidden after what it
    /// is was shown, in another version: a search that saw neither looks again.
    #[inline(always)]
    pub(super) fn show_of(&self, change: &Change) {
        if change.print != 0 {
            self.set_print(change.bucket, change.slot, change.print);
            self.new_version(change.bucket);
        }
        if change.clear != 0 {
            let mut clear = change.clear;
            while clear != 0 {
                self.set_print(change.bucket, clear.trailing_zeros() as usize, 0);
                clear &= clear - 1;
            }
            self.new_version(change.bucket);
        }
    }

    #[inline(always)]
    pub(super) fn new_version(&self, bucket: u64) {
        let state = self.state(bucket);
        state.store(state.load(Ordering::Relaxed).wrapping_add(VERSION), Ordering::Release);
    }

    /// Deletes the items in the slots `clear` of a locked bucket, durably, and their lock bits.
    pub(super) fn delete_slots(&self, bucket: u64, clear: u64, lock_bits: u64) {
        let change = Change { bucket, clear: clear | lock_bits, ..Change::default() };
        self.commit_meta(self.at(bucket), &change);
        self.medium().fence();
        self.show_of(&Change { bucket, clear, ..Change::default() });
    }

    /// Sets bits of the meta word of a locked bucket, durably.
    pub(super) fn set_meta(&self, bucket: u64, bits: u64) {
        let at = self.at(bucket);
        // They depend on nothing that is not durable yet.
        self.medium().store(at, self.medium().load(at) | bits);
        self.medium().persist(at);
    }
}
