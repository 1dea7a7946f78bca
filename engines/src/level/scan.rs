//! Scans beside writers: every key that is present throughout is met exactly once.
//!
//! A scan goes through the buckets of the levels that there are when it begins, in the order of
//! their words in the sidecar, and takes the items of each under its lock. An item moves only
//! while somebody holds the locks of both buckets, so for whoever moves it each of the two lies
//! ahead of the scan or behind it, and stays there until the move is over. What goes from one
//! side to the other would be met twice or not at all: the mover tells the scan, which passes
//! over the item when it comes to it, or looks for the key when it has come to the end.
//!
//! A level that appears later lies behind; one that is dropped has nothing left, and one that is
//! used again is where it was. So only the places of an item count, not why it moves.

use super::Core;
use super::layout::{BucketId, Locked};
use hashbrown::HashTable;
use index::{Fixed, is_same};
use pmem::Medium;
use pmem::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use std::ops::Range;
use std::sync::Arc;

const SLOTS_MAX: usize = super::SLOTS_MAX as usize;

/// The scans under way.
pub(super) struct Scans<K> {
    /// How many: what movers look at first.
    open: AtomicU64,
    list: Mutex<Vec<Arc<Scan<K>>>>,
}

/// How far a scan has come, and what has passed it.
struct Scan<K> {
    /// The next bucket's word; what is before it, or not before `end`, lies behind.
    next: AtomicU64,
    end: u64,
    /// Whether anything was ever told.
    has_passed: AtomicBool,
    passed: Mutex<HashTable<(K, Passed)>>,
}

/// How a key has passed a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// It was met, and lies ahead.
    Forward,
    /// It was not met, and lies behind.
    Back,
}

/// A scan under way, until dropped: its visitor may panic.
struct Open<'a, K> {
    scans: &'a Scans<K>,
    scan: Arc<Scan<K>>,
}

impl<K> Default for Scans<K> {
    fn default() -> Self {
        Scans { open: AtomicU64::new(0), list: Mutex::new(Vec::new()) }
    }
}

impl<K> Scans<K> {
    /// How many scans are under way.
    pub(super) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// The word of the bucket that the one scan under way comes to next.
    #[cfg(test)]
    pub(super) fn next_word(&self) -> Option<u64> {
        self.list.lock().first().map(|scan| scan.next.load(Ordering::Relaxed))
    }
}

impl<K> Drop for Open<'_, K> {
    fn drop(&mut self) {
        let mut list = self.scans.list.lock();
        list.retain(|other| !Arc::ptr_eq(other, &self.scan));
        self.scans.open.store(list.len() as u64, Ordering::Relaxed);
    }
}

impl<K: Fixed> Scan<K> {
    fn new(words: &Range<u64>) -> Scan<K> {
        Scan {
            next: AtomicU64::new(words.start),
            end: words.end,
            has_passed: AtomicBool::new(false),
            passed: Mutex::new(HashTable::new()),
        }
    }

    /// Whether the scan has yet to come to a bucket. True for as long as the caller holds its lock.
    fn is_ahead(&self, bucket: BucketId) -> bool {
        (self.next.load(Ordering::Relaxed)..self.end).contains(&bucket.word)
    }

    /// An item goes from one locked bucket to another.
    fn tell(&self, key: K, [from, to]: [BucketId; 2], hash_of: impl Fn(K) -> u64) {
        let passed = match [from, to].map(|bucket| self.is_ahead(bucket)) {
            [false, true] => Passed::Forward,
            [true, false] => Passed::Back,
            _ => return,
        };
        let mut keys = self.passed.lock();
        match keys.find_entry(hash_of(key), |&(other, _)| is_same(other, key)) {
            // It is on the side again on which it was first.
            Ok(entry) if entry.get().1 != passed => drop(entry.remove()),
            // It was removed and inserted on the other side.
            Ok(_) => {}
            Err(_) => {
                keys.insert_unique(hash_of(key), (key, passed), |&(key, _)| hash_of(key));
            }
        }
        self.has_passed.store(true, Ordering::Relaxed);
    }

