//! `firndex compact`: a file no larger than what it holds.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;

use crate::count::counted;
use crate::failure::Status;
use crate::output;
use crate::pool::AnyPool;
use crate::progress;
use crate::safety::Safety;

/// Give the space that removed pairs have left back to the file system
///
/// Writes the whole pool into a new file and puts that in its place, so the disk must have room for both. If anything
/// fails, the pool is there, as it was or compacted. POOL must not be open in another process. A program that has it
/// open does the same with firndex::Table::rewrite or firndex::Store::rewrite. firndex::Store::compact is another
/// thing: it makes room within the file of an open store, and the file keeps its size.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex compact fruit.firn
  firndex compact fruit.firn --json    {\"pairs\":…,\"bytes\":…,\"bytes_before\":…}")]
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
    arguments.safety.check()?;
    arguments.safety.log.restore(&arguments.pool)?;
    // Before it is opened, which may lengthen it.
    let found = std::fs::metadata(&arguments.pool);
    let pool = AnyPool::open_to_rewrite(&arguments.pool, &arguments.safety)?;
    let bytes_before = found.with_context(|| format!("looking at {path}"))?.len();
    let step = progress::waiting("compacting");
    let copied = pool.rewrite();
    drop(step);
    let copied = copied.with_context(|| format!("compacting {path}"))?;
    let (pairs, bytes) = copied.map_or((0, bytes_before), |copied| (copied.pairs, copied.bytes));
    if arguments.json {
        output::json(&json!({ "pairs": pairs, "bytes": bytes, "bytes_before": bytes_before }))?;
    } else {
        output::talk(format_args!(
            "{} in {}, {} before",
            counted(pairs, "pair"),
            HumanBytes(bytes),
            HumanBytes(bytes_before)
        ));
    }
    Ok(Status::Done)
}
