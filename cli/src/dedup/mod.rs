//! The deduplication index behind `firndex demo`.
//!
//! A parent process cuts the files into chunks (`walk`, `plan`), hands the chunks to a child that
//! stores them (`writer`, over the pipes of `wire`), kills the child at random counts of reported
//! chunks (`supervise`), and after each kill looks whether all that was reported is there
//! (`verify`). `session` is the whole run, `outcome` what is told of it.

pub(crate) mod interrupt;
mod outcome;
pub(crate) mod plan;
pub(crate) mod random;
pub(crate) mod session;
mod supervise;
mod verify;
pub(crate) mod walk;
mod wire;
pub(crate) mod writer;

use std::time::Duration;

/// How many operations took how long, over all threads.
#[derive(Clone, Copy, Debug, Default)]
struct Tempo {
    operations: u64,
    /// Summed over the threads.
    busy: Duration,
}

impl Tempo {
    /// Operations a second of that many threads together.
    fn per_second(self, threads: usize) -> f64 {
        if self.busy.is_zero() {
            return 0.0;
        }
        self.operations as f64 * threads as f64 / self.busy.as_secs_f64()
    }
}

impl std::ops::AddAssign for Tempo {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.busy += other.busy;
    }
}
