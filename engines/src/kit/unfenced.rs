//! Changes that share a fence.

use super::buckets::{Buckets, Item, Located, Locked, Pending};
use super::hash::Hash;
use pmem::Medium;
use pmem::sync::spin;
use std::mem::ManuallyDrop;

/// Changes whose flushes have begun and whose fence is still to come, with the locks that they hold
/// until then; at most `MOST`.
///
/// While there are any, locks are only tried for: who waited could be waited for.
pub(crate) struct Unfenced<'a, T: Buckets, const MOST: usize> {
    core: &'a T,
    count: usize,
    changes: [T::Pending; MOST],
    homes: [Option<Locked<'a>>; MOST],
    asides: [T::Aside; MOST],
    /// The bucket to which an item was moved, where its erasure shares the fence to come.
    held: Option<Locked<'a>>,
    is_any_late: bool,
    /// Items that were inserted where they had not been, and removed.
    inserted: u64,
    removed: u64,
    /// The locked bucket that a resize empties, from which the changes copy items, and what they have copied.
    source: Option<T::Bucket>,
    copied: T::Copied,
}

impl<'a, T: Buckets, const MOST: usize> Unfenced<'a, T, MOST> {
    #[inline(always)]
    pub(crate) fn new(core: &'a T) -> Self {
        Unfenced {
            core,
            count: 0,
            changes: [T::Pending::default(); MOST],
            homes: [const { None }; MOST],
            asides: [T::NOTHING_ASIDE; MOST],
            held: None,
            is_any_late: false,
            inserted: 0,
            removed: 0,
            source: None,
            copied: T::Copied::default(),
        }
    }

    /// Of items that are copied out of a locked bucket.
    pub(crate) fn from(core: &'a T, source: T::Bucket) -> Self {
        let mut unfenced = Unfenced::new(core);
        unfenced.source = Some(source);
        unfenced
    }

    /// Whether items are copied out of a bucket.
    pub(crate) fn copies(&self) -> bool {
        self.source.is_some()
    }

