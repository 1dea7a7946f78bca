//! `firndex shrink`: a smaller index for what is left.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanCount;
use serde_json::json;

use crate::count::counted;
use crate::failure::Status;
use crate::output;
use crate::pool::AnyPool;
use crate::progress;
use crate::safety::Safety;

/// Halve the index of a pool, as often as what it holds allows
///
/// For a pool from which much was removed. The index never gets smaller than its first size. The file keeps its size,
/// and later growth uses the freed space; `firndex compact` makes the file smaller. Prints the slots after and before.
/// The exit status is 0 even if nothing could be halved.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex shrink fruit.firn
  firndex shrink fruit.firn --json    {\"capacity\":…,\"capacity_before\":…}
  firndex stat fruit.firn             how full it is now")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    safety: Safety,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let path = arguments.pool.display();
    let pool = AnyPool::open_to_write(&arguments.pool, &arguments.safety)?;
    let before = pool.stats()?.capacity;
    let step = progress::waiting("shrinking");
    while pool.shrink().with_context(|| format!("shrinking {path}"))? {}
    drop(step);
    let after = pool.stats()?.capacity;
    pool.close().with_context(|| format!("closing {path}"))?;
    if arguments.json {
        output::json(&json!({ "capacity": after, "capacity_before": before }))?;
    } else {
        let text = format!("{}, {} before\n", counted(after, "slot"), HumanCount(before));
        output::data(text.as_bytes())?;
    }
    Ok(Status::Done)
}
