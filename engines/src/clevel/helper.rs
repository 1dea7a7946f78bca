//! The helper thread: drains the front level in the background, and has space at hand for the next
//! one.

use super::Core;
use pmem::Medium;
use pmem::sync::{AtomicBool, AtomicU64, Ordering};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Buckets drained under one right to write and one guard: a sync waits for so many at most.
const BUCKETS_AT_ONCE: u64 = 16;
/// Times that this is done between two pauses, some 150 us of work.
const TURNS_AT_ONCE: u32 = 4;
/// How long the helper sleeps then, the system's slack aside. Where there are no more processors than
/// threads that write, one of them waits while the helper runs: for as long as it works without a
/// pause, and not for a whole slice of the scheduler's, some milliseconds.
const PAUSE: Duration = Duration::from_micros(1);

// What the helper is asked for.
const DRAIN: u64 = 1;
const PREPARE: u64 = 2;

/// How the helper is told what to do: without a lock, since operations tell it, and none may wait for
/// a thread that is put aside while it does so.
#[derive(Debug, Default)]
pub(super) struct Signal {
    asked: AtomicU64,
    stopped: AtomicBool,
    helper: OnceLock<Thread>,
    /// Held while the helper drains.
    draining: Mutex<()>,
}

impl Signal {
    /// Whether somebody drains in the background.
    #[inline(always)]
    pub(super) fn has_helper(&self) -> bool {
        self.helper.get().is_some()
    }

    fn ask(&self, what: u64) {
        if let Some(helper) = self.helper.get() {
            self.asked.fetch_or(what, Ordering::Release);
            helper.unpark();
        }
    }

    pub(super) fn ask_to_drain(&self) {
        self.ask(DRAIN);
    }

    pub(super) fn ask_to_prepare(&self) {
        self.ask(PREPARE);
    }

    /// Waits for work; `None` when there will be none any more.
    fn wait(&self) -> Option<u64> {
        loop {
            if self.is_stopped() {
                return None;
            }
            match self.asked.swap(0, Ordering::Acquire) {
                0 => std::thread::park(),
                asked => return Some(asked),
            }
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
                if asked & PREPARE != 0 {
                    core.prepare();
                }
                let mut turns = 0;
                while !core.signal.is_stopped() && core.is_resizing() {
                    turns += 1;
                    if turns % TURNS_AT_ONCE == 0 {
                        std::thread::sleep(PAUSE);
                    }
                    let _draining = core.signal.hold();
                    // Refused for now, it may be granted when asked for again.
                    let Ok(_write) = core.pool.write() else { break };
                    if core.drain_some(BUCKETS_AT_ONCE, &core.epochs.pin()).is_err() {
                        // No room: the next expansion asks again.
                        break;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("firndex-helper".into()).spawn(run)?;
        core.signal.helper.get_or_init(|| thread.thread().clone());
        core.signal.ask_to_drain();
        Ok(Helper(thread))
    }

    /// Ends the thread and waits for it; in a forked child there is none to wait for.
    pub(super) fn stop(self, signal: &Signal, is_inherited: bool) {
        if is_inherited {
            return;
        }
        signal.stopped.store(true, Ordering::Relaxed);
        self.0.thread().unpark();
        // A helper that panicked has said so; what it left undone, recovery does.
        let _ = self.0.join();
    }
}
