//! `firndex put`: store one pair.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::failure::Status;
use crate::output;
use crate::pool::{Pool, decimal};
use crate::safety::Safety;

/// Store a value under a key, replacing what was there
///
/// Key and value are taken as the raw bytes that the shell passes; for longer values there is
/// `load`. In a table pool both are decimal numbers.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex put fruit.firn apple red
  firndex put numbers.firn 7 49               in a pool of --kind table
  firndex put fruit.firn -- -key -value       after -- nothing is an option
  firndex put fruit.firn $'\\xff\\x01' bytes    any bytes but NUL, as the shell passes them")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    safety: Safety,
    /// The key
    key: OsString,
    /// The value
    value: OsString,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let key = arguments.key.as_bytes();
    let value = arguments.value.as_bytes();
    let pool = Pool::open_to_write(&arguments.pool, &arguments.safety)?;
    let replaced = match &pool {
        Pool::Table(table) => table.put(decimal("key", key)?, decimal("value", value)?)?.is_some(),
        Pool::Store(store) => store.put(key, value)?.is_some(),
    };
    pool.close().with_context(|| format!("closing {}", arguments.pool.display()))?;
    if replaced {
        output::talk(format_args!("replaced the old value"));
    }
    Ok(Status::Done)
}
