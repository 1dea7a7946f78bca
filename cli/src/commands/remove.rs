//! `firndex remove`: a pool with everything that belongs to it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::explain::explain;
use crate::failure::Status;
use crate::output;
use crate::progress;
use crate::safety::LogPlace;

/// Remove a pool: its file, and the directory of its log, checkpoint and sums
///
/// The pool may not be in use. What is not firndex's stays, whatever it is called. If the pool's file is gone already,
/// the rest is removed, which would bring the pool back when it is opened.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex remove fruit.firn
  firndex remove /dev/shm/fruit.firn --log-dir /var/lib/fruit")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    log: LogPlace,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let path = &arguments.pool;
    let options = arguments.log.options();
    let step = progress::waiting("removing");
    let removed = arguments.log.waiting.until_free(path, &step, || options.remove(path));
    drop(step);
    removed.map_err(|error| explain(path, error))?;
    output::talk(format_args!("removed {}", path.display()));
    Ok(Status::Done)
}
