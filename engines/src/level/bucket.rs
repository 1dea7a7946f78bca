//! Writing a bucket: its lock, its tokens, its items, and changes that share a fence.

use super::Core;
use super::layout::{Bucket, DIRTY, Geometry, LOCK, TOKENS};
use super::ops::Place;
use index::Fixed;
use pmem::sync::{Ordering, fence, spin};
use pmem::{LINE, Medium, Offset};

/// The lock of a hash's stripe, held until dropped.
pub(super) type Stripe<'a> = crate::lock::Locked<'a, 1>;

/// A bucket's lock, held until dropped: a bit of the state, whose line a mutation has read before
/// and writes after. (In the sidecar it would be a cold line more.) What a crash leaves of it means
/// nothing.
pub(super) struct Locked<'a, M: Medium> {
    medium: &'a M,
    at: Offset,
}

impl<'a, M: Medium> Locked<'a, M> {
    #[inline(always)]
    pub(super) fn attempt(medium: &'a M, at: Offset) -> Option<Self> {
        let word = medium.load(at);
        let is_locked = word & LOCK == 0 && medium.compare_exchange(at, word, word | LOCK).is_ok();
        // Not `then_some`: a guard made too early would unlock for another holder when dropped.
        is_locked.then(|| Locked { medium, at })
    }

    pub(super) fn wait(medium: &'a M, at: Offset) -> Self {
        let mut turn = 0;
        loop {
            if let Some(locked) = Locked::attempt(medium, at) {
                return locked;
            }
            spin(&mut turn);
        }
    }

    /// Leaves the bucket locked, for somebody else to unlock.
    #[inline(always)]
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl<M: Medium> Drop for Locked<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        unlock(self.medium, self.at, LOCK);
    }
}

/// Clears bits of a locked bucket's state, the lock among them.
#[inline(always)]
fn unlock<M: Medium>(medium: &M, at: Offset, bits: u64) {
    // Volatile: who locks the bucket next sees what was done to it.
    fence(Ordering::Release);
    medium.store(at, medium.load(at) & !bits);
}

