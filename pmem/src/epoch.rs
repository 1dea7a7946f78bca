//! When a retired item's space may be used again.
//!
//! Glossary. A thread *pins* while it holds references to items; its *pin* is the epoch it read
//! when it began. An item is *retired* once no slot leads to it any more; it is *tagged* with an
//! epoch and *reclaimed* when the global epoch is two beyond its tag.
//!
//! Protocol. The global epoch advances from *e* to *e* + 1 only when every pin found in a scan
//! is *e*. The tag is one more than the global epoch as the retiring thread reads it, pinned, and
//! the global epoch cannot be beyond the tag then: a scan that missed the thread's pin had its
//! heavy barrier before the pin was stored, so the thread reads at least the epoch that this scan
//! began with, and the scan adds one; a scan that saw the pin passes only at the pin's epoch. (The
//! pin itself will not do as a base: a thread held up between reading the epoch and storing its
//! pin pins an epoch long gone.) A reader that may still hold the item pinned before the item was
//! retired. However stale its pin, once stored it lets at most the one scan pass that was under
//! way: the epoch reaches tag + 1 and no more until the reader unpins.
//!
//! No operation waits for an epoch: what cannot be reclaimed yet stays in its bag. A stalled
//! reader therefore holds back space, not progress.

use crate::sync::{
    AtomicU64, Line, Mutex, Ordering, PerThread, THREADS_MAX, heavy_barrier, light_barrier,
    thread_index,
};
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;

/// Bags of retired items; threads are spread over them.
const BAGS: usize = 64;
/// A bag tries to advance the epoch each time it has taken this many items: a scan with its
/// heavy barrier costs microseconds, so it is shared by many.
///
/// On the crash lab's machine, whose histories are short, each second one scans.
const RETIRES_PER_SCAN: u64 = if cfg!(feature = "simulated") { 2 } else { 128 };
/// ... or items of this many bytes, so that few large ones do not hold much space back.
const BYTES_PER_SCAN: u64 = 256 << 10;

/// How often an operation that replaces something and finds no space takes back what was retired and
/// tries again: what it needs may wait for others to end their operations, which takes them moments.
pub const ATTEMPTS_WHEN_FULL: u32 = if cfg!(feature = "simulated") { 2 } else { 100 };

// Words of a thread's line.
const DEPTH: usize = 0;
const PIN: usize = 1;

/// Words of the line that threads without a number share: each counts the pins at epochs of one
/// remainder. So a scan passes new pins, and waits for old ones only: were all counted together, some
/// threads could keep a scan from ever passing, each of them pinned for no more than a moment.
const SHARED_COUNTS: usize = 4;

/// A pin is stored as `epoch << 1 | 1`, so that 0 means not pinned.
const fn pin_of(epoch: u64) -> u64 {
    epoch << 1 | 1
}

#[derive(Debug, Default)]
struct Bag {
    retired: VecDeque<(u64, u64)>,
    /// Items and bytes taken since the last scan.
    taken: u64,
    taken_bytes: u64,
}

/// The epochs of one pool's items.
#[derive(Debug)]
pub struct Epochs {
    global: Line,
    threads: PerThread,
    bags: Box<[Mutex<Bag>]>,
}

/// Keeps every item that can be reached now in place until dropped.
#[derive(Debug)]
pub struct Guard<'a> {
    epochs: &'a Epochs,
    /// The thread's number; for one without, `THREADS_MAX` and the word of the shared line.
    place: usize,
    /// The pin is in this thread's line.
    _not_send: PhantomData<*const ()>,
}

impl Epochs {
    /// Epochs without pins or retired items.
    pub fn new() -> io::Result<Self> {
        Ok(Epochs {
            global: Line::default(),
            threads: PerThread::of_holds(DEPTH)?,
            bags: (0..BAGS).map(|_| Mutex::default()).collect(),
        })
    }

    fn global(&self) -> &AtomicU64 {
        &self.global.0[0]
    }

