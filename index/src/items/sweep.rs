//! The sweep: frees the space to which nothing leads.
//!
//! Look-ups and scans need no free space, so a large store is open before it is swept. The sweep then runs beside
//! changes if somebody has taken it over; otherwise the first change makes it. Until it is through,
//!
//! * a change says what it is about to unlink ([`Heap::note_unlinking`](pmem::heap::Heap::note_unlinking));
//! * a change that concerns several keys of one hash waits: the sweep counts these;
//! * the heap does not grow: a change that finds no room waits, since the sweep may find some.

use super::{AnyItems, GROUP, Items};
use crate::traits::Index;
use pmem::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering, parts_of};
use pmem::{Medium, Offset};
use std::ops::ControlFlow;

/// Pairs that are worth another thread.
const PAIRS_PER_THREAD: u64 = 50_000;

/// How far the sweep is.
pub(super) struct Swept {
    stage: AtomicU8,
    /// Held by who marks what is reachable, or frees the rest.
    sweeping: Mutex<()>,
    /// Whether somebody makes it who does not need it.
    is_taken_over: AtomicBool,
    /// Whether the free slots that were on record were there.
    has_found_free_slots: AtomicBool,
    threads: usize,
    /// Keys on record.
    pub(super) recorded_pairs: Option<u64>,
    /// Keys that came since, less those that went. Counted until it is done.
    added: AtomicU64,
    /// Keys beyond the first of each hash that it has met.
    collisions: AtomicU64,
}

/// What is reachable is not marked, or only in part.
const NOT_MARKED: u8 = 0;
/// It will not be, since the pool is about to be closed.
const GIVEN_UP: u8 = 1;
/// It is. The rest is yet to be freed, which changes the pool.
const MARKED: u8 = 2;
const DONE: u8 = 3;

