//! Work in parts, on as many threads as there are parts, or as the system starts.

use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// A part of some work.
pub type Part<'a> = Box<dyn FnOnce() + Send + 'a>;

/// How many parts `units` of work are worth, for at most this many threads.
pub fn parts_of(units: u64, units_per_thread: u64, threads: usize) -> u64 {
    (units / units_per_thread).clamp(1, threads.max(1) as u64)
}

/// Does all parts, and waits for them: each on a separate thread, the last one on the caller's. Where the system starts
/// no more threads, those that run do the other parts, too. So no part may wait for another one.
pub fn run_parts(parts: Vec<Part<'_>>) {
    let others = parts.len().saturating_sub(1);
    let waiting = Mutex::new(parts.into_iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(part) = next() {
            part();
        }
    };
    if others == 0 {
        return work();
    }
    std::thread::scope(|scope| {
        let start = |_| Builder::new().name("firndex-part".into()).spawn_scoped(scope, work).ok();
        let running: Vec<_> = (0..others).map_while(start).collect();
        work();
        for thread in running {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}
