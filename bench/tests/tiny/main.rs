//! Every suite, run tiny: that it runs, and that its rows say what a reader relies on. How fast
//! anything is, is no test's business.

mod broken;
mod cache;
mod durable;
mod full;
mod iceberg;
mod level;
mod open;
mod papers;
mod pfht;
mod refusals;
mod rewo;
mod stores;
mod suites;
mod values;

use bench::choices::Suite;
use bench::{Contender, Options, Row};
use clap::Parser;
use firndex::Engine;
use std::ffi::OsString;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

/// Options as the command line gives them, for a run of a blink where they say nothing else.
fn options(arguments: &str) -> Options {
    let mut words = vec!["bench"];
    words.extend(arguments.split_whitespace());
    let tiny = [
        ("--pairs", "4000"),
        ("--ops", "2000"),
        ("--runs", "1"),
        ("--threads", "1,2"),
        ("--grow-from", "500"),
        ("--restarts", "2"),
    ];
    for (name, value) in tiny {
        if !words.contains(&name) {
            words.extend([name, value]);
        }
    }
    let mut options = CommandLine::parse_from(words).options;
    options.again = Some(["--exact", "filler", "--nocapture"].map(OsString::from).to_vec());
    options
}

fn run_with(
    suite: Suite,
    options: &Options,
    contenders: &[Box<dyn Contender>],
) -> anyhow::Result<Vec<Row>> {
    bench::run(suite, options, contenders, &mut Vec::new(), &|_| ())
}

fn run(suite: Suite, arguments: &str) -> Vec<Row> {
    run_with(suite, &options(arguments), &bench::table::engines()).unwrap()
}

#[derive(Parser)]
struct Papers {
    #[command(flatten)]
    options: bench::repro::Options,
}

/// What `firndex-lab repro` does with these arguments, on two threads. An underscore is a space in an argument.
fn repeat(arguments: &str) -> bench::repro::Report {
    let words = format!("repro --threads 2 {arguments}");
    let words = words.split(' ').map(|word| word.replace('_', " "));
    let options = Papers::parse_from(words).options;
    let contenders = bench::contenders::all();
    bench::repro::run(&options, &contenders, &mut Vec::new(), &|_| ()).unwrap()
}

/// The rows of an operation; there must be some.
fn of<'a>(rows: &'a [Row], op: &str) -> Vec<&'a Row> {
    let found: Vec<&Row> = rows.iter().filter(|row| row.op == op).collect();
    assert!(!found.is_empty(), "no row {op} among {:?}", rows.iter().map(|row| &row.op));
    found
}

/// The rows of an operation by one contender; there must be some.
fn by<'a>(rows: &'a [Row], contender: &str, op: &str) -> Vec<&'a Row> {
    let found: Vec<&Row> =
        of(rows, op).into_iter().filter(|row| row.contender == contender).collect();
    assert!(!found.is_empty(), "no row {op} of {contender}");
    found
}

/// The engines' names.
fn engines() -> impl Iterator<Item = &'static str> {
    Engine::ALL.iter().map(|engine| engine.name())
}

fn is_positive(figure: Option<f64>) -> bool {
    figure.is_some_and(|figure| figure.is_finite() && figure > 0.0)
}

fn has_rate(row: &Row) -> bool {
    is_positive(row.ops_per_s) && row.spread.is_none()
}

fn has_ratio(row: &Row) -> bool {
    let per_thread = row.ops_per_s.unwrap() / row.threads.unwrap() as f64;
    has_rate(row)
        && is_positive(row.ceiling)
        && (row.ratio.unwrap() - per_thread / row.ceiling.unwrap()).abs() < 1e-6
}

fn has_percentiles(row: &Row) -> bool {
    let percentiles = [row.p50_ns, row.p99_ns, row.p9999_ns, row.max_ns];
    percentiles.iter().all(|percentile| percentile.is_some()) && percentiles.is_sorted()
}

/// Not a test of anything: what suites `open`, `values` and `cache` start.
#[test]
fn filler() {
    if std::env::var_os("FIRNDEX_BENCH_ORDER").is_some() {
        run_with(Suite::Values, &options(""), &values::all()).unwrap();
    }
}