impl Swept {
    /// Not yet; on at most so many threads.
    pub(super) fn not_yet(threads: usize, recorded_pairs: Option<u64>) -> Swept {
        Swept {
            stage: AtomicU8::new(NOT_MARKED),
            sweeping: Mutex::default(),
            is_taken_over: AtomicBool::new(false),
            has_found_free_slots: AtomicBool::new(true),
            threads,
            recorded_pairs,
            added: AtomicU64::new(0),
            collisions: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn stage(&self) -> u8 {
        self.stage.load(Ordering::Acquire)
    }

    /// Notes whether all free slots on record were there. Without, the sweep finds them.
    pub(super) fn note_free_slots(&self, are_found: bool) {
        self.has_found_free_slots.store(are_found, Ordering::Relaxed);
    }

    #[cfg(feature = "simulated")]
    pub(super) fn has_found_free_slots(&self) -> bool {
        self.has_found_free_slots.load(Ordering::Relaxed)
    }

    /// Counts that a change turned `before` keys of a hash into `after`.
    pub(super) fn count(&self, before: usize, after: usize) {
        if self.stage() != DONE {
            self.added.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
        }
    }
}

impl<I: Index<u64, u64> + ?Sized, M: Medium> Items<I, M> {
    /// Whether changes need not look after the sweep.
    #[inline(always)]
    pub(super) fn is_swept(&self) -> bool {
        self.swept.stage() == DONE
    }
}

impl<M: Medium> AnyItems<M> {
    /// To be called before a change that does not wait for the sweep.
    pub(super) fn begin_unswept(&self) {
        let is_left_to_others = self.swept.is_taken_over.load(Ordering::Relaxed);
        if !is_left_to_others || self.swept.stage() == MARKED {
            self.sweep_all();
        }
    }

    /// From now on changes leave the sweep to the caller, who calls [`AnyItems::sweep_unless`]. Returns whether there
    /// is anything to sweep.
    pub(super) fn take_sweep_over(&self) -> bool {
        self.swept.is_taken_over.store(true, Ordering::Relaxed);
        !self.is_swept()
    }

    /// Sweeps on one thread, beside changes. Gives it up if it `is_stopped` and no count depends on it.
    pub(super) fn sweep_unless(&self, is_stopped: &AtomicBool) {
        let may_stop = self.swept.recorded_pairs.is_some();
        self.mark_while(1, &|| !(may_stop && is_stopped.load(Ordering::Relaxed)));
        self.free_if_dirty();
    }

    /// Sweeps, unless the pool says that it is clean.
    pub(super) fn settle_sweep(&self) {
        self.mark_while(self.swept.threads, &|| true);
        self.free_if_dirty();
    }

    /// Frees what is not reachable, unless that would change a pool that says that it is clean: then the next change
    /// does.
    fn free_if_dirty(&self) {
        let pool = self.space.heap.pool();
        let write = pool.gate().enter();
        if write.is_some() || pool.is_read_only() {
            self.free_unmarked();
        }
    }

    /// Waits until the heap is swept; sweeps it, if nobody is about to. For who has the right to write.
    #[inline(never)]
    pub(super) fn sweep_all(&self) {
        self.mark_while(self.swept.threads, &|| true);
        self.free_unmarked();
    }

    /// As [`AnyItems::sweep_all`], for who has no right to write. Returns whether it is swept: a forked child does not
    /// see to it.
    pub(super) fn sweep_to_look(&self) -> bool {
        if !self.is_swept() {
            self.mark_while(self.swept.threads, &|| true);
            let pool = self.space.heap.pool();
            if pool.is_read_only() {
                self.free_unmarked();
            } else if let Ok(_write) = pool.write() {
                self.free_unmarked();
            }
        }
        self.is_swept()
    }

    /// Marks what is reachable, unless that was done.
    fn mark_while(&self, threads: usize, goes_on: &(dyn Fn() -> bool + Sync)) {
        if self.swept.stage() != NOT_MARKED || self.space.heap.pool().is_inherited() {
            return;
        }
        let _sweeping = self.swept.sweeping.lock();
        if self.swept.stage() == NOT_MARKED {
            let is_marked = self.mark(threads, goes_on);
            let stage = if is_marked { MARKED } else { GIVEN_UP };
            self.swept.stage.store(stage, Ordering::Release);
            if is_marked {
                self.tally.tell_collisions(self.swept.collisions.load(Ordering::Relaxed));
            }
        }
    }

    /// Frees what is not marked, if all that is reachable is.
    fn free_unmarked(&self) {
        if self.swept.stage() != MARKED || self.space.heap.pool().is_inherited() {
            return;
        }
        let _sweeping = self.swept.sweeping.lock();
        if self.swept.stage() == MARKED {
            self.space.heap.sweep().finish();
            self.swept.stage.store(DONE, Ordering::Release);
        }
    }

    /// The number of keys. Before the sweep it follows from the one on record; without a record it takes the sweep.
    pub(super) fn pairs(&self) -> u64 {
        if !self.is_swept() {
            if let Some(recorded) = self.swept.recorded_pairs {
                return recorded.wrapping_add(self.swept.added.load(Ordering::Relaxed));
            }
            self.mark_while(self.swept.threads, &|| true);
        }
        // The index counts hashes. It never counts from the number on record, which is of keys.
        self.index.len().wrapping_add(self.collisions.load(Ordering::Relaxed))
    }

    /// Returns whether it came to the end.
    fn mark(&self, threads: usize, goes_on: &(dyn Fn() -> bool + Sync)) -> bool {
        let sweep = self.space.heap.sweep();
        let threads = match threads {
            // The index may have to be built whole to count its slots. Who closes the pool would wait for that.
            1 => 1,
            _ => parts_of(self.index.len(), PAIRS_PER_THREAD, threads) as usize,
        };
        // From before the first slot is read until all are marked: what others unlink meanwhile is not given back, so
        // nothing is marked that is free.
        let _pinned = self.space.epochs.pin();
        let has_stopped = AtomicBool::new(false);
        // Helpers may move slots meanwhile; the scan meets every slot all the same.
        self.index.for_each_on(threads, &|_, slot| {
            if !goes_on() {
                has_stopped.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            // What cannot be marked is damaged. Then the sweep frees nothing, and reading or `check` reports the
            // damage.
            let _ = sweep.mark(Offset(slot & !GROUP));
            if slot & GROUP != 0 {
                let guard = self.space.epochs.pin();
                let group = self.space.heap.group(Offset(slot & !GROUP), &guard);
                let group = group.unwrap_or_default();
                self.count_collisions(1, group.len());
                for at in group {
                    let _ = sweep.mark(at);
                }
            }
            ControlFlow::Continue(())
        });
        self.swept.collisions.store(self.collisions.load(Ordering::Relaxed), Ordering::Relaxed);
        !has_stopped.load(Ordering::Relaxed)
    }
}