    /// Pins the calling thread; pins nest.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        let thread = thread_index();
        if thread >= THREADS_MAX {
            return self.pin_shared();
        }
        let line = &self.threads.line(thread).0;
        let depth = line[DEPTH].load(Ordering::Relaxed);
        line[DEPTH].store(depth + 1, Ordering::Relaxed);
        if depth == 0 {
            let epoch = self.global().load(Ordering::Relaxed);
            line[PIN].store(pin_of(epoch), Ordering::Relaxed);
            // Either a scan sees this pin, or what follows sees everything unlinked before
            // that scan.
            light_barrier();
        }
        Guard { epochs: self, place: thread, _not_send: PhantomData }
    }

    #[cold]
    fn pin_shared(&self) -> Guard<'_> {
        loop {
            let epoch = self.global().load(Ordering::Relaxed);
            let word = epoch as usize % SHARED_COUNTS;
            let count = &self.threads.line(THREADS_MAX).0[word];
            count.fetch_add(1, Ordering::SeqCst);
            light_barrier();
            // Counted for an epoch long gone, it might pass for a pin at a later one.
            if self.global().load(Ordering::Acquire) == epoch {
                return Guard { epochs: self, place: THREADS_MAX + word, _not_send: PhantomData };
            }
            count.fetch_sub(1, Ordering::Release);
        }
    }

    #[inline]
    fn unpin(&self, place: usize) {
        if place >= THREADS_MAX {
            let count = &self.threads.line(THREADS_MAX).0[place - THREADS_MAX];
            count.fetch_sub(1, Ordering::Release);
            return;
        }
        let line = &self.threads.line(place).0;
        let depth = line[DEPTH].load(Ordering::Relaxed) - 1;
        if depth == 0 {
            line[PIN].store(0, Ordering::Release);
        }
        // Seen by who gives the thread's number to another one: the pin is gone before.
        line[DEPTH].store(depth, Ordering::Release);
    }

    /// Advances the epoch if every pin is at it.
    fn try_advance(&self) -> u64 {
        let epoch = self.global().load(Ordering::Acquire);
        heavy_barrier();
        let mut lines = self.threads.used();
        if let Some(shared) = lines.next() {
            let mut counts = shared.0[..SHARED_COUNTS].iter().enumerate();
            let passes = |word| word == epoch as usize % SHARED_COUNTS;
            if counts.any(|(word, count)| !passes(word) && count.load(Ordering::Acquire) != 0) {
                return epoch;
            }
        }
        for line in lines {
            let pin = line.0[PIN].load(Ordering::Acquire);
            if pin != 0 && pin != pin_of(epoch) {
                return epoch;
            }
        }
        match self.global().compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => epoch + 1,
            Err(newer) => newer,
        }
    }

    fn reclaimable(&self, bag: &mut Bag, into: &mut Vec<u64>) {
        let epoch = self.global().load(Ordering::Acquire);
        while let Some(&(tag, item)) = bag.retired.front() {
            if tag + 2 > epoch {
                break;
            }
            bag.retired.pop_front();
            into.push(item);
        }
    }

    /// Items retired and not yet reclaimed.
    pub fn retired(&self) -> Vec<u64> {
        let items = |bag: &Mutex<Bag>| {
            let bag = bag.lock();
            bag.retired.iter().map(|&(_, item)| item).collect::<Vec<_>>()
        };
        self.bags.iter().flat_map(items).collect()
    }

    /// Reclaims what can be reclaimed now, whoever retired it.
    pub fn collect(&self, mut reclaim: impl FnMut(u64)) {
        for _ in 0..3 {
            self.try_advance();
        }
        let mut ready = Vec::new();
        for bag in &self.bags {
            let mut bag = bag.lock();
            self.reclaimable(&mut bag, &mut ready);
        }
        ready.into_iter().for_each(&mut reclaim);
    }
}

impl Guard<'_> {
    /// Retires `item` of `bytes` bytes, to which no slot leads any more, durably so. Call it once
    /// per item. `reclaim` is called for items, this one or earlier ones, that nobody can hold any
    /// more.
    pub fn retire(&self, item: u64, bytes: u64, mut reclaim: impl FnMut(u64)) {
        let epochs = self.epochs;
        let tag = epochs.global().load(Ordering::Relaxed) + 1;
        let mut ready = Vec::new();
        {
            let bag = &epochs.bags[self.place % BAGS];
            let mut bag = bag.lock();
            bag.retired.push_back((tag, item));
            bag.taken += 1;
            bag.taken_bytes = bag.taken_bytes.saturating_add(bytes);
            if bag.taken >= RETIRES_PER_SCAN || bag.taken_bytes >= BYTES_PER_SCAN {
                (bag.taken, bag.taken_bytes) = (0, 0);
                epochs.try_advance();
                epochs.reclaimable(&mut bag, &mut ready);
            }
        }
        ready.into_iter().for_each(&mut reclaim);
    }
}

