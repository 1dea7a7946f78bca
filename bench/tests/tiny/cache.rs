//! Suite `cache`: sound caches, and broken ones.

use crate::{by, is_positive, of, options, run_with};
use anyhow::Result;
use bench::choices::Suite;
use bench::{Cache, Caching, Contender, End, Room, Row, Rows};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use workload::trace::Kind;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The last byte of one value in 64 is another one.
    ReturnsAnother,
    /// Values do not expire.
    Keeps,
    /// What a file has kept is another value.
    KeepsAnother,
}

/// A value, and when it expires.
type Value = (Vec<u8>, Option<Instant>);

/// A cache without a bound.
struct Endless {
    pairs: Mutex<HashMap<Vec<u8>, Value>>,
    fault: Fault,
    /// Where its pairs are when it was closed.
    file: Option<PathBuf>,
}

impl Endless {
    fn store(&self, key: &[u8], value: &[u8], expires: Option<Instant>) -> Result<()> {
        let mut value = value.to_vec();
        if self.fault == Fault::ReturnsAnother && key[0].is_multiple_of(64) {
            *value.last_mut().unwrap() ^= 1;
        }
        self.pairs.lock().unwrap().insert(key.to_vec(), (value, expires));
        Ok(())
    }
}

impl Cache for Endless {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        let pairs = self.pairs.lock().unwrap();
        let alive = pairs.get(key).filter(|(_, expires)| {
            self.fault == Fault::Keeps || expires.is_none_or(|expires| expires > Instant::now())
        });
        Ok(alive.map(|(value, _)| is_right(value)))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store(key, value, None)
    }

    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()> {
        self.store(key, value, Some(Instant::now() + lives))
    }

    fn bytes(&self) -> Result<Option<u64>> {
        Ok(Some(self.pairs.lock().unwrap().len() as u64 * 200))
    }

    fn pairs(&self) -> Result<Option<u64>> {
        Ok(Some(self.pairs.lock().unwrap().len() as u64))
    }

    fn close(self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let pairs = self.pairs.lock().unwrap();
        let all: Vec<_> = pairs.iter().map(|(key, (value, _))| (key, value)).collect();
        Ok(fs::write(file, serde_json::to_vec(&all)?)?)
    }
}

fn reopened(directory: &Path, fault: Fault) -> Result<Endless> {
    let file = directory.join("endless.json");
    let all: Vec<(Vec<u8>, Vec<u8>)> =
        if file.exists() { serde_json::from_slice(&fs::read(&file)?)? } else { Vec::new() };
    let pairs = all.into_iter().map(|(key, mut value)| {
        if fault == Fault::KeepsAnother {
            *value.last_mut().unwrap() ^= 1;
        }
        (key, (value, None))
    });
    Ok(Endless { pairs: Mutex::new(pairs.collect()), fault, file: Some(file) })
}

fn of_fault(fault: Fault) -> Caching<Endless> {
    let name = if fault == Fault::KeepsAnother { "forger" } else { "endless" };
    Caching::new(name, "1", move |_: Room| {
        Ok(Endless { pairs: Mutex::default(), fault, file: None })
    })
}

/// One that keeps its pairs only if it is closed.
fn closing(fault: Fault) -> Caching<Endless> {
    let open = move |directory: &Path, _: Room| reopened(directory, fault);
    of_fault(fault).reopening(&[End::Closed, End::Killed], open)
}

fn endless(fault: Fault) -> Box<dyn Contender> {
    Box::new(of_fault(fault))
}

/// What is started once more.
pub(crate) fn all() -> Vec<Box<dyn Contender>> {
    let mut contenders = bench::contenders::caches();
    contenders.push(Box::new(closing(Fault::None)));
    contenders.push(Box::new(closing(Fault::KeepsAnother)));
    contenders
}

fn percents(row: &Row) -> f64 {
    100.0 * row.hit_ratio.unwrap()
}

