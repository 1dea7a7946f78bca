//! The refill of the cached table (section 3.7): on demand, or by a background thread after opening and whenever a
//! resize has emptied the cached table.

use super::Core;
use crate::kit::buckets::{Buckets, Locked};
use crate::kit::scan::Scanned;
use crate::kit::search::Search;
use crate::kit::workers::Workers;
use index::Fixed;
use pmem::Medium;
use pmem::sync::{AtomicBool, Ordering};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// How the thread that refills is told what to do.
#[derive(Debug, Default)]
pub(super) struct Refills {
    threads: OnceLock<Vec<Thread>>,
    is_stopped: AtomicBool,
}

impl Refills {
    /// Says that the cached table has begun anew.
    pub(super) fn wake(&self) {
        self.threads.get().into_iter().flatten().for_each(Thread::unpark);
    }
}

/// The thread that refills, until dropped.
pub(super) struct Refiller<M: Medium, K: Fixed, V: Fixed> {
    core: Arc<Core<M, K, V>>,
    workers: Option<Workers>,
}

impl<M: Medium, K: Fixed, V: Fixed> Refiller<M, K, V> {
    /// Starts it, if there is a cached table, the settings ask for it, and the system allows it.
    pub(super) fn start(core: &Arc<Core<M, K, V>>) -> Self {
        // A simulated machine has no threads of the table's own: there, helpers refill.
        let is_refilled = core.tables.settings.refills_cache && !cfg!(feature = "simulated");
        let count = usize::from(core.cache.is_some() && is_refilled);
        let workers = Workers::start(count, "firndex-refill", &|_| {
            let core = Arc::clone(core);
            Box::new(move || core.keep_refilled())
        });
        core.refills.threads.get_or_init(|| workers.threads());
        Refiller { core: Arc::clone(core), workers: Some(workers) }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Drop for Refiller<M, K, V> {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.take() {
            workers.stop(&self.core.refills.is_stopped, self.core.tables.pool.is_inherited());
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Refills the cached table, and again when it has begun anew, until the table is closed.
    fn keep_refilled(&self) {
        let mut filled = None;
        while !self.refills.is_stopped.load(Ordering::Relaxed) {
            let epoch = self.cache.as_ref().map(|cache| cache.state().epoch());
            if epoch == filled {
                // Woken meanwhile, it goes on at once.
                std::thread::park();
            } else {
                filled = epoch;
                self.refill();
            }
        }
    }

    /// Caches what there is room for, on as many threads as recovery uses. If that was everything, and nothing
    /// was left out or dropped meanwhile, the cached table is full-loaded: then it also knows what is absent.
    /// Whether that is so; of refills at once all say no but one.
    pub(super) fn refill(&self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let begun = cache.begin_refill();
        let misses_some = AtomicBool::new(false);
        self.for_each_on(self.tables.settings.recovery_threads(), &|key: K, _: V| {
            if self.refills.is_stopped.load(Ordering::Relaxed) {
                misses_some.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            let hash = self.hash(key);
            // What the scan has met may have changed since; under its home's lock it cannot.
            let _home = Locked::wait(self.shared.homes.get(hash.home()));
            if let Some(value) = self.get_from_buckets(key)
                && !cache.insert(key, hash, value, |key| self.hash(key), None)
            {
                misses_some.store(true, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        });
        cache.end_refill(begun, !misses_some.load(Ordering::Relaxed))
    }
}
