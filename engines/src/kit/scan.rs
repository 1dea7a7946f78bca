//! Scans while others write: every key that is present throughout is met exactly once.
//!
//! A scan visits the buckets that exist when it begins, in the order of their numbers, and copies the items of each
//! under its lock. An item moves only under the locks of both buckets. So for the mover each bucket lies ahead of the
//! scan or behind it, and stays there until the move is over. An item that changes sides would be met twice or not at
//! all. So the mover tells the scan, which skips the item when it comes to it, or looks for the key at the end.
//!
//! A bucket that appears later lies behind. A dropped bucket has nothing left, and a reused one is where it was. So
//! only the places of an item count, not why it moves.

use super::buckets::{Buckets, Item, Locked};
use hashbrown::HashTable;
use index::{Error, Fixed, is_same};
use pmem::sync::{AtomicBool, AtomicU64, Mutex, Ordering, Part, fence, run_parts};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Items that there is room for before a bucket is locked; few buckets have more.
const ITEMS: usize = 16;

/// The scans under way.
pub(crate) struct Scans<K> {
    /// How many: what movers look at first.
    open: AtomicU64,
    list: Mutex<List<K>>,
}

type List<K> = Vec<Arc<Scan<K>>>;

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
    fn add(&self, list: &mut List<K>, buckets: &Range<u64>) -> Open<'_, K>
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
    fn meet(&self, key: K, hash: u64) -> bool {
        let mut keys = self.passed.lock();
        let entry = keys.find_entry(hash, |&(other, _)| is_same(other, key));
        // One that lay behind was removed and inserted ahead.
        entry.is_ok_and(|entry| entry.remove().0.1 == Passed::Forward)
    }
}

/// Scans of a table of buckets.
pub(crate) trait Scanned: Buckets {
    /// Begins a scan of all buckets.
    fn scan(&self) -> Box<dyn index::Scan<Self::Key, Self::Value> + '_> {
        let mut list = self.shared().scans.list.lock();
        let buckets = self.announce(&list, 1);
        Box::new(BucketScan { table: self, open: self.shared().scans.add(&mut list, &buckets) })
    }

    /// Visits all buckets on so many threads, or fewer if `visit` says so. What is present throughout is met
    /// exactly once: the scans of all parts are known to movers before any of them begins.
    fn for_each_on<'a>(
        &'a self,
        threads: usize,
        visit: &'a (dyn Fn(Self::Key, Self::Value) -> ControlFlow<()> + Sync),
    ) {
        let part = |open: Open<'a, Self::Key>| {
            Box::new(move || {
                let (mut items, mut is_over) = (Vec::new(), false);
                while !is_over {
                    is_over = !self.take_some(&open, &mut items);
                    if items.drain(..).try_for_each(|(key, value)| visit(key, value)).is_break() {
                        return;
                    }
                }
            }) as Part<'_>
        };
        run_parts(self.open_scans(threads as u64).into_iter().map(part).collect());
    }

    /// [`Scanned::for_each_on`] to the end.
    fn for_all_on(&self, threads: usize, visit: &(dyn Fn(Self::Key, Self::Value) + Sync)) {
        self.for_each_on(threads, &|key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        });
    }

    /// Takes the items of the next bucket of a scan; whether there may be more.
    fn take_some(&self, open: &Open<'_, Self::Key>, items: &mut Vec<Item<Self>>) -> bool {
        let scan = &*open.scan;
        let number = scan.next.load(Ordering::Relaxed);
        if number < scan.end {
            let bucket = Self::bucket_of(number);
            let first = items.len();
            // Not while others wait for the bucket.
            items.reserve(ITEMS);
            let locked = Locked::wait(self.state(bucket));
            self.items_of(bucket, items);
            if scan.has_passed.load(Ordering::Relaxed) {
                let is_met = |item: &mut Item<Self>| scan.meet(item.0, self.hash(item.0).0);
                items.extract_if(first.., is_met).for_each(drop);
            }
            // Under the lock: for movers it is here or there, never in between.
            scan.next.store(number + 1, Ordering::Relaxed);
            drop(locked);
            return true;
        }
        // Nothing lies ahead, so movers report nothing more.
        let passed = std::mem::take(&mut *scan.passed.lock());
        let behind = passed.into_iter().filter(|&(_, passed)| passed == Passed::Back);
        items.extend(behind.filter_map(|(key, _)| Some((key, self.get(key)?))));
        false
    }

    /// Makes scans of as many parts of the buckets known to movers.
    fn open_scans(&self, parts: u64) -> Vec<Open<'_, Self::Key>> {
        let mut list = self.shared().scans.list.lock();
        let Range { start, end } = self.announce(&list, parts);
        let bound = |part| start + (end - start) * part / parts;
        let buckets = |part| bound(part)..bound(part + 1);
        (0..parts).map(|part| self.shared().scans.add(&mut list, &buckets(part))).collect()
    }

    /// Tells movers that there will be this many more scans than in the locked list; the buckets that these are of.
    fn announce(&self, list: &List<Self::Key>, count: u64) -> Range<u64> {
        self.shared().scans.open.store(list.len() as u64 + count, Ordering::Relaxed);
        // As in `tell`.
        fence(Ordering::SeqCst);
        self.numbers()
    }
}

impl<T: Buckets> Scanned for T {}

/// A scan of all buckets of a table.
struct BucketScan<'a, T: Buckets> {
    table: &'a T,
    open: Open<'a, T::Key>,
}

impl<T: Buckets> index::Scan<T::Key, T::Value> for BucketScan<'_, T> {
    fn take_some(&mut self, pairs: &mut Vec<Item<T>>) -> Result<bool, Error> {
        Ok(self.table.take_some(&self.open, pairs))
    }
}
