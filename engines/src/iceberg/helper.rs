//! The helper thread: prepares space before a resize and moves blocks during one.

use super::Core;
use pmem::Medium;
use pmem::sync::{AtomicBool, Ordering};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Blocks moved under one right to write: a sync waits for so many at most.
const MOVES_AT_ONCE: u64 = 16;

#[derive(Debug, Default)]
struct Asked {
    prepare: bool,
    moves: bool,
}

/// How the helper is told what to do.
#[derive(Debug, Default)]
pub(super) struct Signal {
    asked: Mutex<Asked>,
    wake: Condvar,
    stopped: AtomicBool,
}

impl Signal {
    fn ask(&self, change: impl FnOnce(&mut Asked)) {
        change(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    pub(super) fn ask_to_prepare(&self) {
        self.ask(|asked| asked.prepare = true);
    }

    pub(super) fn ask_to_move(&self) {
        self.ask(|asked| asked.moves = true);
    }

    /// Waits for work; `None` when there will be none any more.
    fn wait(&self) -> Option<Asked> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            if asked.prepare || asked.moves {
                return Some(std::mem::take(&mut *asked));
            }
            asked = self.wake.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Helper(JoinHandle<()>);

impl Helper {
    pub(super) fn start<M: Medium>(core: &Arc<Core<M>>) -> io::Result<Helper> {
        let core = Arc::clone(core);
        let run = move || {
            while let Some(asked) = core.signal.wait() {
                if asked.prepare {
                    core.prepare();
                }
                while core.geometry().is_resizing() && !core.signal.stopped.load(Ordering::Relaxed)
                {
                    let Ok(_write) = core.pool.write() else { return };
                    core.move_next(MOVES_AT_ONCE);
                }
            }
        };
        let thread = std::thread::Builder::new().name("firndex-helper".into()).spawn(run)?;
        Ok(Helper(thread))
    }

    /// Ends the thread and waits for it; in a forked child there is none to wait for.
    pub(super) fn stop(self, signal: &Signal, is_inherited: bool) {
        if is_inherited {
            return;
        }
        signal.stopped.store(true, Ordering::Relaxed);
        signal.ask(|_| {});
        // A helper that panicked has said so; what it left undone, recovery does.
        let _ = self.0.join();
    }
}
