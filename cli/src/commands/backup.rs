//! `firndex backup`: a clean copy of a pool.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::target::Target;
use crate::failure::Status;
use crate::pool::AnyPool;
use crate::progress;
use crate::reading::Reading;

/// Write a clean pool with what another one has
///
/// OUT has the same engine, parameters and durability. It gets its name when it is complete and on the device. If
/// anything fails before that, OUT stays as it was: absent, or the old file. POOL must not be open in another process.
/// A program that has it open makes backups itself, while others write, with firndex::Store::backup or
/// firndex::Table::backup.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex backup fruit.firn monday.firn
  firndex backup fruit.firn latest.firn --replace
  firndex backup fruit.firn monday.firn --json    {\"pairs\":…,\"bytes\":…}")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let Arguments { pool: path, reading, target } = arguments;
    let pool = AnyPool::open_to_copy(path, reading)?;
    let bar = progress::waiting("copying");
    let copied = pool.backup(target.out(), target.existing());
    bar.finish_and_clear();
    let copied =
        copied.map_err(|error| target.explain(format!("backing up {}", path.display()), error))?;
    pool.close()?;
    target.say(&copied)?;
    Ok(Status::Done)
}
