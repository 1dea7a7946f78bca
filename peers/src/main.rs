//! Compares firndex with concurrent maps of other authors.

mod machine;
mod report;
mod worker;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use peers::pages::ALLOCATOR_OPTIONS;
use peers::{Batched, CONTENDERS, Contender};
use report::Report;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use worker::{CEILING, Job, Outcome};

/// Compares firndex with concurrent maps of other authors, in memory, on pairs of 8-byte words.
///
/// Each contender is measured in a process of its own, in turn, as often as --runs says. All
/// answers are checked while the clock runs.
#[derive(Parser)]
struct Options {
    /// Pairs stored; every map is sized for them in advance (k, M and G are understood)
    #[arg(long, default_value = "14M", value_parser = count)]
    pairs: u64,
    /// Operations of each kind after the insertion of all pairs [default: 8M, at most all pairs]
    #[arg(long, value_parser = count)]
    ops: Option<u64>,
    /// Numbers of threads, each measured
    #[arg(long, default_value = "1,2", value_delimiter = ',', value_parser = threads)]
    threads: Vec<usize>,
    /// Keys per call of the operations that take many
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u16).range(2..=4096))]
    batch: u16,
    /// Rounds; the median counts
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Contenders, by default all (see --list)
    #[arg(long, value_delimiter = ',')]
    maps: Vec<String>,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also writes the rows to this file, as one JSON array
    #[arg(long)]
    json: Option<PathBuf>,
    /// Prints the names and versions of the contenders
    #[arg(long)]
    list: bool,
    /// Measures one contender in this process and prints the outcome as JSON
    #[arg(long, hide = true)]
    worker: Option<String>,
    /// Keys per call in the worker; 1: single calls
    #[arg(long, hide = true, default_value = "1")]
    worker_batch: usize,
}

/// A count, perhaps with a decimal unit.
fn count(text: &str) -> Result<u64> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let count = digits.parse::<u64>().ok().and_then(|digits| digits.checked_mul(unit));
    let count = count.with_context(|| format!("{text:?} is no count such as 5000, 64k or 16M"))?;
    ensure!((1..=1 << 36).contains(&count), "{count} is not between 1 and 2^36");
    Ok(count)
}

fn threads(text: &str) -> Result<usize> {
    let threads = text.parse().context("not a number")?;
    ensure!((1..=1024).contains(&threads), "{threads} is not between 1 and 1024");
    Ok(threads)
}

/// The contenders of these names, in the order of the registry.
fn chosen(names: &[String]) -> Result<Vec<&'static Contender>> {
    for name in names {
        if !CONTENDERS.iter().any(|contender| contender.name == name) {
            let there: Vec<&str> = CONTENDERS.iter().map(|contender| contender.name).collect();
            let there = there.join(", ");
            bail!(
                "no map here is called {name:?}; there are {there} (a C++ map whose headers were not found is left out)"
            );
        }
    }
    let wanted = |contender: &&Contender| {
        names.is_empty() || names.iter().any(|name| name == contender.name)
    };
    Ok(CONTENDERS.iter().filter(wanted).collect())
}

/// Runs `job` in a process of its own: the memory that one map leaves behind, and how it lies,
/// is then no other's business.
fn measure(name: &str, job: &Job) -> Result<Outcome> {
    let executable = std::env::current_exe().context("finding this program")?;
    let output = Command::new(executable)
        .env(ALLOCATOR_OPTIONS.0, ALLOCATOR_OPTIONS.1)
        .args(["--worker", name])
        .args(["--pairs", &job.pairs.to_string(), "--ops", &job.ops.to_string()])
        .args(["--threads", &job.threads.to_string(), "--seed", &job.seed.to_string()])
        .args(["--worker-batch", &job.batch.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("starting a worker")?;
    ensure!(output.status.success(), "{name} failed: {}", output.status);
    Outcome::parse(&output.stdout).with_context(|| format!("reading what {name} measured"))
}

fn compare(options: &Options) -> Result<()> {
    let contenders = chosen(&options.maps)?;
    let ops = options.ops.unwrap_or(8_000_000).min(options.pairs);
    let mut tasks = Vec::new();
    for threads in &options.threads {
        let job =
            Job { pairs: options.pairs, ops, threads: *threads, batch: 1, seed: options.seed };
        tasks.push((CEILING, job));
        for contender in contenders.iter().filter(|contender| *threads <= contender.threads_max) {
            tasks.push((contender.name, job));
            if (contender.open)(1, 1).batched() != Batched::Nothing {
                tasks.push((contender.name, Job { batch: options.batch.into(), ..job }));
            }
        }
    }

    let machine = machine::describe();
    eprintln!("{machine}");
    let mut report = Report::new(machine, options.pairs, ops);
    for run in 0..usize::from(options.runs) {
        // Each round begins elsewhere, so that no contender always follows the same one.
        let begin = run * tasks.len() / usize::from(options.runs);
        for (done, (name, job)) in tasks.iter().cycle().skip(begin).take(tasks.len()).enumerate() {
            let (threads, batch) = (job.threads, job.batch);
            let (round, left) = (run + 1, tasks.len() - done);
            eprintln!("round {round}, {left} to go: {name}, threads {threads}, batch {batch}");
            report.add(name, job, &measure(name, job)?);
        }
    }
    print!("{}", report.table());
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report.rows())?;
        std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.list {
        for contender in CONTENDERS {
            println!("{} {}", contender.name, contender.version);
        }
        return Ok(());
    }
    let Some(name) = &options.worker else { return compare(&options) };
    let job = Job {
        pairs: options.pairs,
        ops: options.ops.unwrap_or(options.pairs).min(options.pairs),
        threads: options.threads[0],
        batch: options.worker_batch,
        seed: options.seed,
    };
    println!("{}", worker::run(name, &job)?.to_json());
    Ok(())
}