    /// Forgets what was told of a key that the scan comes to; whether it was met before.
    fn meet(&self, key: K, hash: u64) -> bool {
        let mut keys = self.passed.lock();
        let entry = keys.find_entry(hash, |&(other, _)| is_same(other, key));
        // One that lay behind was removed and inserted ahead.
        entry.is_ok_and(|entry| entry.remove().0.1 == Passed::Forward)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Visits the `part`-th of `parts` parts of all buckets. Exact beside writers if there is one
    /// part: a scan of several is several scans, and what moves may pass some or all of them.
    pub(super) fn for_each_part(&self, part: usize, parts: usize, visit: &mut dyn FnMut(K, V)) {
        if parts == 1 {
            return self.for_each(visit);
        }
        let words = self.geometry().words();
        let (part, parts, count) = (part as u64, parts as u64, words.end - words.start);
        for word in words.start + count * part / parts..words.start + count * (part + 1) / parts {
            let items = self.take(BucketId::of_word(word), |_| {});
            items.into_iter().flatten().for_each(|(key, value)| visit(key, value));
        }
    }

    fn for_each(&self, visit: &mut dyn FnMut(K, V)) {
        let (open, words) = self.open_scan();
        let scan = &*open.scan;
        for word in words {
            let items = self.take(BucketId::of_word(word), |items| {
                if scan.has_passed.load(Ordering::Relaxed) {
                    for item in items {
                        *item = item.filter(|&(key, _)| !scan.meet(key, self.hashed(key)));
                    }
                }
                // Under the lock: for movers it is here or there, never in between.
                scan.next.store(word + 1, Ordering::Relaxed);
            });
            items.into_iter().flatten().for_each(|(key, value)| visit(key, value));
        }
        // Nothing lies ahead, so nothing more is told.
        let passed = std::mem::take(&mut *scan.passed.lock());
        for (key, _) in passed.into_iter().filter(|&(_, passed)| passed == Passed::Back) {
            if let Some(value) = self.get(key) {
                visit(key, value);
            }
        }
    }

    /// The items of a bucket, which are durable, as `take` leaves them while the lock is held. No
    /// lock is held when they are visited: visitors may do with the table what they like.
    fn take(
        &self,
        bucket: BucketId,
        take: impl FnOnce(&mut [Option<(K, V)>; SLOTS_MAX]),
    ) -> [Option<(K, V)>; SLOTS_MAX] {
        let (medium, at) = (self.medium(), self.at(bucket));
        let _locked = Locked::wait(self.word(bucket));
        let tokens = self.tokens(at);
        let mut items = std::array::from_fn(|slot| {
            (tokens & 1 << slot != 0).then(|| self.bucket.pair(medium, at, slot))
        });
        take(&mut items);
        items
    }

    /// Makes a scan known to movers; also returns what it has to go through.
    fn open_scan(&self) -> (Open<'_, K>, Range<u64>) {
        let scans = &self.scans;
        let mut list = scans.list.lock();
        scans.open.store(list.len() as u64 + 1, Ordering::Relaxed);
        // As in `tell_scans`.
        fence(Ordering::SeqCst);
        let words = self.geometry().words();
        let scan = Arc::new(Scan::new(&words));
        list.push(Arc::clone(&scan));
        (Open { scans, scan }, words)
    }

    /// Called by who moves an item from one bucket to another, while both are locked and after a
    /// look at the geometry.
    pub(super) fn tell_scans(&self, key: K, from: BucketId, to: BucketId) {
        // Either this sees that there is a scan, or the scan sees the geometry that was seen here:
        // then it has yet to come to both buckets.
        fence(Ordering::SeqCst);
        if self.scans.open() != 0 {
            self.tell_open_scans(key, from, to);
        }
    }

    #[cold]
    fn tell_open_scans(&self, key: K, from: BucketId, to: BucketId) {
        for scan in &*self.scans.list.lock() {
            scan.tell(key, [from, to], |key| self.hashed(key));
        }
    }
}
