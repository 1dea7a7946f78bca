//! A bucket: where it is, its lock, its tokens, its items; and changes that share a fence.

use super::geometry::Geometry;
use super::layout::{Bucket, BucketId, Hash, LOCK, Locked, is_first_version, next_version};
use super::{BASES, Core};
use index::Fixed;
use index::hash::{h1, h2};
use pmem::sync::{AtomicU64, Ordering, fence, spin};
use pmem::{Medium, Offset};

/// Changes whose flushes have begun and whose fence is still to come, with the locks that they
/// hold until then; at most `MOST`.
///
/// While there are any, locks are only tried for: who waited could be waited for.
pub(super) struct Unfenced<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> {
    core: &'a Core<M, K, V>,
    count: usize,
    buckets: [BucketId; MOST],
    /// What the words of the buckets become when the changes are durable.
    words: [u64; MOST],
    /// Of each, the token of an item that has to be durable first; 0: none.
    tokens: [u8; MOST],
    has_tokens: bool,
    stripes: [Option<Locked<'a>>; MOST],
    /// Items that were inserted where they had not been, and removed.
    inserted: u64,
    removed: u64,
    /// The locked interim bucket from which the changes copy items, and the tokens of those.
    source: Option<BucketId>,
    copied: u64,
}

impl<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> Unfenced<'a, M, K, V, MOST> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>) -> Self {
        Unfenced {
            core,
            count: 0,
            buckets: [BucketId { level: 0, word: 0 }; MOST],
            words: [0; MOST],
            tokens: [0; MOST],
            has_tokens: false,
            stripes: [const { None }; MOST],
            inserted: 0,
            removed: 0,
            source: None,
            copied: 0,
        }
    }

    /// Of items that are copied out of a locked interim bucket.
    pub(super) fn from(core: &'a Core<M, K, V>, source: BucketId) -> Self {
        let mut unfenced = Unfenced::new(core);
        unfenced.source = Some(source);
        unfenced
    }

    /// Waits for the lock of a stripe; nothing else may be held.
    #[inline(always)]
    pub(super) fn lock_stripe(&mut self, stripe: u64) -> Locked<'a> {
        let word = self.core.stripes.get(stripe as usize);
        Locked::attempt(word).unwrap_or_else(|| {
            self.commit();
            Locked::wait(word)
        })
    }

    /// Waits for the lock of a bucket.
    #[inline(always)]
    pub(super) fn lock(&mut self, bucket: BucketId) -> Locked<'a> {
        let word = self.core.word(bucket);
        Locked::attempt(word).unwrap_or_else(|| {
            self.commit();
            Locked::wait(word)
        })
    }

    /// Waits for the lock of a bucket while `geometry` lasts: the caller may hold an interim bucket,
    /// which in the next geometry others wait for who hold this one.
    #[inline(always)]
    pub(super) fn lock_under(
        &mut self,
        geometry: Geometry,
        bucket: BucketId,
    ) -> Option<Locked<'a>> {
        let core = self.core;
        core.lock_under(geometry, bucket, || self.commit())
    }

    /// Inserts an item into an empty slot of a locked bucket, and takes that over: log-free insertion
    /// (section 3.3.2). `word` is what its word becomes when the item is durable.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        (bucket, at, slot): (BucketId, Offset, usize),
        locked: Locked<'a>,
        (key, value): (K, V),
        word: u64,
    ) {
        if MOST > 1 && !self.core.bucket.beyond_tokens(slot).is_empty() {
            self.core.store_item(at, slot, key, value);
            self.core.flush_beyond(at, slot);
            self.tokens[self.count] = 1 << slot;
            self.has_tokens = true;
        } else {
            self.core.fill(at, slot, key, value, 0);
        }
        self.push(bucket, locked, word);
    }

    /// Takes over a bucket that was changed; `word` is what its word becomes when the change is
    /// durable.
    #[inline(always)]
    pub(super) fn push(&mut self, bucket: BucketId, locked: Locked<'a>, word: u64) {
        std::mem::forget(locked);
        self.buckets[self.count] = bucket;
        self.words[self.count] = word & !LOCK;
        self.count += 1;
    }

    /// Ends the change that was pushed last: the lock of its stripe goes with the bucket's.
    #[inline(always)]
    pub(super) fn end_change(&mut self, stripe: Option<Locked<'a>>, inserted: u64, removed: u64) {
        self.stripes[self.count - 1] = stripe;
        self.inserted += inserted;
        self.removed += removed;
        self.commit_if_full();
    }

    /// Ends the copying of an item out of the source, into the bucket that was pushed last.
    #[inline(always)]
    pub(super) fn end_copy(&mut self, slot: usize, key: K) {
        self.copied |= 1 << slot;
        if let Some(source) = self.source {
            self.core.tell_scans(key, source, self.buckets[self.count - 1]);
        }
        self.commit_if_full();
    }

    #[inline(always)]
    fn commit_if_full(&mut self) {
        if self.count == MOST {
            self.commit();
        }
    }

    /// Makes the changes durable, then visible, and gives the locks back.
    #[inline(always)]
    pub(super) fn commit(&mut self) {
        if self.count == 0 {
            return;
        }
        self.core.medium().fence();
        if self.has_tokens {
            self.show_tokens();
        }
        if let Some(source) = self.source {
            self.delete_copied(source);
        }
        for index in 0..self.count {
            self.core.set_word(self.buckets[index], self.words[index]);
            self.stripes[index] = None;
        }
        self.count = 0;
        if self.inserted + self.removed > 0 {
            let (inserted, removed) = (self.inserted, self.removed);
            (self.inserted, self.removed) = (0, 0);
            self.core.look_after(inserted, removed);
        }
    }

    /// Sets the tokens of items that were not in the line of their token, and now are durable.
    fn show_tokens(&mut self) {
        let core = self.core;
        for (bucket, token) in self.buckets.iter().zip(&mut self.tokens).take(self.count) {
            if *token != 0 {
                core.show(core.at(*bucket), u64::from(*token), 0);
                *token = 0;
            }
        }
        core.medium().fence();
        self.has_tokens = false;
    }

    /// The copies are durable: shows them, and deletes what was copied. The copies stay locked until
    /// that is durable: else somebody could change one, and a search or a crash bring back what
    /// stood here.
    fn delete_copied(&mut self, source: BucketId) {
        let core = self.core;
        for index in 0..self.count {
            core.set_word(self.buckets[index], self.words[index] | LOCK);
        }
        core.delete_slots(source, self.copied);
        core.count_at(source.level, -i64::from(self.copied.count_ones()));
        self.copied = 0;
    }
}

