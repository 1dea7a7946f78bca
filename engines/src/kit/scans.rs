//! The scans under way, and what movers tell them: see [`scan`](super::scan).

use hashbrown::HashTable;
use index::{Fixed, is_same};
use pmem::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use std::ops::Range;
use std::sync::Arc;

/// The scans under way.
pub(crate) struct Scans<K> {
    /// How many: what movers look at first.
    pub(super) open: AtomicU64,
    pub(super) list: Mutex<List<K>>,
}

pub(super) type List<K> = Vec<Arc<Scan<K>>>;

/// How far a scan has come, and what has passed it.
pub(crate) struct Scan<K> {
    /// The next bucket; what is before it, or not before `end`, lies behind.
    pub(super) next: AtomicU64,
    pub(super) end: u64,
    /// Whether anything was ever told.
    pub(super) has_passed: AtomicBool,
    pub(super) passed: Mutex<HashTable<(K, Passed)>>,
}

/// How a key has passed a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// It was met, and lies ahead.
    Forward,
    /// It was not met, and lies behind.
    Back,
}

/// A scan under way, until dropped: its visitor may panic.
pub(crate) struct Open<'a, K> {
    scans: &'a Scans<K>,
    pub(super) scan: Arc<Scan<K>>,
}

impl<K> Default for Scans<K> {
    fn default() -> Self {
        Scans { open: AtomicU64::new(0), list: Mutex::new(Vec::new()) }
    }
}

impl<K> Scans<K> {
    /// How many scans are under way.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// The mover of an item calls this, while both are locked and after a look at the geometry.
    pub(crate) fn tell(&self, key: K, from: u64, to: u64, hash_of: impl Fn(K) -> u64)
    where
        K: Fixed,
    {
        // Either this sees that there is a scan, or the scan sees the geometry that was seen here:
        // then it has yet to come to both buckets.
        fence(Ordering::SeqCst);
        if self.open() != 0 {
            self.tell_open(key, [from, to], hash_of);
        }
    }

    #[cold]
    fn tell_open(&self, key: K, moved: [u64; 2], hash_of: impl Fn(K) -> u64)
    where
        K: Fixed,
    {
        for scan in &*self.list.lock() {
            scan.tell(key, moved, &hash_of);
        }
    }

    /// Adds a scan that was announced.
    pub(super) fn add(&self, list: &mut List<K>, buckets: &Range<u64>) -> Open<'_, K>
    where
        K: Fixed,
    {
        let scan = Arc::new(Scan::new(buckets));
        list.push(Arc::clone(&scan));
        Open { scans: self, scan }
    }

    /// The bucket that the one scan under way comes to next.
    #[cfg(test)]
    pub(crate) fn next_bucket(&self) -> Option<u64> {
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
    fn new(buckets: &Range<u64>) -> Scan<K> {
        Scan {
            next: AtomicU64::new(buckets.start),
            end: buckets.end,
            has_passed: AtomicBool::new(false),
            passed: Mutex::new(HashTable::new()),
        }
    }

    /// Whether the scan has yet to come to a bucket. True for as long as the caller holds its lock.
    fn is_ahead(&self, bucket: u64) -> bool {
        (self.next.load(Ordering::Relaxed)..self.end).contains(&bucket)
    }

    /// An item goes from one locked bucket to another.
    fn tell(&self, key: K, [from, to]: [u64; 2], hash_of: impl Fn(K) -> u64) {
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

    /// Forgets what movers reported of a key that the scan comes to. Returns whether it was met before.
    pub(super) fn meet(&self, key: K, hash: u64) -> bool {
        let mut keys = self.passed.lock();
        let entry = keys.find_entry(hash, |&(other, _)| is_same(other, key));
        // One that lay behind was removed and inserted ahead.
        entry.is_ok_and(|entry| entry.remove().0.1 == Passed::Forward)
    }
}
