//! `firndex convert`: the pairs of a pool in one of another kind.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use firndex::Durability;

use super::engine::Choice;
use super::target::Target;
use crate::failure::Status;
use crate::pool::AnyPool;
use crate::progress;
use crate::reading::Reading;
use crate::safety;

/// Copy a pool to another engine, or to other parameters
///
/// Choices that you leave out are as in a pool that `firndex create` makes. OUT has a new hash seed. It is no larger
/// than its pairs need, so a pool from which much was removed becomes smaller. OUT gets its name when it is complete
/// and on the device, and POOL stays as it is.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex convert fruit.firn other.firn --engine level
  firndex convert fruit.firn other.firn --slots 8 --durability commit
  firndex convert sparse.firn small.firn                 the same, without the space it no longer needs")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    engine: Choice,
    /// What of OUT survives power loss [default: as in a new pool]
    #[arg(long, value_parser = safety::names())]
    durability: Option<Durability>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let Arguments { pool: path, reading, target, .. } = arguments;
    let mut options = arguments.engine.options();
    if let Some(durability) = arguments.durability {
        options = options.durability(durability);
    }
    let pool = AnyPool::open_to_copy(path, reading)?;
    let bar = progress::waiting("converting");
    let copied = pool.convert(target.out(), target.existing(), &options);
    bar.finish_and_clear();
    let copied = copied.with_context(|| format!("converting {}", path.display()))?;
    pool.close()?;
    target.say(&copied)?;
    Ok(Status::Done)
}
