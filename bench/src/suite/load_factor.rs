//! How an engine fares as it fills up, when it may not grow.
//!
//! The table is filled in steps of [`STEP`] of its capacity. At each step: `insert`, the step's
//! insertions; `get_hit` and `get_miss` at the fill that they led to, a sixteenth of the run's
//! operations each. Every 16th operation is timed, so that the rates remain those of operations
//! that overlap.

use crate::contender::Setting;
use crate::filling::{check, explained};
use crate::keys::{Keys, Writer};
use crate::latencies;
use crate::map::{Facts, Map};
use crate::row::Row;
use anyhow::{Context, Result, ensure};
use quanta::Clock;

/// Part of the capacity that each step fills.
pub const STEP: f64 = 0.05;
/// How full the table becomes if nothing is said.
pub const LOAD_FACTOR_DEFAULT: f64 = 0.95;
/// One operation in so many is timed.
const EVERY: usize = 16;
/// Look-ups at each step, as a part of the run's operations.
const GETS_PART: u64 = 16;

struct Session<'a, M> {
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
    let mut session = Session { name, map: &map, setting, clock: Clock::new(), rows: Vec::new() };
    let done = session.steps();
    let rows = session.rows;
    explained(&map, done.map(|()| rows))
}

impl<M: Map> Session<'_, M> {
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
        // So few samples say nothing about what is this seldom.
        self.rows.push(Row { p9999_ns: None, max_ns: None, ..row });
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
            self.time("insert", step, &words, |map, key| {
                map.insert(key, Writer::Insert.value(key))
            })?;
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
        ensure!(self.facts()?.resizes == 0, "the table was told not to grow, and grew");
        check(self.map, keys)
    }
}
