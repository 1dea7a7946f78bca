//! Every suite, run tiny: that it runs, and that its rows say what a reader relies on. How fast
//! anything is, is no test's business.

use bench::contender::Opener;
use bench::options::Suite;
use bench::{Contender, Map, Medium, Options, Row, Setting};
use clap::Parser;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;

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

/// The rows of an operation; there must be some.
fn of<'a>(rows: &'a [Row], op: &str) -> Vec<&'a Row> {
    let found: Vec<&Row> = rows.iter().filter(|row| row.op == op).collect();
    assert!(!found.is_empty(), "no row {op} among {:?}", rows.iter().map(|row| &row.op));
    found
}

fn is_positive(figure: Option<f64>) -> bool {
    figure.is_some_and(|figure| figure.is_finite() && figure > 0.0)
}

fn has_rate(row: &Row) -> bool {
    is_positive(row.ops_per_s) && row.spread == Some(0.0)
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

/// Not a test of anything: what suite `recovery` starts and kills.
#[test]
fn filler() {
    if std::env::var_os("FIRNDEX_BENCH_FILL").is_some() {
        run(Suite::Recovery, "");
    }
}

#[test]
fn micro_has_every_operation_with_its_ceiling() {
    let rows = run(Suite::Micro, "--flushes none");
    for op in ["insert", "get_hit", "get_miss", "update", "upsert", "remove"] {
        let found = of(&rows, op);
        assert!(found.iter().all(|row| has_ratio(row) && row.batch.is_none()), "{found:?}");
        assert_eq!(found.iter().map(|row| row.threads).collect::<Vec<_>>(), [Some(1), Some(2)]);
    }
    for op in ["insert_many", "get_many_hit", "get_many_miss", "update_many", "remove_many"] {
        let found = of(&rows, op);
        assert!(found.iter().all(|row| has_ratio(row) && row.batch == Some(32)), "{found:?}");
    }
    assert!(of(&rows, "read_line_16").iter().all(|row| row.contender == "machine"));
}

#[test]
fn flushes_have_rows_of_their_own_on_every_medium() {
    let rows = run(Suite::Micro, "--flushes real --threads 1 --media dram,mapped,delay-300-500");
    for op in ["insert_durable", "update_many_durable"] {
        let media: Vec<_> = of(&rows, op).iter().map(|row| row.medium.clone().unwrap()).collect();
        assert_eq!(media, ["dram", "mapped", "delay-300-500"]);
    }
    assert!(rows.iter().all(|row| row.suite == "ceilings" || row.op.ends_with("_durable")));
}

#[test]
fn added_latencies_are_paid() {
    let rows = run(Suite::Micro, "--threads 1 --media delay-3000-9000");
    let rate = |op| of(&rows, op)[0].ops_per_s.unwrap();
    // A removal flushes a line at least; without flushes it may not wait for one.
    assert!(rate("remove_durable") < 1e9 / 9000.0, "{}", rate("remove_durable"));
    assert!(rate("get_hit") < 2.0 * 1e9 / 3000.0, "{}", rate("get_hit"));
}

#[test]
fn ycsb_has_all_workloads() {
    let rows = run(Suite::Ycsb, "--skew 0.7");
    for op in ["load", "a", "b", "c", "d", "e", "f", "load_durable", "a_durable", "e_durable"] {
        let found = of(&rows, op);
        assert_eq!(found.len(), 2, "{op}: one for each number of threads");
        assert!(found.iter().all(|row| row.suite == "ycsb" && has_ratio(row)), "{found:?}");
    }
    assert!(rows.iter().all(|row| row.op != "c_durable"), "what only reads is the same again");
    let pairs = |op| of(&rows, op)[0].pairs.unwrap();
    assert_eq!((pairs("load"), pairs("f")), (4000, 4000));
    assert!((4050..4150).contains(&pairs("d")), "a twentieth of 2000 inserted: {}", pairs("d"));
}

#[test]
fn latencies_go_up_to_the_slowest() {
    let rows = run(Suite::Latency, "");
    for op in ["clock", "insert", "get_hit", "get_miss", "update", "remove", "remove_durable"] {
        let found = of(&rows, op);
        assert!(found.iter().all(|row| has_rate(row) && has_percentiles(row)), "{found:?}");
    }
    assert_eq!(of(&rows, "insert")[0].pairs, Some(4000));
    assert_eq!(of(&rows, "remove")[0].pairs, Some(2000));
}

#[test]
fn load_factor_goes_up_step_by_step() {
    let rows = run(Suite::LoadFactor, "--load-factor 0.9 --threads 1");
    for op in ["insert", "get_hit", "get_miss", "insert_durable"] {
        let found = of(&rows, op);
        let steps: Vec<_> = found.iter().map(|row| row.step.unwrap()).collect();
        assert_eq!(steps, (0..18).collect::<Vec<u32>>(), "{op}");
        assert!(found.iter().all(|row| has_ratio(row) && row.p50_ns <= row.p99_ns));
        assert!(found.iter().all(|row| row.p9999_ns.is_none()), "too few samples for that");
        assert!(found.is_sorted_by(|one, next| one.load_factor < next.load_factor));
        let last = found[17];
        assert!((last.load_factor.unwrap() - 0.9).abs() < 0.01, "{last:?}");
        let levels = last.level_pairs.as_ref().unwrap();
        assert_eq!((levels.len(), levels.iter().sum()), (3, last.pairs.unwrap()));
    }
}

#[test]
fn resize_holds_growth_against_a_table_sized_in_advance() {
    let rows = run(Suite::Resize, "--flushes none");
    let (presized, growing) = (of(&rows, "insert_presized"), of(&rows, "insert_growing"));
    for (presized, growing) in presized.iter().zip(&growing) {
        assert!(has_rate(presized) && has_ratio(growing), "{growing:?}");
        let per_thread = presized.ops_per_s.unwrap() / presized.threads.unwrap() as f64;
        assert_eq!(growing.ceiling, Some(per_thread));
    }
    let timed = of(&rows, "insert_growing_latency");
    assert!(timed.iter().all(|row| has_rate(row) && has_percentiles(row)), "{timed:?}");
    for threads in [1, 2] {
        let timeline = of(&rows, "timeline");
        let timeline: Vec<_> = timeline.iter().filter(|row| row.threads == Some(threads)).collect();
        assert_eq!((timeline[0].step, timeline[0].at_s), (Some(0), Some(0.0)));
        assert_eq!(timeline.last().unwrap().pairs, Some(4000));
        let slowest = timeline.iter().map(|row| row.max_ns.unwrap()).fold(0.0, f64::max);
        let whole = timed.iter().find(|row| row.threads == Some(threads)).unwrap();
        assert!(slowest / whole.max_ns.unwrap() > 0.99, "{slowest} of {whole:?}");
    }
    assert!(of(&rows, "stall").iter().all(|row| row.contender == "machine"));
}

#[test]
fn recovery_opens_after_a_kill_and_after_closing() {
    let rows = run(Suite::Recovery, "");
    for op in ["open", "open_clean"] {
        let found = of(&rows, op);
        let is_whole = |row: &&Row| has_rate(row) && row.pairs == Some(4000);
        assert!(found.len() == 2 && found.iter().all(is_whole), "{found:?}");
        assert!(found.iter().all(|row| row.medium.as_deref() == Some("mapped")));
    }
}

#[test]
fn space_counts_bytes() {
    let rows = run(Suite::Space, "--media dram,mapped");
    for op in ["grown", "presized"] {
        for medium in ["dram", "mapped"] {
            let found = of(&rows, op);
            let found: Vec<_> =
                found.iter().filter(|row| row.medium.as_deref() == Some(medium)).collect();
            let pairs: Vec<_> = found.iter().map(|row| row.pairs.unwrap()).collect();
            assert_eq!(pairs, [1000, 2000, 3000, 4000]);
            assert!(found.iter().all(|row| row.bytes_per_pair.unwrap() >= 16.0), "{found:?}");
        }
    }
    let presized = of(&rows, "presized");
    let ratio = presized[0].bytes_per_pair.unwrap() / presized[3].bytes_per_pair.unwrap();
    assert!((ratio - 4.0).abs() < 0.1, "the same bytes for four times the pairs: {ratio}");
}

#[test]
fn writes_counts_what_an_operation_costs() {
    let rows = run(Suite::Writes, "");
    let row = |op| of(&rows, op)[0];
    for op in ["insert", "update", "upsert", "remove"] {
        let row = row(op);
        assert_eq!((row.medium.as_deref(), row.threads), (Some("count"), Some(1)));
        let figures = [row.lines_written, row.flushes, row.fences, row.blocks_written];
        assert!(figures.iter().all(|figure| figure.unwrap() > 0.5), "{row:?}");
        assert!((1.0..=4.0).contains(&row.write_amplification.unwrap()), "{row:?}");
    }
    for op in ["get_hit", "get_miss", "get_many_hit"] {
        assert_eq!((row(op).lines_written, row(op).write_amplification), (Some(0.0), None));
    }
    assert!(row("get_hit").lines_read >= Some(0.9) && row("get_miss").lines_read < Some(1.0));
    let (single, batch) = (row("insert").fences.unwrap(), row("insert_many").fences.unwrap());
    assert!(batch < single / 4.0, "batches share fences: {batch} beside {single}");
    assert_eq!(row("insert_many").batch, Some(32));
}

#[test]
fn all_writes_every_field_of_every_suite() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut options = options("--threads 1");
    (options.json, options.html) = (Some(path("rows.json")), Some(path("page.html")));
    let mut text = Vec::new();
    let engines = bench::table::engines();
    let rows = bench::run(Suite::All, &options, &engines, &mut text, &|_| ()).unwrap();

    let json = std::fs::read_to_string(path("rows.json")).unwrap();
    let json: Vec<HashMap<String, serde_json::Value>> = serde_json::from_str(&json).unwrap();
    assert_eq!(json.len(), rows.len() + 1, "the machine's facts, and all rows");
    let fields = "suite op contender medium threads batch pairs load_factor ops_per_s spread \
                  ceiling ratio p50_ns p99_ns p9999_ns max_ns lines_read lines_written \
                  blocks_written flushes fences";
    for row in &json {
        assert!(fields.split_whitespace().all(|field| row.contains_key(field)), "{row:?}");
    }
    assert!(json[0]["machine"]["processor"].is_string());
    let text = String::from_utf8(text).unwrap();
    let page = std::fs::read_to_string(path("page.html")).unwrap();
    let suites = [
        "ceilings",
        "space",
        "micro",
        "ycsb",
        "latency",
        "load-factor",
        "resize",
        "recovery",
        "writes",
    ];
    for suite in suites {
        assert!(json.iter().any(|row| row["suite"] == suite), "{suite}");
        assert!(text.contains(&format!("\n{suite}\n")) && page.contains(suite), "{suite}");
    }
}

