//! A table's background threads.

use pmem::sync::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, Thread};

/// What a thread does.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Running threads. Their owner ends them with [`Workers::stop`].
#[derive(Debug)]
pub(crate) struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    /// Starts `count` threads, or as many as the system lets start: what they would do, others do where it is needed.
    /// They end soon after they are told to and unparked.
    pub(crate) fn start(count: usize, name: &str, work: &dyn Fn(usize) -> Work) -> Workers {
        let start = |index| Builder::new().name(name.into()).spawn(work(index)).ok();
        Workers((0..count).map_while(start).collect())
    }

    /// The threads.
    pub(crate) fn threads(&self) -> Vec<Thread> {
        self.0.iter().map(|worker| worker.thread().clone()).collect()
    }

    /// Ends the threads and waits for them; in a forked child there are none to wait for.
    pub(crate) fn stop(self, is_stopped: &AtomicBool, is_inherited: bool) {
        if is_inherited {
            // Their handles name no threads of this process, or those that it has started since: not
            // even to be detached.
            std::mem::forget(self.0);
            return;
        }
        is_stopped.store(true, Ordering::Relaxed);
        for worker in self.0 {
            worker.thread().unpark();
            // One that panicked has said so; what it left undone, others or recovery do.
            let _ = worker.join();
        }
    }
}
