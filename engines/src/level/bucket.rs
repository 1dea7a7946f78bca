//! A bucket: where it is, its word, its tokens, its items.

use super::Core;
use super::layout::{Bucket, BucketId, is_first_version, next_version};
use crate::kit::buckets::{Buckets, Pending};
use crate::kit::hash::Hash;
use index::Fixed;
use index::hash::{h1, h2};
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

/// A change of a locked bucket whose fence is still to come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change {
    pub(super) bucket: BucketId,
    /// What its word becomes when the change is durable.
    pub(super) word: u64,
    /// The tokens that are to be set and cleared.
    pub(super) set: u8,
    pub(super) clear: u8,
    /// Whether they are so after a fence, since the item is not in their line.
    pub(super) is_late: bool,
}

impl Pending for Change {
    type Bucket = BucketId;

    #[inline(always)]
    fn bucket(&self) -> BucketId {
        self.bucket
    }

    #[inline(always)]
    fn is_late(&self) -> bool {
        self.is_late
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// The two buckets of a key in a level, which may be one.
    #[inline(always)]
    pub(super) fn candidates(&self, level: u32, hash: Hash) -> [BucketId; 2] {
        let first = h1(hash.0);
        let second = if self.shape.design.two_hashes { h2(hash.0) } else { first };
        [BucketId::new(level, first), BucketId::new(level, second)]
    }

    /// The fingerprint of a key with this hash.
    #[inline(always)]
    pub(super) fn print(&self, hash: Hash) -> u64 {
        self.bucket.print(hash)
    }

    /// The tokens of a bucket.
    #[inline(always)]
    pub(super) fn tokens(&self, at: Offset) -> u64 {
        self.medium().load(at) & self.bucket.full()
    }

    pub(super) fn flush_item(&self, at: Offset, slot: usize) {
        let item = at.add(self.bucket.item_at(slot));
        self.medium().flush_range(item, Bucket::<K, V>::item_bytes());
    }

    /// Flushes what of an item is not in the line of the tokens; whether there is such.
    #[inline(always)]
    pub(super) fn flush_beyond(&self, at: Offset, slot: usize) -> bool {
        let beyond = self.bucket.beyond_tokens(slot);
        self.medium().flush_range(at.add(beyond.start), beyond.end - beyond.start);
        !beyond.is_empty()
    }

    /// Stores the word of a locked bucket, or of one that nobody else has yet.
    #[inline(always)]
    pub(super) fn set_word(&self, bucket: BucketId, word: u64) {
        if is_first_version(word) && !is_first_version(self.state(bucket).load(Ordering::Relaxed)) {
            // A search that was held up since then could not tell the two. Not if the version has
            // just stayed the same, as it does where a word is overwritten: all threads read this.
            self.published.count_wrap();
        }
        self.state(bucket).store(word, Ordering::Release);
    }

    /// Changes the tokens of a locked bucket; a fence is still to come.
    #[inline(always)]
    pub(super) fn set_tokens(&self, at: Offset, set: u64, clear: u64) {
        let medium = self.medium();
        medium.store_release(at, (medium.load(at) | set) & !clear);
        medium.flush(at);
    }

    /// Deletes the items in the slots `clear` of a locked bucket, durably.
    pub(super) fn delete_slots(&self, bucket: BucketId, clear: u64) {
        self.set_tokens(self.at(bucket), 0, clear);
        self.medium().fence();
        let word = self.state(bucket).load(Ordering::Relaxed);
        let slots = (0..self.bucket.slots as usize).filter(|slot| clear & 1 << slot != 0);
        let left = slots.fold(word, |word, slot| self.bucket.without(word, slot));
        self.set_word(bucket, next_version(left));
    }

    /// Stores an item into an empty slot of a locked bucket, and flushes what of it is not in the line of its token;
    /// whether there is such, which has to be durable before the token is set. Otherwise one flush does for both, since
    /// lines keep the order of their stores.
    #[inline(always)]
    pub(super) fn store_item(&self, at: Offset, slot: usize, (key, value): (K, V)) -> bool {
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(self.medium(), at, slot, key, value);
        self.flush_beyond(at, slot)
    }

    /// Puts an item into an empty slot of a locked bucket, durably; it is still to be shown.
    pub(super) fn put_durably(&self, at: Offset, slot: usize, item: (K, V)) {
        if self.store_item(at, slot, item) {
            self.medium().fence();
        }
        self.set_tokens(at, 1 << slot, 0);
        self.medium().fence();
    }
}