#[test]
fn rounds_are_merged() {
    let rows = run(Suite::Latency, "--runs 3 --threads 1 --flushes none");
    assert_eq!(of(&rows, "insert").len(), 1);
    assert!(is_positive(of(&rows, "insert")[0].spread));
}

/// What is wrong with a [`Broken`] map.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// Such a key is forgotten at once.
    LosesAKey,
    /// Such a key has another value than was stored.
    ReturnsAnother,
    /// An update says that it is done, and is not, for such a key.
    SkipsAnUpdate,
    /// A removal says that it is done, and is not, for such a key.
    SkipsARemoval,
}

/// A map that answers one key in 64 wrongly.
struct Broken {
    pairs: Mutex<HashMap<u64, u64>>,
    fault: Fault,
}

impl Broken {
    fn is_hit(&self, key: u64) -> bool {
        key.is_multiple_of(64)
    }
}

impl Map for Broken {
    fn get(&self, key: u64) -> Option<u64> {
        let found = self.pairs.lock().unwrap().get(&key).copied();
        match self.fault {
            Fault::ReturnsAnother if self.is_hit(key) => found.map(|value| value ^ 1 << 50),
            _ => found,
        }
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        let mut pairs = self.pairs.lock().unwrap();
        if pairs.contains_key(&key) {
            return false;
        }
        if !(matches!(self.fault, Fault::LosesAKey) && self.is_hit(key)) {
            pairs.insert(key, value);
        }
        true
    }

