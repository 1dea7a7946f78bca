//! Tables that may not grow and are asked to take more than they can.

use crate::{by, engines, has_ratio, options, run, run_with};
use bench::Opener;
use bench::choices::Suite;
use bench::paper::PAPERS;
use bench::{Contender, Facts, Failure, Map, Medium, Row, Setting};
use firndex::Engine;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

/// Pairs that a [`Small`] map takes.
const CAPACITY: usize = 1000;
/// ... and how many it takes before it is full.
const ROOM: usize = 630;

/// What a [`Small`] map does when it is full.
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    /// It refuses the pair and is as it was.
    Refuses,
    /// It refuses the pair, and another is gone.
    LosesAPair,
    /// It refuses the pair, and another is gone that it still counts.
    LosesAPairAndCountsIt,
    /// It says that it refused the pair, and has stored it.
    StoresIt,
    /// It fails for another reason.
    Fails,
    /// It says that the key was there, and no more.
    SaysNothing,
}

/// A map with room for [`ROOM`] pairs.
struct Small {
    when: When,
    pairs: Mutex<HashMap<u64, u64>>,
    failure: OnceLock<Failure>,
}

impl Map for Small {
    fn get(&self, key: u64) -> Option<u64> {
        self.pairs.lock().unwrap().get(&key).copied()
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        let mut pairs = self.pairs.lock().unwrap();
        if pairs.len() < ROOM {
            return pairs.insert(key, value).is_none();
        }
        match self.when {
            When::LosesAPair | When::LosesAPairAndCountsIt => {
                let lost = *pairs.keys().min().unwrap();
                pairs.remove(&lost);
            }
            When::StoresIt => {
                pairs.insert(key, value);
            }
            When::Refuses | When::Fails | When::SaysNothing => {}
        }
        let _ = match self.when {
            When::SaysNothing => Ok(()),
            When::Fails => self.failure.set(Failure::Other("no such device".into())),
            _ => self.failure.set(Failure::Full("no room in the small map".into())),
        };
        false
    }

    fn update(&self, key: u64, value: u64) -> bool {
        self.pairs.lock().unwrap().get_mut(&key).map(|stored| *stored = value).is_some()
    }

    fn upsert(&self, key: u64, value: u64) -> bool {
        self.pairs.lock().unwrap().insert(key, value).is_some()
    }

    fn remove(&self, key: u64) -> bool {
        self.pairs.lock().unwrap().remove(&key).is_some()
    }

    fn facts(&self) -> Option<Facts> {
        let mut pairs = self.pairs.lock().unwrap().len();
        if self.when == When::LosesAPairAndCountsIt && self.failure.get().is_some() {
            pairs += 1;
        }
        Some(Facts {
            pairs: pairs as u64,
            capacity: CAPACITY as u64,
            load_factor: pairs as f64 / CAPACITY as f64,
            resizes: 0,
            bytes: 0,
            level_pairs: vec![pairs as u64],
        })
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }
}

fn small(when: When) -> [Box<dyn Contender>; 1] {
    [Box::new(Opener {
        name: "small".into(),
        version: "0".into(),
        threads_max: 2,
        // The suite takes engines only.
        engine: Some(Engine::ALL[0]),
        grows: true,
        is_by_name: false,
        lies_on: |medium, flushes| medium == Medium::Dram && !flushes,
        open: move |_: &Setting| {
            Ok(Small { when, pairs: Mutex::default(), failure: OnceLock::new() })
        },
    })]
}

fn fill(when: When, arguments: &str) -> anyhow::Result<Vec<Row>> {
    run_with(Suite::LoadFactor, &options(&format!("{arguments} --flushes none")), &small(when))
}

#[test]
fn the_first_refusal_ends_the_series_and_is_a_row() {
    let rows = fill(When::Refuses, "--threads 1").unwrap();
    for op in ["insert", "get_hit", "get_miss"] {
        // 630 of 1000: the step to 0.65 was begun and has no rows.
        let steps: Vec<_> = by(&rows, "small", op).iter().map(|row| row.step.unwrap()).collect();
        assert_eq!(steps, (0..12).collect::<Vec<u32>>(), "{op}");
    }
    let full = by(&rows, "small", "full");
    assert_eq!(full.len(), 1);
    assert_eq!(
        (full[0].load_factor, full[0].pairs, full[0].ops_per_s),
        (Some(0.63), Some(630), None)
    );

    let rows = fill(When::Refuses, "--threads 2").unwrap();
    assert_eq!(by(&rows, "small", "full")[0].pairs, Some(630), "whoever of two was refused");
}

#[test]
fn a_full_table_that_is_not_as_it_was_is_found() {
    for when in [When::LosesAPair, When::LosesAPairAndCountsIt, When::StoresIt] {
        match fill(when, "--threads 1") {
            Ok(_) => panic!("a map that {when:?} was not found"),
            Err(error) => assert!(format!("{error:#}").contains("the full table"), "{error:#}"),
        }
    }
}

#[test]
fn other_failures_are_no_fullness() {
    for (when, said) in [(When::Fails, "no such device"), (When::SaysNothing, "answers are wrong")]
    {
        match fill(when, "--threads 1") {
            Ok(_) => panic!("a map that {when:?} passed for full"),
            Err(error) => assert!(format!("{error:#}").contains(said), "{error:#}"),
        }
    }
}

/// How far: 19 steps are asked for, up to 0.95.
#[test]
fn engines_are_filled_as_far_as_they_go() {
    let rows = run(Suite::LoadFactor, "--pairs 20k --threads 1,2");
    for engine in engines() {
        for threads in [1, 2] {
            let steps = |op: &str| -> Vec<&Row> {
                let found = by(&rows, engine, op);
                found.into_iter().filter(|row| row.threads == Some(threads)).collect()
            };
            for suffix in ["", "_durable"] {
                let full: Vec<&Row> = rows
                    .iter()
                    .filter(|row| row.contender == engine && row.threads == Some(threads))
                    .filter(|row| row.op == format!("full{suffix}"))
                    .collect();
                // Look-ups flush nothing.
                let ops: &[&str] = if suffix.is_empty() {
                    &["insert", "get_hit", "get_miss"]
                } else {
                    &["insert"]
                };
                for op in ops {
                    let found = steps(&format!("{op}{suffix}"));
                    assert!(found.iter().all(|row| has_ratio(row)), "{engine}, {op}");
                    if full.is_empty() {
                        assert_eq!(found.len(), 19, "{engine}, {op}");
                        assert!((found[18].load_factor.unwrap() - 0.95).abs() < 0.01);
                    } else {
                        assert!((16..19).contains(&found.len()), "{engine}, {op}");
                    }
                }
                for row in full {
                    assert!((0.82..0.95).contains(&row.load_factor.unwrap()), "{row:?}");
                    let levels = row.level_pairs.as_ref().unwrap();
                    assert_eq!(levels.iter().sum::<u64>(), row.pairs.unwrap());
                }
            }
        }
    }
}

#[test]
fn a_load_factor_that_cannot_be_reached_is_said_to_be_too_high() {
    let arguments = "--load-factor 0.95 --threads 1 --flushes none --pairs 20k --engines";
    for suite in [Suite::Micro, Suite::Latency, Suite::Writes] {
        let options = options(&format!("{arguments} {}", PAPERS[0].name));
        let error = run_with(suite, &options, &bench::table::engines()).unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains("--load-factor 0.95") && message.contains("full"), "{message}");
    }
}
