//! What engines share.

pub(crate) mod ahead;
pub(crate) mod crowded;
pub(crate) mod doubling;
pub(crate) mod helper;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod mutation;
pub(crate) mod packed;
pub(crate) mod parallel;
pub(crate) mod paths;
pub(crate) mod progress;
pub(crate) mod scan;
pub(crate) mod workers;