/// Changes whose flushes have begun and whose fence is still to come, with the locks that they
/// hold until then; at most `MOST`. Whoever meets them is told by [`DIRTY`].
///
/// While there are any, locks are only tried for: who waited could be waited for.
pub(super) struct Unfenced<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> {
    core: &'a Core<M, K, V>,
    count: usize,
    buckets: [Offset; MOST],
    stripes: [Option<Stripe<'a>>; MOST],
    /// Items that were inserted where they had not been.
    inserted: u64,
    removed: u64,
    /// The interim bucket from which the changes copy items, and the tokens of those.
    source: Option<Place>,
    copied: u64,
}

impl<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> Unfenced<'a, M, K, V, MOST> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>) -> Self {
        Unfenced {
            core,
            count: 0,
            buckets: [Offset(0); MOST],
            stripes: [const { None }; MOST],
            inserted: 0,
            removed: 0,
            source: None,
            copied: 0,
        }
    }

    /// Of items that are copied out of a locked interim bucket.
    pub(super) fn from(core: &'a Core<M, K, V>, source: Place) -> Self {
        let mut unfenced = Unfenced::new(core);
        unfenced.source = Some(source);
        unfenced
    }

    /// Waits for the lock of a stripe; nothing else may be held.
    #[inline(always)]
    pub(super) fn lock_stripe(&mut self, stripe: u64) -> Stripe<'a> {
        let word = self.core.stripes.get(stripe as usize);
        Stripe::attempt(word).unwrap_or_else(|| {
            self.settle();
            Stripe::wait(word)
        })
    }

    /// Waits for the lock of a bucket.
    #[inline(always)]
    pub(super) fn lock(&mut self, place: Place) -> Locked<'a, M> {
        let medium = self.core.medium();
        Locked::attempt(medium, place.at).unwrap_or_else(|| {
            self.settle();
            Locked::wait(medium, place.at)
        })
    }

    /// Waits for the lock of a bucket while `geometry` lasts: the caller may hold an interim bucket,
    /// which in the next geometry others wait for who hold this one.
    #[inline(always)]
    pub(super) fn lock_under(&mut self, geometry: Geometry, place: Place) -> Option<Locked<'a, M>> {
        let mut turn = 0;
        loop {
            let locked = Locked::attempt(self.core.medium(), place.at);
            if self.core.geometry() != geometry {
                return None;
            }
            if locked.is_some() {
                return locked;
            }
            self.settle();
            spin(&mut turn);
        }
    }

    /// Takes over a bucket that was changed, to be unlocked when the change is durable.
    #[inline(always)]
    pub(super) fn push(&mut self, place: Place, locked: Locked<'a, M>) {
        locked.keep();
        self.buckets[self.count] = place.at;
        self.count += 1;
    }

    /// Ends the change that was pushed last: the lock of its stripe goes with the bucket's.
    #[inline(always)]
    pub(super) fn end_change(&mut self, stripe: Option<Stripe<'a>>, inserted: u64, removed: u64) {
        self.stripes[self.count - 1] = stripe;
        self.inserted += inserted;
        self.removed += removed;
        self.settle_if_full();
    }

    /// Ends the copying of an item out of the source.
    #[inline(always)]
    pub(super) fn end_copy(&mut self, slot: usize) {
        self.copied |= 1 << slot;
        self.settle_if_full();
    }

    #[inline(always)]
    fn settle_if_full(&mut self) {
        if self.count == MOST {
            self.settle();
        }
    }

    /// Makes the changes durable, and gives the locks back.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if self.count == 0 {
            return;
        }
        let medium = self.core.medium();
        medium.fence();
        if let Some(source) = self.source {
            // The copies are durable and still locked: else somebody could change one, and a search
            // or a crash bring back what stood here.
            self.core.publish(source.at, 0, self.copied);
            self.core.count_at(source.level, -i64::from(self.copied.count_ones()));
            self.copied = 0;
        }
        for index in 0..self.count {
            unlock(medium, self.buckets[index], LOCK | DIRTY);
            self.stripes[index] = None;
        }
        self.count = 0;
        if self.inserted + self.removed > 0 {
            let (inserted, removed) = (self.inserted, self.removed);
            (self.inserted, self.removed) = (0, 0);
            self.core.look_after(inserted, removed);
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed, const MOST: usize> Drop for Unfenced<'_, M, K, V, MOST> {
    #[inline(always)]
    fn drop(&mut self) {
        self.settle();
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    #[track_caller]
    pub(super) fn flush_item(&self, at: Offset, slot: usize) {
        let item = at.add(self.bucket.item_at(slot));
        self.medium().flush_range(item, Bucket::<K, V>::ITEM_BYTES);
    }

    /// Changes the tokens. Until that has been fenced, who meets them is told by [`DIRTY`].
    #[inline(always)]
    pub(super) fn show(&self, at: Offset, set: u64, clear: u64) {
        let medium = self.medium();
        let word = medium.load(at);
        self.note_wrap(word);
        medium.store_release(at, self.bucket.next(word, (word & TOKENS | set) & !clear));
        medium.flush(at);
    }

    /// Changes the tokens, durably.
    pub(super) fn publish(&self, at: Offset, set: u64, clear: u64) {
        let medium = self.medium();
        self.show(at, set, clear);
        medium.fence();
        medium.store(at, medium.load(at) & !DIRTY);
    }

    /// Called before the version after that of `word` is shown: if that one was there before, a
    /// search that was held up from then on could not tell it from the old one.
    #[inline(always)]
    pub(super) fn note_wrap(&self, word: u64) {
        if self.bucket.wraps(word) {
            self.geometry.0[2].fetch_add(1, Ordering::Release);
        }
    }

    /// Stores an item into an empty slot, and shows it instead of the item in the slots `clear`:
    /// log-free insertion (section 3.3.2) and update (3.3.4). One flush if the item is in the line
    /// of its token, since lines keep the order of their stores; a fence is still to come.
    #[inline(always)]
    pub(super) fn fill(&self, at: Offset, slot: usize, key: K, value: V, clear: u64) {
        let medium = self.medium();
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(medium, at, slot, key, value);
        let beyond = self.bucket.beyond_state(slot);
        if !beyond.is_empty() {
            debug_assert!(beyond.start >= LINE);
            medium.flush_range(at.add(beyond.start), beyond.end - beyond.start);
            medium.fence();
        }
        self.show(at, 1 << slot, clear);
    }
}
