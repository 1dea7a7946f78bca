//! `firndex shrink`: a smaller index for what is left.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::HumanCount;

use crate::failure::Status;
use crate::output;
use crate::pool::Pool;

/// Halve the index of a pool, as often as what it holds allows
///
/// For a pool from which much was removed. Not below the size that it was made with, and only where
/// the engine offers it: level. The file keeps its size; what is freed is used when the pool grows
/// again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex shrink fruit.firn
  firndex stat fruit.firn             how full it is now")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let pool = Pool::open_to_write(&arguments.pool)?;
    let before = pool.stats().capacity;
    while pool.shrink()? {}
    let after = pool.stats().capacity;
    pool.close()?;
    let text = format!("{} slots, {} before\n", HumanCount(after), HumanCount(before));
    output::data(text.as_bytes())?;
    Ok(Status::Done)
}
