//! Recovery on several threads.

use crate::Settings;
use pmem::OpenError;
use pmem::sync::{Part, parts_of, run_parts};
use std::ops::Range;
use std::sync::OnceLock;

/// What is done to a part of some units; a number to be added up.
pub(crate) type PartOfWork<'a> = dyn Fn(Range<u64>) -> Result<u64, OpenError> + Sync + 'a;

/// Runs `work` over parts of `0..units`, on as many threads as the settings allow and as have
/// `units_per_thread` to do; returns the sum.
pub(crate) fn in_parallel(
    settings: &Settings,
    units: u64,
    units_per_thread: u64,
    work: &PartOfWork<'_>,
) -> Result<u64, OpenError> {
    let threads = parts_of(units, units_per_thread, settings.recovery_threads());
    if threads == 1 {
        return work(0..units);
    }
    let results: Vec<OnceLock<_>> = (0..threads).map(|_| OnceLock::new()).collect();
    let part = |(result, part): (_, u64)| {
        let result: &OnceLock<_> = result;
        let range = units * part / threads..units * (part + 1) / threads;
        Box::new(move || {
            result.get_or_init(|| work(range));
        }) as Part<'_>
    };
    run_parts(results.iter().zip(0..).map(part).collect());
    results.into_iter().filter_map(OnceLock::into_inner).sum()
}
