//! Scans while others write: every key that is present throughout is met exactly once.
//!
//! A scan visits the buckets that exist when it begins, in the order of their numbers, and copies the items of each
//! under its lock. An item moves only under the locks of both buckets. So for the mover each bucket lies ahead of the
//! scan or behind it, and stays there until the move is over. An item that changes sides would be met twice or not at
//! all. So the mover tells the scan, which skips the item when it comes to it, or looks for the key at the end.
//!
//! A bucket that appears later lies behind. A dropped bucket has nothing left, and a reused one is where it was. So
//! only the places of an item count, not why it moves.

use super::buckets::{Item, Locked};
use super::operations::Operations;
use super::scans::{List, Open, Passed};
use index::Error;
use pmem::sync::{Ordering, Part, fence, run_parts};
use std::ops::{ControlFlow, Range};

/// Items that there is room for before a bucket is locked; few buckets have more.
const ITEMS: usize = 16;

/// Scans of a table of buckets.
pub(crate) trait Scanned: Operations {
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

impl<T: Operations> Scanned for T {}

/// A scan of all buckets of a table.
struct BucketScan<'a, T: Operations> {
    table: &'a T,
    open: Open<'a, T::Key>,
}

impl<T: Operations> index::Scan<T::Key, T::Value> for BucketScan<'_, T> {
    fn take_some(&mut self, pairs: &mut Vec<Item<T>>) -> Result<bool, Error> {
        Ok(self.table.take_some(&self.open, pairs))
    }
}
