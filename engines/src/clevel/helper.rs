//! The helper thread: drains the front level in the background, and has space at hand for the next
//! one.

use super::Core;
use pmem::Medium;
use pmem::sync::{AtomicBool, Ordering};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Buckets drained under one right to write and one guard: a sync waits for so many at most.
const BUCKETS_AT_ONCE: u64 = 16;

#[derive(Debug, Default)]
struct Asked {
    drain: bool,
    prepare: bool,
}

/// How the helper is told what to do.
#[derive(Debug, Default)]
pub(super) struct Signal {
    asked: Mutex<Asked>,
    wake: Condvar,
    stopped: AtomicBool,
    has_helper: AtomicBool,
    /// Held while the helper drains.
    draining: Mutex<()>,
}

impl Signal {
    /// Whether somebody drains in the background.
    #[inline(always)]
    pub(super) fn has_helper(&self) -> bool {
        self.has_helper.load(Ordering::Relaxed)
    }

    fn ask(&self, change: impl FnOnce(&mut Asked)) {
        if self.has_helper() {
            change(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_one();
        }
    }

    pub(super) fn ask_to_drain(&self) {
        self.ask(|asked| asked.drain = true);
    }

    pub(super) fn ask_to_prepare(&self) {
        self.ask(|asked| asked.prepare = true);
    }

    /// Waits for work; `None` when there will be none any more.
    fn wait(&self) -> Option<Asked> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.is_stopped() {
                return None;
            }
            if asked.drain || asked.prepare {
                return Some(std::mem::take(&mut *asked));
            }
            asked = self.wake.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keeps the helper from draining while it is held: for who wants to look at a table at rest.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.draining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Helper(JoinHandle<()>);

impl Helper {
    pub(super) fn start<M: Medium>(core: &Arc<Core<M>>) -> io::Result<Helper> {
        let theirs = Arc::clone(core);
        let run = move || {
            let core = theirs;
            while let Some(asked) = core.signal.wait() {
                if asked.prepare {
                    core.prepare();
                }
                while !core.signal.is_stopped() && core.is_resizing() {
                    let _draining = core.signal.hold();
                    let Ok(_write) = core.pool.write() else { return };
                    if core.drain_some(BUCKETS_AT_ONCE, &core.epochs.pin()).is_err() {
                        // No room: the next expansion asks again.
                        break;
                    }
                }
            }
        };
        core.signal.has_helper.store(true, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name("firndex-helper".into()).spawn(run);
        if thread.is_err() {
            core.signal.has_helper.store(false, Ordering::Relaxed);
        }
        core.signal.ask_to_drain();
        Ok(Helper(thread?))
    }

    /// Ends the thread and waits for it; in a forked child there is none to wait for.
    pub(super) fn stop(self, signal: &Signal, is_inherited: bool) {
        if is_inherited {
            return;
        }
        signal.stopped.store(true, Ordering::Relaxed);
        signal.ask_to_drain();
        // A helper that panicked has said so; what it left undone, recovery does.
        let _ = self.0.join();
    }
}
