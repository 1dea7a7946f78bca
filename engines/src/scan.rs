//! Scans beside writers: every key that is present throughout is met exactly once.
//!
//! A scan goes through the buckets that there are when it begins, in the order of their numbers, and
//! takes the items of each under its lock. An item moves only while somebody holds the locks of both
//! buckets, so for whoever moves it each of the two lies ahead of the scan or behind it, and stays
//! there until the move is over. What goes from one side to the other would be met twice or not at
//! all: the mover tells the scan, which passes over the item when it comes to it, or looks for the
//! key when it has come to the end.
//!
//! A bucket that appears later lies behind; one that is dropped has nothing left, and one that is
//! used again is where it was. So only the places of an item count, not why it moves.

use hashbrown::HashTable;
use index::{Fixed, is_same};
use pmem::sync::{AtomicBool, AtomicU64, Mutex, Ordering, Part, fence, run_parts};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The scans under way.
pub(crate) struct Scans<K> {
    /// How many: what movers look at first.
    open: AtomicU64,
    list: Mutex<Vec<Arc<Scan<K>>>>,
}

/// How far a scan has come, and what has passed it.
pub(crate) struct Scan<K> {
    /// The next bucket; what is before it, or not before `end`, lies behind.
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
pub(crate) struct Open<'a, K> {
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
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Called by who moves an item from one bucket to another, while both are locked and after a look at
    /// the geometry.
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

    /// Forgets what was told of a key that the scan comes to; whether it was met before.
    fn meet(&self, key: K, hash: u64) -> bool {
        let mut keys = self.passed.lock();
        let entry = keys.find_entry(hash, |&(other, _)| is_same(other, key));
        // One that lay behind was removed and inserted ahead.
        entry.is_ok_and(|entry| entry.remove().0.1 == Passed::Forward)
    }
}

/// A table whose pairs can be visited bucket by bucket.
pub(crate) trait Scanned<K: Fixed, V: Fixed> {
    /// The items of a bucket.
    type Items: AsMut<[Option<(K, V)>]> + IntoIterator<Item = Option<(K, V)>>;

    /// The scans under way.
    fn scans(&self) -> &Scans<K>;

    /// The numbers of all buckets that may hold items.
    fn buckets(&self) -> Range<u64>;

    /// The items of a bucket, which are durable, as `take` leaves them while the lock is held.
    fn take(&self, bucket: u64, take: impl FnOnce(&mut [Option<(K, V)>])) -> Self::Items;

    /// The value of a key.
    fn value_of(&self, key: K) -> Option<V>;

    /// A hash of a key.
    fn hash_of(&self, key: K) -> u64;

    /// Visits the `part`-th of `parts` parts of all buckets. Exact beside writers if there is one
    /// part: a scan of several is several scans, and what moves may pass some or all of them. No
    /// lock is held while an item is visited: visitors may do with the table what they like.
    fn for_each_part(&self, part: usize, parts: usize, visit: &mut dyn FnMut(K, V)) {
        if parts == 1 {
            return self.for_each_of_all(visit);
        }
        let buckets = self.buckets();
        let (part, parts, count) = (part as u64, parts as u64, buckets.end - buckets.start);
        let [start, end] = [part, part + 1].map(|part| buckets.start + count * part / parts);
        for bucket in start..end {
            let items = self.take(bucket, |_| {});
            items.into_iter().flatten().for_each(|(key, value)| visit(key, value));
        }
    }

    /// Visits all buckets.
    fn for_each_of_all(&self, visit: &mut dyn FnMut(K, V)) {
        for open in self.open_scans(1) {
            let _ = self.run_scan(&open, &mut |key, value| {
                visit(key, value);
                ControlFlow::Continue(())
            });
        }
    }

    /// Visits all buckets on so many threads, or fewer if `visit` says so. What is present throughout is met
    /// exactly once: the scans of all parts are known to movers before any of them begins.
    fn for_each_on<'a>(
        &'a self,
        threads: usize,
        visit: &'a (dyn Fn(K, V) -> ControlFlow<()> + Sync),
    ) where
        Self: Sync,
        K: 'a,
    {
        let part = |open: Open<'a, K>| {
            Box::new(move || {
                let _ = self.run_scan(&open, &mut |key, value| visit(key, value));
            }) as Part<'_>
        };
        run_parts(self.open_scans(threads as u64).into_iter().map(part).collect());
    }

    /// Goes through the buckets of a scan.
    fn run_scan(
        &self,
        open: &Open<'_, K>,
        visit: &mut dyn FnMut(K, V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let scan = &*open.scan;
        for bucket in scan.next.load(Ordering::Relaxed)..scan.end {
            let items = self.take(bucket, |items| {
                if scan.has_passed.load(Ordering::Relaxed) {
                    for item in items {
                        *item = item.filter(|&(key, _)| !scan.meet(key, self.hash_of(key)));
                    }
                }
                // Under the lock: for movers it is here or there, never in between.
                scan.next.store(bucket + 1, Ordering::Relaxed);
            });
            items.into_iter().flatten().try_for_each(|(key, value)| visit(key, value))?;
        }
        // Nothing lies ahead, so nothing more is told.
        let passed = std::mem::take(&mut *scan.passed.lock());
        for (key, _) in passed.into_iter().filter(|&(_, passed)| passed == Passed::Back) {
            if let Some(value) = self.value_of(key) {
                visit(key, value)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Makes scans of as many parts of the buckets known to movers.
    fn open_scans(&self, parts: u64) -> Vec<Open<'_, K>> {
        let scans = self.scans();
        let mut list = scans.list.lock();
        scans.open.store(list.len() as u64 + parts, Ordering::Relaxed);
        // As in `tell`.
        fence(Ordering::SeqCst);
        let Range { start, end } = self.buckets();
        let bound = |part| start + (end - start) * part / parts;
        let open = |part| {
            let scan = Arc::new(Scan::new(&(bound(part)..bound(part + 1))));
            list.push(Arc::clone(&scan));
            Open { scans, scan }
        };
        (0..parts).map(open).collect()
    }
}
