//! What the parts of the suite share: its rows and names, and processor time.

use crate::row::Row;
use crate::setting::Setting;
use firndex::Durability;
use rustix::time::{ClockId, clock_gettime};

/// The suite's name.
pub(crate) const NAME: &str = "durable";

/// The contender's name for an engine in a mode.
pub(crate) fn named(name: &str, durability: Durability) -> String {
    let mode = match durability {
        Durability::Commit => "commit",
        Durability::Periodic => "periodic",
        Durability::Process => "process",
    };
    format!("{name}-{mode}")
}

/// Processor time so far of the process or of the calling thread.
pub(super) fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A row of this suite.
pub(super) fn row(setting: &Setting, op: &str, contender: &str) -> Row {
    Row { threads: Some(1), ..setting.row(NAME, op, contender) }
}
