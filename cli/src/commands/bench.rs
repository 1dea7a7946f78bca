//! `firndex bench`: how fast, beside what the machine allows?

use std::io;

use anyhow::Result;
use bench::options::Suite;
use clap::Args;

use crate::failure::Status;
use crate::progress;

/// Measure the engines beside the machine's ceilings
///
/// Every round first measures what the machine's memory allows, on the same medium and at the
/// same size; each row then says how near to that it came. All answers are checked while the clock
/// runs. A figure that is to say something about memory needs a table larger than the caches:
/// --pairs 114M takes some 3 GB.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex bench micro                                 each operation by itself, in memory
  firndex bench micro --pairs 114M --threads 1        a table far larger than the caches
  firndex bench micro --media mapped --directory .    pools in files here
  firndex bench ceilings --pairs 114M                 what this machine's memory allows
  firndex bench micro --json rows.json                the rows, for a program")]
pub(crate) struct Arguments {
    /// What to measure
    #[arg(value_enum)]
    suite: Suite,
    #[command(flatten)]
    options: bench::Options,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let bar = progress::waiting("bench");
    let engines = bench::table::engines();
    let tell = |what: &str| bar.set_message(what.to_owned());
    bench::run(arguments.suite, &arguments.options, &engines, &mut io::stdout(), &tell)?;
    bar.finish_and_clear();
    Ok(Status::Done)
}
