//! A table's background threads.

use pmem::OpenError;
use pmem::sync::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, Thread};

/// Running threads. Their owner ends them with [`Workers::stop`].
#[derive(Debug)]
pub(crate) struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    /// Starts `count` threads, which end soon after `is_stopped` says so and they are unparked.
    pub(crate) fn start<W: FnOnce() + Send + 'static>(
        count: usize,
        name: &str,
        is_stopped: &AtomicBool,
        work: impl Fn(usize) -> W,
    ) -> Result<Workers, OpenError> {
        let mut workers = Workers(Vec::new());
        for index in 0..count {
            match Builder::new().name(name.into()).spawn(work(index)) {
                Ok(worker) => workers.0.push(worker),
                Err(source) => {
                    workers.stop(is_stopped, false);
                    return Err(OpenError::Io {
                        action: "starting a thread for",
                        path: "the table".into(),
                        source,
                    });
                }
            }
        }
        Ok(workers)
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
