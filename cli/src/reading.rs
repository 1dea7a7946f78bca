//! The arguments of commands that only look at a pool.

use clap::Args;
use firndex::{Options, PoolInfo};

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

impl Reading {
    /// How to open a pool of which `info` tells.
    pub(crate) fn options(&self, info: &PoolInfo) -> Options {
        self.log.options().read_only(info.clean || self.read_only)
    }
}
