//! firndex's benchmark over its engines and all peers, in one process and run.

use anyhow::Result;
use bench::Contender;
use bench::choices::Suite;
use clap::Parser;
use std::io;
use std::process::ExitCode;

/// Measure firndex's engines beside other authors' maps
///
/// The benchmark is that of `firndex-lab bench`, with more contenders. Peers lie on medium dram and
/// flush nothing; std is the standard HashMap behind no lock, with one thread. Suites durable and values have embedded
/// stores in files, suite cache has caches.
#[derive(Parser)]
#[command(after_long_help = "\
Examples:
  peers/run micro --flushes none                      all engines, all peers
  peers/run micro --engines iceberg,boost --threads 1 two of them
  peers/run values --directory /dev/shm               embedded stores, by the size of values, and after a kill
  peers/run cache --runs 1                            caches: hit ratios, rates, memory, and after a kill
  peers/run open --directory . --pairs 200k           the same stores, closed and opened again
  peers/run durable --parts puts --pairs 1M           embedded stores, on the disk of the directory for temporary files
  peers/run micro --json rows.json                    the rows, for a program
  peers/run repro level --figure 17                   a paper's figure that has other authors' maps")]
struct Arguments {
    /// What to measure
    #[arg(value_enum)]
    suite: Suite,
    #[command(flatten)]
    options: bench::Options,
}

/// Repeat the measurements of the papers
///
/// As `firndex-lab repro`, with libcuckoo and TBB, with which two papers compare.
#[derive(Parser)]
struct Papers {
    #[command(flatten)]
    options: bench::repro::Options,
}

/// The first argument that is no suite.
const REPRO: &str = "repro";

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    let done = if words.get(1).is_some_and(|word| word == REPRO) {
        words.remove(1);
        repeat(&Papers::parse_from(words))
    } else {
        measure(Arguments::parse())
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            // What `firndex` ends with after an error: it may be this program's caller.
            ExitCode::from(2)
        }
    }
}

fn contenders() -> Vec<Box<dyn Contender>> {
    let mut contenders = bench::contenders::all();
    contenders.extend(peers::contenders());
    contenders.extend(peers::disk::contenders());
    contenders.extend(peers::caches::contenders());
    contenders
}

fn tell(what: &str) {
    eprintln!("{what}");
}

fn measure(Arguments { suite, options }: Arguments) -> Result<()> {
    bench::run(suite, &options, &contenders(), &mut io::stdout(), &tell)?;
    Ok(())
}

fn repeat(Papers { options }: &Papers) -> Result<()> {
    bench::repro::run(options, &contenders(), &mut io::stdout(), &tell)?;
    Ok(())
}
