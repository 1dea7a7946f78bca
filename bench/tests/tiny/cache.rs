//! Suite `cache`: sound caches, and broken ones.

use crate::{by, is_positive, of, options, run_with};
use anyhow::Result;
use bench::choices::Suite;
use bench::{Cache, Caching, Contender, Room, Row};
use std::collections::HashMap;
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
}

/// A value, and when it expires.
type Value = (Vec<u8>, Option<Instant>);

/// A cache without a bound.
struct Endless {
    pairs: Mutex<HashMap<Vec<u8>, Value>>,
    fault: Fault,
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
}

fn endless(fault: Fault) -> Box<dyn Contender> {
    Box::new(Caching {
        name: "endless".to_owned(),
        version: "1".to_owned(),
        open: move |_: Room| Ok(Endless { pairs: Mutex::default(), fault }),
    })
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
    assert_eq!(of(&rows, "memory").len(), contenders.len());
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
