//! Limits that the user has set.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::SIGXFSZ;
use signal_hook::flag;

/// What is written beyond `ulimit -f` is an error of the write, which can be told, and no signal, which ends the
/// process in the middle of it.
pub(crate) fn turn_into_errors() -> Result<()> {
    flag::register(SIGXFSZ, Arc::<AtomicBool>::default()).context("catching SIGXFSZ").map(drop)
}
