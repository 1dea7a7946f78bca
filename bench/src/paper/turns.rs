//! Tables that take turns with the same operations.

use crate::crew::Timing;
use crate::row::Row;

/// Operations of one point of a series, as a part of the run's.
pub(crate) const OPS_PART: u64 = 16;

/// The sum of the slices in which one contender had its turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    ops: u64,
    elapsed_s: f64,
    /// Time that threads had a processor, and the time of the slices for which that is known.
    on_cpu_s: f64,
    told_s: f64,
}

impl Turns {
    pub(crate) fn add(&mut self, ops: usize, timing: Timing) {
        self.ops += ops as u64;
        self.elapsed_s += timing.elapsed_s;
        if let Some(share) = timing.cpu_share {
            self.on_cpu_s += share * timing.elapsed_s;
            self.told_s += timing.elapsed_s;
        }
    }

    /// The row with rate and mean latency.
    pub(crate) fn on(&self, row: Row) -> Row {
        let threads = row.threads.unwrap_or(1) as f64;
        let row = Row {
            mean_ns: Some(self.elapsed_s * threads * 1e9 / self.ops as f64),
            cpu_share: (self.told_s > 0.0).then(|| self.on_cpu_s / self.told_s),
            ..row
        };
        row.with_rate(self.ops as f64 / self.elapsed_s, None)
    }
}
