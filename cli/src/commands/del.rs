//! `firndex del`: remove one pair.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::failure::Status;
use crate::output;
use crate::pool::{AnyPool, Pool, decimal};
use crate::safety::Safety;

/// Remove a key and its value
///
/// The exit status is 0 if the key was present, and 1 if it was not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex del fruit.firn apple
  firndex del numbers.firn 7")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    safety: Safety,
    /// The key
    key: OsString,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let key = arguments.key.as_bytes();
    let pool = AnyPool::open_to_change(&arguments.pool, &arguments.safety)?;
    let removed = match &pool {
        AnyPool::Other(table) => table.remove(key)?,
        AnyPool::Told(Pool::Table(table)) => table.remove(decimal("key", key)?)?.is_some(),
        AnyPool::Told(Pool::Store(store)) => store.remove(key)?.is_some(),
        AnyPool::Cache(cache) => cache.remove(key)?,
    };
    pool.close().with_context(|| format!("closing {}", arguments.pool.display()))?;
    if removed {
        return Ok(Status::Done);
    }
    output::talk(format_args!("not found"));
    Ok(Status::Absent)
}