    fn update(&self, key: u64, value: u64) -> bool {
        let skip = matches!(self.fault, Fault::SkipsAnUpdate) && self.is_hit(key);
        match self.pairs.lock().unwrap().get_mut(&key) {
            Some(_) if skip => true,
            Some(stored) => {
                *stored = value;
                true
            }
            None => false,
        }
    }

    fn upsert(&self, key: u64, value: u64) -> bool {
        self.pairs.lock().unwrap().insert(key, value).is_some()
    }

    fn remove(&self, key: u64) -> bool {
        let skip = matches!(self.fault, Fault::SkipsARemoval) && self.is_hit(key);
        let mut pairs = self.pairs.lock().unwrap();
        if skip { pairs.contains_key(&key) } else { pairs.remove(&key).is_some() }
    }
}

fn broken(fault: Fault) -> [Box<dyn Contender>; 1] {
    [Box::new(Opener {
        name: "broken".into(),
        version: "0".into(),
        threads_max: 2,
        engine: None,
        lies_on: |medium, flushes| medium == Medium::Dram && !flushes,
        open: move |_: &Setting| Ok(Broken { pairs: Mutex::default(), fault }),
    })]
}

#[test]
fn a_map_of_another_author_is_measured_where_it_can_be() {
    let rows = run_with(Suite::All, &options(""), &broken(Fault::None)).unwrap();
    let suites = ["micro", "ycsb", "latency", "resize", "space"];
    for suite in suites {
        let is_there = |row: &Row| row.suite == suite && row.contender == "broken";
        assert!(rows.iter().any(is_there), "{suite}");
    }
    let is_of_engines = |row: &Row| ["load-factor", "recovery", "writes"].contains(&row.suite);
    assert!(!rows.iter().any(is_of_engines));
}

