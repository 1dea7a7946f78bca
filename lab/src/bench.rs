//! `firndex-lab bench`: how fast, against what the machine allows?

use anyhow::Result;
use bench::choices::Suite;
use clap::Args;
use cli::failure::Status;
use cli::output::{self, Lenient};
use cli::progress;

use crate::peers;

/// Measure the engines against the machine's ceilings
///
/// Every round first measures what the machine's memory allows, on the same medium and at the same size. Each row then
/// says how close it came. All answers are checked while the clock runs. To measure memory and not caches, use a large
/// table: --pairs 114M takes some 3 GB.
///
/// --peers also measures maps of other authors in the same run. It needs a checkout of firndex, where peers/run
/// installs and builds them first. --engines may name them, too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex-lab bench micro                                 each operation by itself, in memory
  firndex-lab bench micro --pairs 114M --threads 1        a table far larger than the caches
  firndex-lab bench micro --media mapped --directory .    pools in files here
  firndex-lab bench ceilings --pairs 114M                 what this machine's memory allows
  firndex-lab bench micro --json rows.json                the rows, for a program
  firndex-lab bench store --threads 1                     stores, keys and values of 8 bytes
  firndex-lab bench values --directory /dev/shm           stores in files, values of 8 to 10,000 bytes
  firndex-lab bench store --peers --directory /dev/shm    the same beside embedded databases
  firndex-lab bench cache --peers --runs 1                hit ratios, rates and memory of caches
  firndex-lab bench load-factor                           how speed changes as tables fill, and how full they get
  firndex-lab bench micro --engines clht,cceh,iceberg     tables of papers beside an engine
  firndex-lab bench durable --directory . --pairs 8M      what surviving power loss costs, on the disk here
  firndex-lab bench open --pairs 1M,64M --kinds table     opening pools of two sizes, closed, killed, restored
  firndex-lab bench durable --parts puts --peers          durable puts, against embedded stores
  firndex-lab bench micro --peers --flushes none          against other authors' maps")]
pub(crate) struct Arguments {
    /// What to measure
    #[arg(value_enum)]
    suite: Suite,
    #[command(flatten)]
    options: bench::Options,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    if arguments.options.peers {
        return Err(peers::take_over(&[]));
    }
    let bar = progress::waiting("bench");
    let contenders = bench::contenders::all();
    let tell = |what: &str| bar.tell(what.to_owned());
    let mut out = Lenient::new(output::Stdout);
    bench::run(arguments.suite, &arguments.options, &contenders, &mut out, &tell)?;
    drop(bar);
    out.end().map_err(output::unwritten)?;
    Ok(Status::Done)
}
