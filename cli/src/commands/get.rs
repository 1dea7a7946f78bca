//! `firndex get`: print the value of a key.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::failure::Status;
use crate::output;
use crate::pool::{AnyPool, Pool, decimal};
use crate::reading::Reading;

/// Print the value of a key
///
/// The value's bytes go to stdout unchanged. Only on a terminal a newline follows. For an absent key nothing is
/// printed, and the exit status is 1.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex get fruit.firn apple
  firndex get fruit.firn photo > photo.jpg
  firndex get fruit.firn pear || echo no pears")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// The key
    key: OsString,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let key = arguments.key.as_bytes();
    let pool = AnyPool::open_to_copy(&arguments.pool, &arguments.reading)?;
    let found = match &pool {
        AnyPool::Told(Pool::Table(table)) => match table.get(decimal("key", key)?)? {
            Some(value) => {
                print(value.to_string().as_bytes())?;
                true
            }
            None => false,
        },
        AnyPool::Other(table) => match table.get(key)? {
            Some(value) => {
                print(&value)?;
                true
            }
            None => false,
        },
        AnyPool::Told(Pool::Store(store)) => match store.get(key)? {
            Some(value) => {
                print(&value)?;
                true
            }
            None => false,
        },
        AnyPool::Cache(cache) => match cache.get(key)? {
            Some(value) => {
                print(&value)?;
                true
            }
            None => false,
        },
    };
    pool.close()?;
    if found {
        return Ok(Status::Done);
    }
    output::talk(format_args!("not found"));
    Ok(Status::Absent)
}

fn print(value: &[u8]) -> Result<()> {
    output::data(value)?;
    if output::to_terminal() {
        output::data(b"\n")?;
    }
    Ok(())
}