    /// Waits for the home of a key; nothing else may be held.
    #[inline(always)]
    pub(crate) fn lock_home(&mut self, hash: Hash) -> Locked<'a> {
        let word = self.core.shared().homes.get(hash.home());
        Locked::attempt(word).unwrap_or_else(|| {
            self.commit();
            Locked::wait(word)
        })
    }

    /// Waits for the lock of a bucket.
    #[inline(always)]
    pub(crate) fn lock(&mut self, bucket: T::Bucket) -> Locked<'a> {
        let word = self.core.state(bucket);
        Locked::attempt(word).unwrap_or_else(|| {
            self.commit();
            Locked::wait(word)
        })
    }

    /// Waits for the lock of a bucket while `geometry` lasts: the caller may hold a bucket that is being
    /// emptied, which in the next geometry others wait for who hold this one.
    #[inline(always)]
    pub(crate) fn lock_under(
        &mut self,
        geometry: T::Geometry,
        bucket: T::Bucket,
    ) -> Option<Locked<'a>> {
        let core = self.core;
        let mut turn = 0;
        loop {
            let locked = Locked::attempt(core.state(bucket));
            if core.geometry() != geometry {
                return None;
            }
            if locked.is_some() {
                return locked;
            }
            self.commit();
            spin(&mut turn);
        }
    }

    /// Of two buckets for a copy first the one that is not held for another copy, if they are to keep apart.
    #[inline(always)]
    pub(super) fn not_held_first(&self, [first, second]: [T::Bucket; 2]) -> [T::Bucket; 2] {
        let is_held = |bucket| self.changes[..self.count].iter().any(|one| one.bucket() == bucket);
        let keeps_apart = T::COPIES_KEEP_APART && self.source.is_some();
        if keeps_apart && is_held(first) { [second, first] } else { [first, second] }
    }

    /// Puts an item that was not there into an empty slot of a locked bucket, which this takes over.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        (bucket, slot): (Located<T::Bucket>, usize),
        locked: Locked<'a>,
        item: Item<T>,
        hash: Hash,
    ) {
        // What a resize moves does not change.
        let aside = match self.source {
            Some(_) => T::NOTHING_ASIDE,
            None => self.core.begin_aside(item.0, hash, true, Some(item.1)),
        };
        self.put((bucket, slot), locked, item, hash, 0, aside);
    }

    /// Puts an item into an empty slot of a locked bucket, which this takes over. The slots `clear` of the bucket
    /// have it until then.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        (bucket, slot): (Located<T::Bucket>, usize),
        locked: Locked<'a>,
        item: Item<T>,
        hash: Hash,
        clear: u64,
        aside: T::Aside,
    ) {
        let change = self.core.fill(bucket, slot, item, hash, clear);
        if MOST > 1 && change.is_late() {
            self.is_any_late = true;
        } else {
            if change.is_late() {
                self.core.medium().fence();
            }
            self.core.commit(bucket.at, &change);
        }
        self.push(locked, change, aside);
    }

    /// Holds a bucket that an item was moved to until the next fence.
    #[inline(always)]
    pub(super) fn hold(&mut self, held: Option<Locked<'a>>) {
        self.held = held;
    }

    /// Takes over a locked bucket that was changed.
    #[inline(always)]
    pub(crate) fn push(&mut self, locked: Locked<'a>, change: T::Pending, aside: T::Aside) {
        std::mem::forget(locked);
        self.changes[self.count] = change;
        self.asides[self.count] = aside;
        self.count += 1;
    }

    /// Ends the change that was pushed last: the lock of its home goes with the bucket's.
    #[inline(always)]
    pub(crate) fn end_change(&mut self, home: Option<Locked<'a>>, inserted: u64, removed: u64) {
        self.homes[self.count - 1] = home;
        self.inserted += inserted;
        self.removed += removed;
        self.commit_if_full();
    }

    /// Ends the copying of an item out of the source, into the bucket that was pushed last.
    #[inline(always)]
    pub(crate) fn end_copy(&mut self, spot: T::Spot, key: T::Key) {
        T::add_copied(&mut self.copied, spot);
        if let Some(source) = self.source {
            self.core.tell_scans(key, source, self.changes[self.count - 1].bucket());
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
    pub(crate) fn commit(&mut self) {
        if self.count == 0 {
            return;
        }
        let core = self.core;
        core.medium().fence();
        if MOST > 1 && self.is_any_late {
            for change in self.changes[..self.count].iter().filter(|change| change.is_late()) {
                core.commit(core.at(change.bucket()), change);
            }
            core.medium().fence();
            self.is_any_late = false;
        }
        if let Some(source) = self.source {
            self.delete_copied(source);
        }
        for index in 0..self.count {
            core.show(&mut self.changes[index]);
            core.end_aside(self.asides[index]);
            self.homes[index] = None;
        }
        self.held = None;
        self.count = 0;
        if self.inserted + self.removed > 0 {
            let (inserted, removed) = (self.inserted, self.removed);
            (self.inserted, self.removed) = (0, 0);
            core.count(inserted, removed);
        }
    }

    /// The copies are durable: shows them, and deletes what was copied. The copies stay locked until that is durable:
    /// when a shrink is turned back, searches come to a copy first, and else somebody could change one, and a crash
    /// bring back what stood here.
    fn delete_copied(&mut self, source: T::Bucket) {
        for change in &mut self.changes[..self.count] {
            self.core.show_locked(change);
        }
        self.core.delete_copied(source, std::mem::take(&mut self.copied));
    }
}

impl<'a, T: Buckets> Unfenced<'a, T, 1> {
    /// For a single change, which `change` ends if it makes one: then nothing is left to be committed, and what would
    /// see to that, when all of this is dropped, would need it in memory.
    #[inline(always)]
    pub(crate) fn alone<R>(core: &'a T, change: impl FnOnce(&mut Self) -> R) -> R {
        let mut unfenced = ManuallyDrop::new(Unfenced::new(core));
        let result = change(&mut unfenced);
        debug_assert_eq!(unfenced.count, 0);
        result
    }
}

impl<T: Buckets, const MOST: usize> Drop for Unfenced<'_, T, MOST> {
    #[inline(always)]
    fn drop(&mut self) {
        self.commit();
    }
}
