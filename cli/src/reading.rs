//! The arguments of commands that only look at a pool.

use clap::Args;

use crate::safety::LogPlace;

/// Where the log is, and whether the pool may be recovered.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Reading {
    #[command(flatten)]
    pub(crate) log: LogPlace,
    /// Change nothing, whatever state the pool is in; one that was cut off is refused, not recovered
    #[arg(long)]
    pub(crate) read_only: bool,
}