impl Clone for Guard<'_> {
    fn clone(&self) -> Self {
        self.epochs.pin()
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.epochs.unpin(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    fn collected(epochs: &Epochs) -> Vec<u64> {
        let mut items = Vec::new();
        epochs.collect(|item| items.push(item));
        items
    }

    #[test]
    fn nothing_is_reclaimed_under_a_pin() {
        let epochs = Epochs::new().unwrap();
        let reader = epochs.pin();
        std::thread::scope(|scope| {
            scope.spawn(|| epochs.pin().retire(7, 1, |_| panic!("reclaimed at once")));
        });
        for _ in 0..10 {
            assert!(collected(&epochs).is_empty());
        }
        assert_eq!(epochs.retired(), [7]);
        drop(reader);
        assert_eq!(collected(&epochs), [7]);
        assert!(epochs.retired().is_empty());
    }

    /// The steps of `pin` and `retire`, with the thread held up between reading the epoch and
    /// storing its pin.
    #[test]
    fn a_stale_pin_does_not_tag_items_with_an_epoch_long_gone() {
        let epochs = Epochs::new().unwrap();
        let stale = epochs.global().load(Ordering::Relaxed);
        epochs.collect(drop);
        assert!(epochs.global().load(Ordering::Relaxed) >= stale + 3);
        let guard = epochs.pin();
        epochs.threads.line(guard.place).0[PIN].store(pin_of(stale), Ordering::Relaxed);
        guard.retire(7, 1, |_| panic!("reclaimed under the retiring thread's own pin"));
        assert!(collected(&epochs).is_empty());
        drop(guard);
        assert_eq!(collected(&epochs), [7]);
    }

    #[test]
    fn pins_nest() {
        let epochs = Epochs::new().unwrap();
        let outer = epochs.pin();
        drop(epochs.pin());
        outer.retire(1, 1, drop);
        let inner = outer.clone();
        drop(outer);
        assert!(collected(&epochs).is_empty());
        drop(inner);
        assert_eq!(collected(&epochs), [1]);
    }

    /// What more threads than there are numbers do: at every moment one of them is pinned.
    #[test]
    fn pins_that_overlap_without_end_hold_nothing_back_for_ever() {
        let epochs = Epochs::new().unwrap();
        let without_number = || {
            crate::sync::give_up_number();
            let mut pinned = epochs.pin();
            pinned.retire(7, 1, drop);
            for _ in 0..4 {
                assert!(pinned.place >= THREADS_MAX);
                let next = epochs.pin();
                drop(std::mem::replace(&mut pinned, next));
                epochs.collect(drop);
            }
            epochs.retired()
        };
        let retired = std::thread::scope(|scope| scope.spawn(without_number).join().unwrap());
        assert_eq!(retired, []);
    }

    #[test]
    fn a_thread_without_a_number_holds_items_as_others_do() {
        let epochs = Epochs::new().unwrap();
        let without_number = || {
            crate::sync::give_up_number();
            let outer = epochs.pin();
            drop(epochs.pin());
            std::thread::scope(|scope| {
                scope.spawn(|| epochs.pin().retire(7, 1, |_| panic!("reclaimed at once")));
            });
            for _ in 0..10 {
                assert!(collected(&epochs).is_empty());
            }
            drop(outer);
            collected(&epochs)
        };
        assert_eq!(std::thread::scope(|scope| scope.spawn(without_number).join().unwrap()), [7]);
    }

    #[test]
    fn steady_retiring_reclaims_by_itself() {
        let epochs = Epochs::new().unwrap();
        let mut reclaimed = 0;
        for item in 0..10 * RETIRES_PER_SCAN {
            epochs.pin().retire(item, 1, |_| reclaimed += 1);
        }
        assert!(reclaimed > 5 * RETIRES_PER_SCAN, "{reclaimed}");
    }

    /// Readers follow a shared index to a cell; a cell is poisoned when reclaimed.
    #[test]
    fn readers_never_meet_a_reclaimed_item() {
        const CELLS: usize = 4096;
        let epochs = Epochs::new().unwrap();
        let poisoned: Vec<AtomicBool> = (0..CELLS).map(|_| AtomicBool::new(true)).collect();
        let current = AtomicUsize::new(0);
        poisoned[0].store(false, Ordering::Relaxed);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let _guard = epochs.pin();
                        let cell = current.load(Ordering::Acquire);
                        for _ in 0..20 {
                            assert!(!poisoned[cell].load(Ordering::Acquire));
                        }
                    }
                });
            }
            let mut free: VecDeque<usize> = (1..CELLS).collect();
            for _ in 0..400_000 {
                let Some(next) = free.pop_front() else {
                    epochs.collect(|item| {
                        poisoned[item as usize].store(true, Ordering::Release);
                        free.push_back(item as usize);
                    });
                    continue;
                };
                let guard = epochs.pin();
                poisoned[next].store(false, Ordering::Release);
                let old = current.swap(next, Ordering::AcqRel);
                guard.retire(old as u64, 1, |item| {
                    poisoned[item as usize].store(true, Ordering::Release);
                    free.push_back(item as usize);
                });
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
