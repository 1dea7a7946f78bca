//! The sweep: frees the space to which nothing leads, before the first change.
//!
//! Look-ups and scans need no free space, so a large store is open before it is swept. Nothing is retired before the
//! sweep, and nothing taken: the first change makes the sweep, and all others wait for it.

use super::{AnyItems, GROUP, Items};
use crate::traits::Index;
use pmem::sync::{AtomicBool, Mutex, Ordering, parts_of};
use pmem::{Medium, Offset};

/// Pairs that are worth another thread.
const PAIRS_PER_THREAD: u64 = 50_000;

/// Whether the sweep has been made.
pub(super) struct Swept {
    is_done: AtomicBool,
    sweeping: Mutex<()>,
    threads: usize,
    /// Keys on record, which stand for those there are until then.
    pairs: Option<u64>,
}

impl Swept {
    /// Not yet; on at most so many threads.
    pub(super) fn not_yet(threads: usize, pairs: Option<u64>) -> Swept {
        let (is_done, sweeping) = (AtomicBool::new(false), Mutex::default());
        Swept { is_done, sweeping, threads, pairs }
    }

    #[inline(always)]
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }
}

impl<I: Index<u64, u64> + 'static, M: Medium> Items<I, M> {
    /// Sweeps before the first change.
    #[inline(always)]
    pub(super) fn make_ready(&self) {
        if !self.swept.is_done() {
            self.any().sweep_once();
        }
    }
}

impl<M: Medium> AnyItems<M> {
    /// Sweeps, unless that is done. To be called before the caller uses space, or retires any: nothing changes during
    /// a sweep but the places of pairs.
    #[inline(never)]
    pub(super) fn sweep_once(&self) {
        let Swept { is_done, sweeping, threads, .. } = &self.swept;
        let _sweeping = sweeping.lock();
        if !self.swept.is_done() {
            self.sweep(*threads);
            is_done.store(true, Ordering::Release);
        }
    }

    /// The number of keys. Before the sweep it is the one on record; without a record it takes the sweep.
    pub(super) fn pairs(&self) -> u64 {
        if !self.swept.is_done() {
            if let Some(recorded) = self.swept.pairs {
                return recorded;
            }
            self.sweep_once();
        }
        self.index.len().wrapping_add(self.collisions.load(Ordering::Relaxed))
    }

    /// Frees the space to which nothing leads.
    fn sweep(&self, threads: usize) {
        let sweep = self.space.heap.sweep();
        // Helpers may move slots meanwhile; the scan meets every slot all the same.
        let threads = parts_of(self.index.len(), PAIRS_PER_THREAD, threads) as usize;
        self.index.for_each_on(threads, &|_, slot| {
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
        });
        sweep.finish();
    }
}