#[test]
fn a_broken_map_makes_the_run_fail() {
    let suites = [
        (Suite::Micro, [true, true, true, true]),
        (Suite::Ycsb, [true, true, true, false]),
        (Suite::Latency, [true, true, true, true]),
        (Suite::Resize, [true, true, false, false]),
        (Suite::Space, [true, true, false, false]),
    ];
    let faults =
        [Fault::LosesAKey, Fault::ReturnsAnother, Fault::SkipsAnUpdate, Fault::SkipsARemoval];
    for (suite, is_seen) in suites {
        for (fault, is_seen) in faults.into_iter().zip(is_seen) {
            if is_seen {
                let options = options("--flushes none --threads 1");
                match run_with(suite, &options, &broken(fault)) {
                    Ok(_) => panic!("{suite:?} has not seen that a map {fault:?}"),
                    Err(error) => assert!(format!("{error:#}").contains("broken"), "{error:#}"),
                }
            }
        }
    }
}

/// The message with which a run fails before it measures anything.
fn refusal(suite: Suite, options: &Options) -> String {
    let measuring = |what: &str| panic!("began with {what}");
    let engines = bench::table::engines();
    let error = bench::run(suite, options, &engines, &mut Vec::new(), &measuring).unwrap_err();
    format!("{error:#}")
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_measured() {
    let unknown = refusal(Suite::Micro, &options("--engines iceberg,cuckoo"));
    assert!(unknown.contains("cuckoo") && unknown.contains("there are iceberg"), "{unknown}");
    for suite in [Suite::Resize, Suite::All] {
        let message = refusal(suite, &options("--grow-from 4000"));
        assert!(message.contains("--grow-from 4000"), "{message}");
    }
    let missing = Path::new("/nowhere/at/all");
    let files = [
        Options { json: Some(missing.into()), ..options("") },
        Options { html: Some(missing.into()), ..options("") },
        Options { directory: Some(missing.into()), ..options("--media mapped") },
    ];
    for options in files {
        let message = refusal(Suite::Micro, &options);
        assert!(message.contains("/nowhere/at/all"), "{message}");
    }
    let message = refusal(Suite::Micro, &options("--pairs 99999999G"));
    assert!(message.contains("memory"), "{message}");
}

#[test]
fn a_file_that_is_there_is_kept_until_there_are_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.json");
    std::fs::write(&path, "of an earlier run").unwrap();
    let options = Options { json: Some(path.clone()), ..options("--engines cuckoo") };
    refusal(Suite::Micro, &options);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "of an earlier run");
}
