//! Maps of other authors, sound ones and broken ones.

use crate::{options, run_with};
use bench::Opener;
use bench::choices::Suite;
use bench::{Contender, Map, Medium, Row, Setting};
use std::collections::HashMap;
use std::sync::Mutex;
use workload::effort;

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
        grows: true,
        is_by_name: false,
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
    let of_engines = ["store", "values", "load-factor", "recovery", "writes"];
    assert!(!rows.iter().any(|row| of_engines.contains(&row.suite)));
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
    for (suite, is_seen) in effort::each(suites, 3) {
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