impl<M: Medium, K: Fixed, V: Fixed, const MOST: usize> Drop for Unfenced<'_, M, K, V, MOST> {
    #[inline(always)]
    fn drop(&mut self) {
        self.commit();
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    #[inline(always)]
    pub(super) fn hash(&self, key: K) -> Hash {
        Hash(self.hashed(key))
    }

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
        self.bucket.print(hash.0)
    }

    /// Where a bucket begins.
    #[inline(always)]
    pub(super) fn at(&self, bucket: BucketId) -> Offset {
        let base = self.bases[bucket.level as usize % BASES].load(Ordering::Relaxed);
        Offset(base.wrapping_add(bucket.word.wrapping_mul(self.bucket.bytes)))
    }

    /// The bucket's word of the sidecar.
    #[inline(always)]
    pub(super) fn word(&self, bucket: BucketId) -> &AtomicU64 {
        self.words.get(bucket.word as usize)
    }

    /// The tokens of a bucket.
    #[inline(always)]
    pub(super) fn tokens(&self, at: Offset) -> u64 {
        self.medium().load(at) & self.bucket.full()
    }

    /// Waits for the lock of a bucket while `geometry` lasts, and calls `before_waiting` before it
    /// does.
    #[inline(always)]
    pub(super) fn lock_under(
        &self,
        geometry: Geometry,
        bucket: BucketId,
        mut before_waiting: impl FnMut(),
    ) -> Option<Locked<'_>> {
        let mut turn = 0;
        loop {
            let locked = Locked::attempt(self.word(bucket));
            if self.geometry() != geometry {
                return None;
            }
            if locked.is_some() {
                return locked;
            }
            before_waiting();
            spin(&mut turn);
        }
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
        if is_first_version(word) && !is_first_version(self.word(bucket).load(Ordering::Relaxed)) {
            // A search that was held up since then could not tell the two. Not if the version has
            // just stayed the same, as it does where a word is overwritten: all threads read this.
            self.published.count_wrap();
        }
        self.word(bucket).store(word, Ordering::Release);
    }

    /// Changes the tokens of a locked bucket; a fence is still to come.
    #[inline(always)]
    pub(super) fn show(&self, at: Offset, set: u64, clear: u64) {
        let medium = self.medium();
        medium.store_release(at, (medium.load(at) | set) & !clear);
        medium.flush(at);
    }

    /// Deletes the items in the slots `clear` of a locked bucket, durably.
    pub(super) fn delete_slots(&self, bucket: BucketId, clear: u64) {
        self.show(self.at(bucket), 0, clear);
        self.medium().fence();
        let word = self.word(bucket).load(Ordering::Relaxed);
        let slots = (0..self.bucket.slots as usize).filter(|slot| clear & 1 << slot != 0);
        let left = slots.fold(word, |word, slot| self.bucket.without(word, slot));
        self.set_word(bucket, next_version(left));
    }

    /// Stores an item into an empty slot, and sets its token instead of those of the slots `clear`:
    /// log-free insertion (section 3.3.2) and update (3.3.4). One flush if the item is in the line
    /// of its token, since lines keep the order of their stores; a fence is still to come, and the
    /// fingerprint.
    #[inline(always)]
    pub(super) fn fill(&self, at: Offset, slot: usize, key: K, value: V, clear: u64) {
        self.store_item(at, slot, key, value);
        if self.flush_beyond(at, slot) {
            self.medium().fence();
        }
        self.show(at, 1 << slot, clear);
    }

    /// Stores an item into an empty slot of a locked bucket.
    #[inline(always)]
    fn store_item(&self, at: Offset, slot: usize, key: K, value: V) {
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(self.medium(), at, slot, key, value);
    }
}
