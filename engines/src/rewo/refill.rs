//! The refill of the cached table (section 3.7): when it is asked for, or by a thread of the table's own after
//! opening and whenever a resize has made the cached table begin anew.

use super::Core;
use super::layout::Locked;
use crate::scan::Scanned;
use index::Fixed;
use pmem::sync::{AtomicBool, Ordering};
use pmem::{Medium, OpenError};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};

/// How the thread that refills is told what to do.
#[derive(Debug, Default)]
pub(super) struct Refills {
    thread: OnceLock<Thread>,
    is_stopped: AtomicBool,
}

impl Refills {
    /// Says that the cached table has begun anew.
    pub(super) fn wake(&self) {
        self.thread.get().into_iter().for_each(Thread::unpark);
    }
}

/// The thread that refills, ended by [`Refiller::stop`].
#[derive(Debug)]
pub(super) struct Refiller(JoinHandle<()>);

impl Refiller {
    /// Starts the thread, if there is a cached table and the settings ask for it.
    pub(super) fn start<M: Medium, K: Fixed, V: Fixed>(
        core: &Arc<Core<M, K, V>>,
    ) -> Result<Option<Refiller>, OpenError> {
        if core.cache.is_none() || !core.settings.refills_cache {
            return Ok(None);
        }
        let theirs = Arc::clone(core);
        let thread = std::thread::Builder::new().name("firndex-refill".into());
        let thread =
            thread.spawn(move || theirs.keep_refilled()).map_err(|source| OpenError::Io {
                action: "starting a thread for",
                path: "the cached table".into(),
                source,
            })?;
        core.refills.thread.get_or_init(|| thread.thread().clone());
        Ok(Some(Refiller(thread)))
    }

    /// Ends the thread and waits for it; in a forked child there is none to wait for.
    pub(super) fn stop(self, refills: &Refills, is_inherited: bool) {
        if is_inherited {
            // Its handle names no thread of this process, or one that it has started since: not even to be
            // detached.
            std::mem::forget(self.0);
            return;
        }
        refills.is_stopped.store(true, Ordering::Relaxed);
        self.0.thread().unpark();
        // What it left undone, look-ups do.
        let _ = self.0.join();
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
    /// Whether it is.
    pub(super) fn refill(&self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let begun = cache.begin_refill(&self.homes);
        let misses_some = AtomicBool::new(false);
        self.for_each_on(self.settings.recovery_threads(), &|key: K, _: V| {
            if self.refills.is_stopped.load(Ordering::Relaxed) {
                misses_some.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            let hash = self.hash(key);
            // What the scan has met may have changed since; under its home's lock it cannot.
            let _home = Locked::wait(self.homes.get(hash.home()));
            if let Some(value) = self.get_persistent(key, hash)
                && !cache.insert(key, hash, value, |key| self.hash(key), None)
            {
                misses_some.store(true, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        });
        cache.end_refill(begun, !misses_some.load(Ordering::Relaxed))
    }
}
