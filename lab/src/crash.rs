//! `firndex-lab crash`: does anything break a promise on a simulated machine that crashes everywhere?

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cli::failure::Status;
use cli::output;
use cli::progress;
use crashlab::campaign::{self, Campaign, Report};
use crashlab::lab::Counters;
use crashlab::target::Target;
use indicatif::HumanCount;
use serde_json::{Value, json};

use crate::minutes::minutes;

/// More threads would have more schedules than a run can sample.
const THREADS_MAX: u64 = 4;
/// More operations on few keys would make a history too long to judge.
const OPS_MAX: u64 = 8;

/// Crash the engines everywhere, on a simulated machine
///
/// Runs histories on a simulated persistent memory, which may lose every store that was not flushed and fenced. Crashes
/// them at every moment that matters, recovers what may be left, and judges it: nothing that had returned may be taken
/// back. Touches no file. The exit status is 1 if a promise was broken; then it prints how to reproduce that.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex-lab crash                                  directed histories, then random ones, on every engine
  firndex-lab crash --engine pool --minutes 10       random histories for ten minutes
  firndex-lab crash --threads 1 --ops 3              every history of one thread, up to three operations
  firndex-lab crash --short                          what CI does, on every engine
  firndex-lab crash --sites                          break each flush, fence and ordered store in turn
  firndex-lab crash --engine heap --json             {\"engine\":\"heap\",\"histories\":…,\"images\":…,…}")]
pub(crate) struct Arguments {
    /// What to crash [default: everything]
    #[arg(long, value_parser = targets())]
    engine: Option<Target>,
    /// Simulated threads; with 1, every history is tried instead of random ones
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=THREADS_MAX))]
    threads: u64,
    /// Operations of each thread
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=OPS_MAX))]
    ops: u64,
    /// Random histories for each engine
    #[arg(long, default_value_t = 2000)]
    histories: u64,
    /// Continue with random histories for this many minutes on each engine; 0 runs no histories
    #[arg(long, value_parser = minutes)]
    minutes: Option<f64>,
    /// Seed of the first random history
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also break every place that flushes, fences or orders a store, one after another; each must be noticed
    #[arg(long)]
    sites: bool,
    /// Of the directed histories of several threads run only one in this many, chosen by the seed, and one of each kind
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    one_in: u64,
    /// Run what CI runs on each engine: random histories of three threads, all short ones of one, a sample of the
    /// directed histories, and each site broken. The engine's file in the lab says how much
    #[arg(long, conflicts_with_all = ["threads", "ops", "histories", "minutes", "seed", "sites", "one_in"])]
    short: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn targets() -> impl TypedValueParser<Value = Target> {
    PossibleValuesParser::new(Target::all().into_iter().map(Target::name))
        .try_map(|name| Target::by_name(&name).ok_or("no such engine"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let targets = arguments.engine.map_or_else(Target::all, |target| vec![target]);
    let workers = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let campaigns = targets.into_iter().flat_map(|target| {
        if arguments.short {
            campaign::short(target, workers)
        } else {
            vec![asked_for(arguments, target, workers)]
        }
    });
    let mut parts = Vec::new();
    for campaign in campaigns {
        let name = campaign.target.name();
        let report = run_one(&campaign);
        if !arguments.json {
            output::data(words(name, &report).as_bytes())?;
        }
        parts.push((name, report));
    }
    let is_sound = parts.iter().all(|(_, report)| is_sound(report));
    if arguments.json {
        let object = match &parts[..] {
            [(name, report)] => as_json(name, &[report]),
            several => {
                let reports: Vec<&Report> = several.iter().map(|(_, report)| report).collect();
                let mut object = as_json("all", &reports);
                object["engines"] =
                    several.iter().map(|(name, report)| as_json(name, &[report])).collect();
                object
            }
        };
        output::json(&object)?;
        let violations = parts.iter().flat_map(|(_, report)| &report.violations);
        violations.for_each(|violation| output::complain(violation.to_string().trim_end()));
    }
    if is_sound {
        return Ok(Status::Done);
    }
    output::complain("a promise was broken, or a broken place went unnoticed");
    Ok(Status::Absent)
}

fn asked_for(arguments: &Arguments, target: Target, workers: usize) -> Campaign {
    Campaign {
        target,
        threads: arguments.threads as usize,
        ops: arguments.ops as usize,
        histories: arguments.histories,
        // More than a clock can count means for ever.
        time: arguments
            .minutes
            .map(|minutes| Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX)),
        seed: arguments.seed,
        directed: arguments.minutes != Some(0.0),
        directed_one_in: arguments.one_in,
        sites: arguments.sites,
        workers,
    }
}

fn run_one(campaign: &Campaign) -> Report {
    let step = progress::unknown("crashing", "images");
    campaign.run(&|counters: Counters| step.set_position(counters.images))
}

fn is_sound(report: &Report) -> bool {
    report.violations.is_empty() && report.unnoticed.as_ref().is_none_or(Vec::is_empty)
}

fn words(engine: &str, report: &Report) -> String {
    let mut text = String::new();
    let Counters { histories, images, recoveries } = report.counters;
    let _ = writeln!(
        text,
        "{engine}: {} histories, {} crash images, {} recoveries, {} violations, {:.1} s",
        HumanCount(histories),
        HumanCount(images),
        HumanCount(recoveries),
        report.violations.len(),
        report.time.as_secs_f64(),
    );
    if let Some(unnoticed) = &report.unnoticed {
        let sites = report.sites.len();
        let _ = writeln!(text, "  {} of {sites} sites noticed", sites - unnoticed.len());
        for site in unnoticed {
            let _ = writeln!(text, "  unnoticed: {}", crashlab::trial::place(site));
        }
    }
    for violation in &report.violations {
        let _ = write!(text, "{violation}");
    }
    text
}

fn as_json(engine: &str, reports: &[&Report]) -> Value {
    let mut counters = Counters::default();
    reports.iter().for_each(|report| counters += report.counters);
    let sum = |count: &dyn Fn(&Report) -> usize| -> usize {
        reports.iter().map(|report| count(report)).sum()
    };
    let noticed: Option<usize> = reports
        .iter()
        .map(|report| Some(report.sites.len() - report.unnoticed.as_ref()?.len()))
        .sum();
    json!({
        "engine": engine,
        "histories": counters.histories,
        "images": counters.images,
        "recoveries": counters.recoveries,
        "violations": sum(&|report| report.violations.len()),
        "sites": sum(&|report| report.sites.len()),
        "sites_noticed": noticed,
        "seconds": reports.iter().map(|report| report.time.as_secs_f64()).sum::<f64>(),
    })
}
