//! Recovery on several threads.

use crate::Settings;
use pmem::OpenError;
use std::ops::Range;

/// Runs `work` over parts of `0..units`, on as many threads as the settings allow and as have
/// `units_per_thread` to do; returns the sum.
pub(crate) fn in_parallel(
    settings: &Settings,
    units: u64,
    units_per_thread: u64,
    work: impl Fn(Range<u64>) -> Result<u64, OpenError> + Sync,
) -> Result<u64, OpenError> {
    let most = (units / units_per_thread).max(1);
    let threads = (settings.recovery_threads() as u64).min(most);
    if threads == 1 {
        return work(0..units);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                let range = units * part / threads..units * (part + 1) / threads;
                scope.spawn(move || work(range))
            })
            .collect();
        parts
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    })
}
