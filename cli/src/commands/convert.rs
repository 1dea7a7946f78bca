//! `firndex convert`: the pairs of a pool in one of another kind.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use firndex::Durability;

use super::target::Target;
use crate::engine::Choice;
use crate::failure::Status;
use crate::pool::AnyPool;
use crate::progress;
use crate::reading::Reading;
use crate::safety;

/// Copy a pool to another engine, or to other parameters
///
/// OUT has POOL's engine, parameters, durability and sums, unless you choose others. A parameter that POOL's engine
/// does not have chooses another engine, as in `firndex create`. OUT has a new hash seed. It is no larger than its
/// pairs need, so a pool from which much was removed becomes smaller. OUT gets its name when it is complete and on the
/// device, and POOL stays as it is.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex convert fruit.firn other.firn --engine level
  firndex convert fruit.firn other.firn --engine level --slots 8
  firndex convert fruit.firn safe.firn --durability commit    the same engine, another durability
  firndex convert sparse.firn small.firn                      the same, without the space it no longer needs")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    engine: Choice,
    /// What of OUT survives power loss [default: as POOL]
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
    let copied =
        copied.map_err(|error| target.explain(format!("converting {}", path.display()), error))?;
    pool.close()?;
    target.say(&copied)?;
    Ok(Status::Done)
}
