//! `firndex-lab repro`: what do the papers claim, and does it hold here?

use anyhow::Result;
use clap::Args;
use cli::failure::Status;
use cli::output::{self, Lenient};
use cli::progress;

use crate::peers;

/// Repeat the measurements of the papers, with a verdict on each claim
///
/// Each engine is one published table. This measures what its paper measured, with the paper's sizes times --scale,
/// beside the tables with which the paper compares it. Every claim then has the paper's figure, ours, and a verdict; or
/// the reason why it cannot be decided here. All answers are checked while the clock runs.
///
/// --peers also measures other authors' maps, which two papers compare with. It needs a checkout of firndex, where
/// peers/run installs and builds them first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex-lab repro                                       every paper, at a twentieth of its sizes
  firndex-lab repro level --figure 11                     one figure
  firndex-lab repro pfht --figure \"table 2\" --scale 1    one table, at full size
  firndex-lab repro --html page.html                      one page, every figure beside the paper's
  firndex-lab repro --peers --page docs/papers.md         the page of this repository
  firndex-lab repro rewo --json claims.json               claims and rows, for a program")]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: bench::repro::Options,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    if arguments.options.peers {
        return Err(peers::take_over(&["repro"]));
    }
    let bar = progress::waiting("repro");
    let contenders = bench::contenders::all();
    let tell = |what: &str| bar.tell(what.to_owned());
    let mut out = Lenient::new(output::Stdout);
    bench::repro::run(&arguments.options, &contenders, &mut out, &tell)?;
    drop(bar);
    out.end().map_err(output::unwritten)?;
    Ok(Status::Done)
}