#[test]
fn traces_rates_and_memory_have_rows() {
    let mut contenders = bench::contenders::caches();
    contenders.push(endless(Fault::None));
    let rows = run_with(Suite::Cache, &options("--pairs 10000"), &contenders).unwrap();
    for contender in ["firndex", "lru", "endless"] {
        for kind in Kind::ALL {
            let found = by(&rows, contender, kind.name());
            let sizes: Vec<u32> = found.iter().filter_map(|row| row.cache_percent).collect();
            assert_eq!(sizes, [1, 5, 20], "{kind:?}");
        }
        for op in ["get_hit", "put_evict", "get_or_put"] {
            let found = by(&rows, contender, op);
            let threads: Vec<usize> = found.iter().filter_map(|row| row.threads).collect();
            assert_eq!(threads, [1, 2]);
            assert!(found.iter().all(|row| is_positive(row.ops_per_s)));
        }
        assert!(by(&rows, contender, "get_hit").iter().all(|row| row.hit_ratio == Some(1.0)));
        assert_eq!(by(&rows, contender, "memory").len(), 1);
    }
    assert_eq!(by(&rows, "endless", "memory")[0].beside_bytes_per_pair, Some(84.0));
    // The longest of the loops that fits stays, and a loop that does not fit is dropped before it comes again.
    let lru = |op| by(&rows, "lru", op).into_iter().map(percents).collect::<Vec<f64>>();
    assert!(lru("loop").iter().all(|hits| *hits < 3.0), "{:?}", lru("loop"));
    assert!(lru("loops").is_sorted() && lru("loops")[2] > 40.0, "{:?}", lru("loops"));
    // Nobody is ahead of a cache that drops nothing, except where values expire by the clock.
    for one in &of_traces(&rows, "lru") {
        let is_it = |row: &&&Row| row.op == one.op && row.cache_percent == one.cache_percent;
        let all = of_traces(&rows, "endless");
        let all = all.iter().find(is_it).unwrap();
        assert!(one.op == "expiry" || percents(one) <= percents(all), "{one:?}");
    }
    assert_eq!(of(&rows, "memory").len(), 3);
    let store: Vec<&Row> = rows.iter().filter(|row| row.contender == "firndex-store").collect();
    assert!(store.len() == 2 && store.iter().all(|row| row.op == "get_hit"), "{store:?}");
}

#[test]
fn what_is_left_after_a_kill_or_a_closing_is_counted() {
    let restarts = closing(Fault::None).only(Rows::Restarts);
    let mut contenders = bench::contenders::caches();
    contenders.push(Box::new(restarts));
    let options = options("--pairs 4k --threads 1 --engines firndex,endless");
    let rows = run_with(Suite::Cache, &options, &contenders).unwrap();
    let hits = |contender, op| by(&rows, contender, op)[0].hit_ratio.unwrap();

    let own = by(&rows, "firndex", "restart")[0];
    assert!(is_positive(own.took_s) && own.pairs > Some(500), "{own:?}");
    assert_eq!(own.kept, Some(1.0));
    assert_eq!(own.pairs, by(&rows, "firndex", "before_kill")[0].pairs);
    let [before, after] = ["before_kill", "after_kill"].map(|op| hits("firndex", op));
    // These 10,000 requests are not those before them.
    assert!(before > 0.6 && (after - before).abs() < 0.03, "{before}, {after}");

    assert_eq!(by(&rows, "endless", "restart_closed")[0].kept, Some(1.0));
    assert!(hits("endless", "after_close") > 0.9);
    let killed = by(&rows, "endless", "restart")[0];
    assert_eq!((killed.kept, killed.pairs), (Some(0.0), Some(0)));
    assert!(hits("endless", "after_kill") < hits("endless", "before_kill") - 0.05);
    let of_endless = rows.iter().filter(|row| row.contender == "endless");
    assert_eq!(of_endless.count(), 6, "it has no other rows");
}

#[test]
fn another_value_after_a_restart_ends_the_run() {
    let forger = closing(Fault::KeepsAnother).only(Rows::Restarts);
    let options = options("--threads 1");
    let error = run_with(Suite::Cache, &options, &[Box::new(forger)]).unwrap_err();
    assert!(format!("{error:#}").contains("wrong"), "{error:#}");
}

#[test]
fn a_coarse_bound_or_a_slow_cache_has_no_such_hit_ratios() {
    let coarse: Box<dyn Contender> =
        Box::new(of_fault(Fault::None).bounded_from(100_000).without_pace());
    let rows = run_with(Suite::Cache, &options("--threads 1"), &[coarse]).unwrap();
    let sizes: Vec<u32> =
        by(&rows, "endless", "scan").iter().filter_map(|row| row.cache_percent).collect();
    assert_eq!(sizes, [20], "a cache of 5 % has 30,400 bytes");
    assert!(rows.iter().all(|row| row.op != "expiry"));
    assert_eq!(by(&rows, "endless", "get_hit").len(), 1);
}

fn of_traces<'a>(rows: &'a [Row], contender: &str) -> Vec<&'a Row> {
    let of_traces = |row: &&Row| row.contender == contender && row.cache_percent.is_some();
    rows.iter().filter(of_traces).collect()
}

#[test]
fn caches_are_in_no_other_suite_and_nobody_else_is_in_theirs() {
    let micro = run_with(Suite::Micro, &options(""), &bench::contenders::caches()).unwrap();
    assert!(micro.iter().all(|row| row.contender == "machine"));
    let cache = run_with(Suite::Cache, &options(""), &bench::table::engines()).unwrap();
    assert_eq!(cache, []);
}

#[test]
fn wrong_values_and_expired_ones_end_the_run() {
    for (fault, told) in [(Fault::ReturnsAnother, "wrong"), (Fault::Keeps, "expired")] {
        let found = run_with(Suite::Cache, &options("--pairs 60k"), &[endless(fault)]);
        let error = format!("{:#}", found.unwrap_err());
        assert!(error.contains(told), "{error}");
    }
}
