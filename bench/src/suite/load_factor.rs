//! How an engine performs as it fills up, when it may not grow.
//!
//! The table is filled in steps of [`STEP`] of its capacity. Each step has rows `insert`, the step's insertions, and
//! `get_hit` and `get_miss` at the fill that they led to, each with a sixteenth of the run's operations. Every 16th
//! operation is timed, so that the rates remain those of operations that overlap.
//!
//! A table that refuses a pair for want of room ends the series. Row `full` has the load factor at its first refusal;
//! the step that had begun has no rows. Then everything that the table took must be there, and nothing that it refused.

use crate::filling::{check, explained};
use crate::keys::{Keys, Writer};
use crate::latencies;
use crate::map::{Facts, Failure, Map};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use quanta::Clock;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Part of the capacity that each step fills.
pub const STEP: f64 = 0.05;
/// How full the table becomes by default.
pub const LOAD_FACTOR_DEFAULT: f64 = 0.95;
/// One operation in this many is timed.
const EVERY: usize = 16;
/// Look-ups at each step, as a part of the run's operations.
const GETS_PART: u64 = 16;

/// One map that is filled step by step.
struct Staircase<'a, M> {
    name: &'a str,
    map: &'a M,
    setting: &'a Setting,
    clock: Clock,
    rows: Vec<Row>,
}

/// One round on one map.
pub fn round<M: Map>(
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let map = open(&Setting { grows: false, ..setting.clone() })?;
    let mut staircase =
        Staircase { name, map: &map, setting, clock: Clock::new(), rows: Vec::new() };
    let done = staircase.steps();
    let rows = staircase.rows;
    match (done, map.failure()) {
        // Being full is not the error here.
        (Err(error), Some(Failure::Full(_))) => Err(error),
        (done, _) => explained(&map, setting, done.map(|()| rows)),
    }
}

impl<M: Map> Staircase<'_, M> {
    fn facts(&self) -> Result<Facts> {
        self.map.facts().context("a map that does not know how full it is")
    }

    /// Times `operation` on `words`, for a row of this step.
    fn time(
        &mut self,
        op: &str,
        step: u32,
        words: &[u64],
        operation: impl Fn(&M, u64) -> bool + Sync,
    ) -> Result<()> {
        let (map, threads) = (self.map, self.setting.threads);
        let operation = |word| operation(map, word);
        let (latencies, timing) =
            latencies::measure::<EVERY>(op, words, threads, &self.clock, operation)?;
        let facts = self.facts()?;
        let row = Row {
            pairs: Some(facts.pairs),
            load_factor: Some(facts.load_factor),
            level_pairs: Some(facts.level_pairs),
            cpu_share: timing.cpu_share,
            step: Some(step),
            ..self.setting.row("load-factor", op, self.name)
        };
        let ceiling = self.setting.ceilings.and_then(|ceilings| ceilings.of(self.setting.flushes));
        let row = latencies.on(row.with_rate(words.len() as f64 / timing.elapsed_s, ceiling));
        // There are too few samples for such rare events.
        self.rows.push(Row { p9999_ns: None, max_ns: None, ..row });
        Ok(())
    }

    /// Times the insertion of `words`. If the table refuses one, returns those that it has not taken, and adds no row.
    fn insert(&mut self, step: u32, words: &[u64]) -> Result<HashSet<u64>> {
        let is_full = AtomicBool::new(false);
        let refused = Mutex::new(HashSet::new());
        self.time("insert", step, words, |map, key| {
            if !is_full.load(Ordering::Relaxed) {
                if map.insert(key, Writer::Insert.value(key)) {
                    return true;
                }
                if !matches!(map.failure(), Some(Failure::Full(_))) {
                    return false;
                }
                is_full.store(true, Ordering::Relaxed);
            }
            refused.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
            true
        })?;
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !refused.is_empty() {
            self.rows.pop();
        }
        Ok(refused)
    }

    /// Adds row `full`, and looks at everything in the table: it took those of the first `begun` keys that are not
    /// among `refused`.
    fn full(&mut self, keys: Keys, begun: u64, refused: &HashSet<u64>) -> Result<()> {
        let (facts, taken) = (self.facts()?, begun - refused.len() as u64);
        refuse_growth(&facts)?;
        ensure!(
            facts.pairs == taken,
            "the full table holds {} pairs instead of {taken}",
            facts.pairs
        );
        for key in (0..begun).map(|number| keys.key(number)) {
            let expected = (!refused.contains(&key)).then(|| Writer::Insert.value(key));
            let found = self.map.get(key);
            ensure!(
                found == expected,
                "in the full table key {key:#x} holds {found:?} instead of {expected:?}"
            );
        }
        self.rows.push(Row {
            pairs: Some(facts.pairs),
            load_factor: Some(facts.load_factor),
            level_pairs: Some(facts.level_pairs),
            ..self.setting.row("load-factor", "full", self.name)
        });
        Ok(())
    }

    fn steps(&mut self) -> Result<()> {
        let (setting, capacity) = (self.setting, self.facts()?.capacity);
        let load_factor = setting.load_factor.unwrap_or(LOAD_FACTOR_DEFAULT);
        let pairs = (load_factor * capacity as f64) as u64;
        let keys = Keys::new(setting.seed, pairs);
        let gets = (setting.ops / GETS_PART).max(1);
        let steps = (load_factor / STEP).round().max(1.0) as u32;
        for step in 0..steps {
            let bound = |step| pairs * u64::from(step) / u64::from(steps);
            let (before, after) = (bound(step), bound(step + 1));
            let words: Vec<u64> = (before..after).map(|number| keys.key(number)).collect();
            let refused = self.insert(step, &words)?;
            if !refused.is_empty() {
                return self.full(keys, after, &refused);
            }
            if setting.flushes || after == 0 {
                continue;
            }
            let order = Keys::new(setting.seed, after).order(u64::from(step));
            let words: Vec<u64> =
                (0..gets.min(after)).map(|place| keys.key(order.apply(place))).collect();
            self.time("get_hit", step, &words, |map, key| {
                map.get(key) == Some(Writer::Insert.value(key))
            })?;
            let words: Vec<u64> = (0..gets.min(after)).map(|place| keys.absent(place)).collect();
            self.time("get_miss", step, &words, |map, key| map.get(key).is_none())?;
        }
        refuse_growth(&self.facts()?)?;
        check(self.map, keys)
    }
}

fn refuse_growth(facts: &Facts) -> Result<()> {
    ensure!(facts.resizes == 0, "the table was told not to grow, and grew");
    Ok(())
}
