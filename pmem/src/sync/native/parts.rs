//! Work in parts, each on a separate thread.

/// A part of some work.
pub type Part<'a> = Box<dyn FnOnce() + Send + 'a>;

/// How many parts `units` of work are worth, for at most this many threads.
pub fn parts_of(units: u64, units_per_thread: u64, threads: usize) -> u64 {
    (units / units_per_thread).clamp(1, threads.max(1) as u64)
}

/// Does all parts at once, and waits for them.
pub fn run_parts(parts: Vec<Part<'_>>) {
    if parts.len() == 1 {
        return parts.into_iter().for_each(|part| part());
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = parts.into_iter().map(|part| scope.spawn(part)).collect();
        for part in running {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}
