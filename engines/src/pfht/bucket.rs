//! A bucket: where it is, its record, and what is stored there.

use super::Core;
use super::layout::{Bucket, PRINTS, RECORD_WORDS, Record, STASHED, with_new_version};
use crate::kit::buckets::Buckets;
use crate::kit::doubling;
use crate::kit::hash::slots_in;
use index::Fixed;
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

/// A change of a locked bucket, and of a node.
pub(super) type Change = doubling::Change<NodeChange>;

/// What becomes of a node of the stash.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum NodeChange {
    #[default]
    None,
    /// It is given to the bucket.
    Stashed(u64),
    /// It is taken from it.
    Unstashed(u64),
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Index of the first word of a bucket's record.
    #[inline(always)]
    pub(super) fn record(&self, bucket: u64) -> usize {
        bucket as usize * RECORD_WORDS
    }

    #[inline(always)]
    pub(super) fn record_of(&self, bucket: u64) -> &Record {
        &self.records.as_slice().as_chunks().0[bucket as usize]
    }

    /// The fingerprints of a bucket.
    #[inline(always)]
    pub(super) fn prints(&self, bucket: u64) -> u64 {
        self.record_of(bucket)[PRINTS].load(Ordering::Acquire)
    }

    /// Sets the fingerprint in a slot of a locked bucket; 0: it is empty.
    #[inline(always)]
    pub(super) fn set_print(&self, bucket: u64, slot: usize, print: u8) {
        let word = &self.record_of(bucket)[PRINTS];
        let shift = slot * 8;
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(print) << shift, Ordering::Release);
    }

    /// Changes the state of a locked bucket.
    #[inline(always)]
    pub(super) fn change_state(&self, bucket: u64, change: impl FnOnce(u64) -> u64) {
        let state = self.state(bucket);
        state.store(change(state.load(Ordering::Relaxed)), Ordering::Release);
    }

    /// Flushes what of an item is not in the line of the bitmap; whether there is such.
    #[inline(always)]
    pub(super) fn flush_beyond(&self, at: Offset, slot: usize) -> bool {
        let beyond = self.bucket.beyond_bitmap(slot);
        self.medium().flush_range(at.add(beyond.start), beyond.end - beyond.start);
        !beyond.is_empty()
    }

    /// Flushes what tells whether a slot is in use.
    #[inline(always)]
    pub(super) fn flush_use(&self, at: Offset, slot: usize) {
        let word = if Bucket::<K, V>::WORDS { self.bucket.item_at(slot) } else { 0 };
        self.medium().flush(at.add(word));
    }

    /// Stores an item into an empty slot of a locked bucket, and flushes what of it is not in the line of the bitmap;
    /// whether there is such, which has to be durable before the bitmap shows it.
    #[inline(always)]
    pub(super) fn store_item(&self, at: Offset, slot: usize, item: (K, V)) -> bool {
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(self.medium(), at, slot, item);
        self.flush_beyond(at, slot)
    }

    /// Commits what was put into a slot of a locked bucket with one word, the bitmap, if there is one, which no longer
    /// has the slots `clear`; else the key is that word. A fence is still to come.
    #[inline(always)]
    pub(super) fn commit_bitmap(&self, at: Offset, slot: usize, clear: u64) {
        let medium = self.medium();
        if !Bucket::<K, V>::WORDS {
            medium.store_release(at, medium.load(at) & !clear | 1 << slot);
        }
        self.flush_use(at, slot);
    }

    /// Erases the items in slots of a locked bucket; a fence is still to come.
    #[inline(always)]
    pub(super) fn erase_slots(&self, at: Offset, slots: u64) {
        let medium = self.medium();
        if Bucket::<K, V>::WORDS {
            let mut lines = [false; 2];
            for slot in slots_in(slots) {
                let word = self.bucket.item_at(slot);
                medium.store_release(at.add(word), 0);
                lines[(word / pmem::LINE) as usize] = true;
            }
            for (line, _) in lines.into_iter().enumerate().filter(|&(_, is_written)| is_written) {
                medium.flush(at.add(line as u64 * pmem::LINE));
            }
        } else {
            medium.store_release(at, medium.load(at) & !slots);
            medium.flush(at);
        }
    }

    /// The empty slots of a bucket.
    #[inline(always)]
    pub(super) fn empty(&self, bucket: u64) -> u64 {
        self.bucket.empty(self.prints(bucket))
    }

    /// Puts an item into an empty slot of a locked bucket, durably and visibly; the lock stays.
    pub(super) fn put_locked(&self, bucket: u64, slot: usize, item: (K, V), print: u8) {
        self.put_durably(self.at(bucket), slot, item);
        self.show_of(&Change { bucket, slot, print, ..Change::default() });
    }

    /// Puts an item into an empty slot of a locked bucket, durably; it is still to be shown.
    #[inline(always)]
    pub(super) fn put_durably(&self, at: Offset, slot: usize, item: (K, V)) {
        if self.store_item(at, slot, item) {
            self.medium().fence();
        }
        self.commit_bitmap(at, slot, 0);
        self.medium().fence();
    }

    /// Hides and erases what is in a slot of a locked bucket, where it is for the second time. Of words the erasure
    /// is made durable with what is put into the slot then, in the same line.
    pub(super) fn hide_slot(&self, bucket: u64, slot: usize) {
        let gone = Change { bucket, clear: 1 << slot, ..Change::default() };
        if Bucket::<K, V>::WORDS {
            self.show_of(&gone);
            // A thread that sees it gone also sees it elsewhere. (What is put there then is ordered after it.)
            fence(Ordering::Release);
            self.medium().store(self.at(bucket).add(self.bucket.item_at(slot)), 0);
        } else {
            self.erase_slots(self.at(bucket), 1 << slot);
            self.medium().fence();
            self.show_of(&gone);
        }
    }

    /// Erases items durably, and hides them; for recovery.
    pub(super) fn delete_slots(&self, bucket: u64, slots: u64) {
        self.erase_slots(self.at(bucket), slots);
        self.medium().fence();
        self.show_of(&Change { bucket, clear: slots, ..Change::default() });
    }

    /// Shows a durable change of a locked bucket; the lock stays. What an item was is hidden after what it
    /// is was shown, in another version: a search that saw neither looks again.
    #[inline(always)]
    pub(super) fn show_of(&self, change: &Change) {
        let bucket = change.bucket;
        if change.print != 0 {
            self.set_print(bucket, change.slot, change.print);
            self.change_state(bucket, with_new_version);
        }
        if change.clear != 0 {
            let mut clear = change.clear;
            while clear != 0 {
                self.set_print(bucket, clear.trailing_zeros() as usize, 0);
                clear &= clear - 1;
            }
            self.change_state(bucket, with_new_version);
        }
        if !matches!(change.besides, NodeChange::None) {
            self.show_node(change);
        }
    }

    #[cold]
    fn show_node(&self, &Change { bucket, besides, .. }: &Change) {
        match besides {
            NodeChange::None => {}
            NodeChange::Stashed(node) => {
                self.stash.link(bucket, node);
                self.change_state(bucket, |state| with_new_version(state | STASHED));
            }
            NodeChange::Unstashed(node) => {
                self.stash.unlink(bucket, node);
                self.forget_stash_if_empty(bucket);
                // After the new version: a search that found the node may read another item's value there.
                self.stash.give_back(node);
            }
        }
    }

    /// Erases a node of a locked bucket durably, and hides it.
    pub(super) fn delete_node(&self, bucket: u64, node: u64) {
        self.stash.erase(self.medium(), node);
        self.medium().fence();
        self.show_node(&Change {
            bucket,
            besides: NodeChange::Unstashed(node),
            ..Change::default()
        });
    }

    /// A node was taken from a locked bucket.
    fn forget_stash_if_empty(&self, bucket: u64) {
        let is_empty = self.stash.nodes_of(bucket).is_empty();
        let kept = if is_empty { !STASHED } else { u64::MAX };
        self.change_state(bucket, |state| with_new_version(state & kept));
    }
}
