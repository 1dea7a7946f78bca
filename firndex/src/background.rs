//! A thread that works beside the callers of a pool, and ends before the pool is closed.

use pmem::sync::forks;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// A running thread. Dropped, it ends.
pub(crate) struct Background {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    forks_at_start: u32,
}

impl Background {
    /// Starts a thread. It is to end soon after what it is given says that it is stopped.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<Background> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_stopped);
        let thread = Builder::new().name(name.into()).spawn(move || work(&told))?;
        Ok(Background { is_stopped, thread: Some(thread), forks_at_start: forks() })
    }

    /// Tells it to end, and does not wait.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread
            && forks() == self.forks_at_start
        {
            thread.thread().unpark();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
        let Some(thread) = self.thread.take() else { return };
        if forks() != self.forks_at_start {
            // In a forked child there is no such thread.
            std::mem::forget(thread);
            return;
        }
        // One that panicked has said so, and left nothing half done that others need.
        let _ = thread.join();
    }
}
