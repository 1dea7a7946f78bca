//! `firndex put`: store one pair.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use firndex::VALUE_BYTES_MAX;

use crate::closed;
use crate::count::counted;
use crate::failure::{Failure, Status};
use crate::output;
use crate::pool::{AnyPool, Pool, decimal};
use crate::safety::Safety;

/// Store a value under a key, replacing what was there
///
/// Key and value are the raw bytes that the shell passes. If the value is -, it is read from stdin to the end, every
/// byte of it, line ends included. In a table pool both are decimal numbers, or, if a program has made it of other
/// types, what `firndex dump` writes of these.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex put fruit.firn apple red
  firndex put numbers.firn 7 49               in a pool of --kind table
  firndex put fruit.firn photo - < photo.jpg  a value of any bytes
  printf - | firndex put fruit.firn dash -    the value that is a -
  firndex put fruit.firn -- -key -value       after -- nothing is an option
  firndex put fruit.firn $'\\xff\\x01' bytes    any bytes but NUL, as the shell passes them")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    safety: Safety,
    /// The key
    key: OsString,
    /// The value, or - for stdin
    value: OsString,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let key = arguments.key.as_bytes();
    // Read first: nobody waits for the pool while this waits for its input.
    let value = value(arguments)?;
    let pool = AnyPool::open_to_change(&arguments.pool, &arguments.safety)?;
    let replaced = match &pool {
        AnyPool::Told(Pool::Table(table)) => {
            table.put(decimal("key", key)?, decimal("value", &value)?)?.is_some()
        }
        AnyPool::Other(table) => table.put(key, &value)?,
        AnyPool::Told(Pool::Store(store)) => store.put(key, &value)?.is_some(),
        AnyPool::Cache(cache) => {
            let replaced = cache.contains_key(key)?;
            cache.put(key, &value)?;
            replaced
        }
    };
    pool.close().with_context(|| format!("closing {}", arguments.pool.display()))?;
    if replaced {
        output::talk(format_args!("replaced the old value"));
    }
    Ok(Status::Done)
}

fn value(arguments: &Arguments) -> Result<Cow<'_, [u8]>> {
    if arguments.value != "-" {
        return Ok(arguments.value.as_bytes().into());
    }
    let mut value = Vec::new();
    // One byte too many is enough to know that there are too many.
    let most = VALUE_BYTES_MAX as u64 + 1;
    let read = closed::stdin_file().and_then(|stdin| stdin.take(most).read_to_end(&mut value));
    read.map_err(|error| {
        Failure::new("reading the value from stdin", "pipe it in, or name a file: < FILE")
            .caused_by(error)
    })?;
    if value.len() > VALUE_BYTES_MAX {
        let most = counted(VALUE_BYTES_MAX as u64, "byte");
        let what =
            format!("the value from stdin has more than {most} ({} MiB)", VALUE_BYTES_MAX >> 20);
        return Err(Failure::new(
            what,
            "that is the most that a value may have: store it in parts",
        )
        .into());
    }
    Ok(value.into())
}
