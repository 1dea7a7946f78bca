//! Every operation by itself, on a table that was sized in advance.
//!
//! `insert` fills the empty table, except the first [`WARM_UP`] of the pairs, which touch its pages and have a separate
//! row (`warm_up`). The other operations run on the full table. Look-ups and changes go through the stored keys in
//! other orders than insertion did.

use crate::crew::{self, Timing};
use crate::filling::explained;
use crate::keys::{Keys, Writer};
use crate::map::{Batched, Map};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, bail, ensure};

/// Part of the pairs that are inserted before the clock of `insert` starts.
pub const WARM_UP: f64 = 0.05;
/// At most this many answers are looked at again after the clock has stopped.
const CHECKS_MAX: u64 = 1 << 20;

/// Orders of the keys, one per operation.
const HITS: u64 = 1;
const UPDATES: u64 = 2;
const UPSERTS: u64 = 3;
const REMOVALS: u64 = 4;

/// One map on trial: it is filled, and then each operation runs on the full map.
struct Trial<'a, M> {
    suite: &'static str,
    map: &'a M,
    name: &'a str,
    setting: &'a Setting,
    keys: Keys,
    pairs: u64,
    ops: u64,
    words: Vec<u64>,
    rows: Vec<Row>,
}

/// One round: single calls on one map, batches on another.
pub fn round<M: Map>(
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    round_of("micro", name, open, setting)
}

/// A round whose rows are of `suite`.
pub fn round_of<M: Map>(
    suite: &'static str,
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for is_batched in [false, true] {
        let map = open(setting)?;
        if is_batched && map.batched() == Batched::Nothing {
            continue;
        }
        let pairs = pairs_for(&map, setting);
        let ops = setting.ops.min(pairs);
        let mut trial = Trial {
            suite,
            map: &map,
            name,
            setting,
            keys: Keys::new(setting.seed, pairs),
            pairs,
            ops,
            words: Vec::new(),
            rows: Vec::new(),
        };
        let done = if is_batched { trial.batches() } else { trial.singles() };
        explained(&map, setting, done)?;
        rows.append(&mut trial.rows);
    }
    Ok(rows)
}

/// The pairs to store in a map: as many as asked for, or as many as fill it as far as asked for.
pub fn pairs_for<M: Map>(map: &M, setting: &Setting) -> u64 {
    let capacity = map.facts().map(|facts| facts.capacity);
    match (setting.load_factor, capacity) {
        (Some(load_factor), Some(capacity)) => (load_factor * capacity as f64) as u64,
        _ => setting.pairs,
    }
}

impl<M: Map> Trial<'_, M> {
    /// Times `work` over the words that `word` makes of the places in `range`.
    fn time(
        &mut self,
        op: &str,
        batch: Option<usize>,
        places: std::ops::Range<u64>,
        word: &dyn Fn(u64) -> u64,
        work: &(dyn Fn(&M, &[u64]) -> u64 + Sync),
    ) -> Result<Timing> {
        let count = places.end - places.start;
        self.words.clear();
        self.words.extend(places.map(word));
        let map = self.map;
        let timing = crew::check(op, &self.words, self.setting.threads, &|words| work(map, words))?;
        let facts = map.facts();
        let row = Row {
            batch,
            pairs: Some(facts.as_ref().map_or(self.pairs, |facts| facts.pairs)),
            load_factor: facts.map(|facts| facts.load_factor),
            cpu_share: timing.cpu_share,
            ..self.setting.row(self.suite, op, self.name)
        };
        let ceiling = self.setting.ceilings.and_then(|ceilings| ceilings.of(self.setting.flushes));
        self.rows.push(row.with_rate(count as f64 / timing.elapsed_s, ceiling));
        Ok(timing)
    }

    fn singles(&mut self) -> Result<()> {
        let (keys, ops, pairs) = (self.keys, self.ops, self.pairs);
        let insert =
            |map: &M, words: &[u64]| wrong(words, |key| map.insert(key, Writer::Insert.value(key)));
        let warm = (pairs as f64 * WARM_UP) as u64;
        self.time("warm_up", None, 0..warm, &|place| keys.key(place), &insert)?;
        self.time("insert", None, warm..pairs, &|place| keys.key(place), &insert)?;
        let stored = |salt| {
            let order = keys.order(salt);
            move |place| keys.key(order.apply(place))
        };
        if !self.setting.flushes {
            self.time("get_hit", None, 0..ops, &stored(HITS), &|map, words| {
                wrong(words, |key| map.get(key) == Some(Writer::Insert.value(key)))
            })?;
            self.time("get_miss", None, 0..ops, &|place| keys.absent(place), &|map, words| {
                wrong(words, |key| map.get(key).is_none())
            })?;
        }
        self.time("update", None, 0..ops, &stored(UPDATES), &|map, words| {
            wrong(words, |key| map.update(key, Writer::Update.value(key)))
        })?;
        self.time("upsert", None, 0..ops, &stored(UPSERTS), &|map, words| {
            wrong(words, |key| map.upsert(key, Writer::Upsert.value(key)))
        })?;
        self.time("remove", None, 0..ops, &stored(REMOVALS), &|map, words| {
            wrong(words, |key| map.remove(key))
        })?;
        self.check(&[(UPDATES, Writer::Update), (UPSERTS, Writer::Upsert)])
    }

    fn batches(&mut self) -> Result<()> {
        let (keys, ops, pairs, batch) = (self.keys, self.ops, self.pairs, self.setting.batch);
        let everything = self.map.batched() == Batched::Everything;
        let warm = (pairs as f64 * WARM_UP) as u64;
        let insert = move |map: &M, words: &[u64]| {
            if everything {
                let insert = |pairs: &[(u64, u64)], out: &mut [_]| map.insert_many(pairs, out);
                changed(words, batch, Writer::Insert, |_| None, insert)
            } else {
                wrong(words, |key| map.insert(key, Writer::Insert.value(key)))
            }
        };
        self.time("warm_up", Some(batch), 0..warm, &|place| keys.key(place), &insert)?;
        self.time("insert_many", Some(batch), warm..pairs, &|place| keys.key(place), &insert)?;
        // Rows of `warm_up` are those of single calls, and a map without the call has no row.
        self.rows.retain(|row| everything && !row.op.starts_with("warm_up"));
        let stored = |salt| {
            let order = keys.order(salt);
            move |place| keys.key(order.apply(place))
        };
        if !self.setting.flushes {
            self.time("get_many_hit", Some(batch), 0..ops, &stored(HITS), &move |map, words| {
                found(map, words, batch, |key| Some(Writer::Insert.value(key)))
            })?;
            let absent = |place| keys.absent(place);
            self.time("get_many_miss", Some(batch), 0..ops, &absent, &move |map, words| {
                found(map, words, batch, |_| None)
            })?;
        }
        if !everything {
            return Ok(());
        }
        self.time("update_many", Some(batch), 0..ops, &stored(UPDATES), &move |map, words| {
            changed(
                words,
                batch,
                Writer::Update,
                |key| Some(Writer::Insert.value(key)),
                |pairs, out| map.update_many(pairs, out),
            )
        })?;
        // Which of them were updated before depends on both orders, so only `check` looks at the answers.
        self.time("remove_many", Some(batch), 0..ops, &stored(REMOVALS), &move |map, words| {
            let mut out = vec![None; batch];
            let mut wrong = 0;
            for keys in words.chunks(batch) {
                let out = &mut out[..keys.len()];
                map.remove_many(keys, out);
                let is_wrong = |(key, found): &(&u64, &mut Option<u64>)| {
                    let values = [Writer::Insert, Writer::Update].map(|writer| writer.value(**key));
                    !found.is_some_and(|value| values.contains(&value))
                };
                wrong += keys.iter().zip(out.iter_mut()).filter(is_wrong).count();
            }
            wrong as u64
        })?;
        self.check(&[(UPDATES, Writer::Update)])
    }

    /// Looks up what the operations should have left, off the clock: `writers` in their order, then the removals.
    fn check(&self, writers: &[(u64, Writer)]) -> Result<()> {
        let mut left = vec![Some(Writer::Insert); self.pairs as usize];
        let writers = writers.iter().map(|&(salt, writer)| (salt, Some(writer)));
        for (salt, writer) in writers.chain([(REMOVALS, None)]) {
            let order = self.keys.order(salt);
            for place in 0..self.ops {
                left[order.apply(place) as usize] = writer;
            }
        }
        let step = self.pairs.div_ceil(CHECKS_MAX).max(1) as usize;
        for (number, writer) in (0..).zip(&left).step_by(step) {
            let key = self.keys.key(number);
            let (found, expected) = (self.map.get(key), writer.map(|writer| writer.value(key)));
            ensure!(found == expected, "key {key:#x} holds {found:?} instead of {expected:?}");
        }
        let Some(facts) = self.map.facts() else { return Ok(()) };
        let expected = self.pairs - self.ops;
        if facts.pairs != expected {
            bail!("{} pairs are left instead of {expected}", facts.pairs);
        }
        ensure!(facts.resizes == 0, "the table was sized in advance and grew all the same");
        Ok(())
    }
}

/// The number of keys that are not `right`.
#[inline(always)]
fn wrong(keys: &[u64], right: impl Fn(u64) -> bool) -> u64 {
    keys.iter().map(|&key| u64::from(!right(key))).sum()
}

/// Looks keys up in batches; returns the number of wrong answers.
#[inline(always)]
fn found<M: Map>(map: &M, words: &[u64], batch: usize, right: impl Fn(u64) -> Option<u64>) -> u64 {
    let mut out = vec![None; batch];
    let mut wrong = 0;
    for keys in words.chunks(batch) {
        let out = &mut out[..keys.len()];
        map.get_many(keys, out);
        wrong += keys.iter().zip(out).filter(|(key, found)| **found != right(**key)).count();
    }
    wrong as u64
}

/// Changes keys in batches; returns the number of wrong answers.
#[inline(always)]
fn changed(
    words: &[u64],
    batch: usize,
    writer: Writer,
    before: impl Fn(u64) -> Option<u64>,
    change: impl Fn(&[(u64, u64)], &mut [Option<u64>]),
) -> u64 {
    let mut pairs = Vec::with_capacity(batch);
    let mut out = vec![None; batch];
    let mut wrong = 0;
    for keys in words.chunks(batch) {
        pairs.clear();
        pairs.extend(keys.iter().map(|&key| (key, writer.value(key))));
        let out = &mut out[..keys.len()];
        change(&pairs, out);
        wrong += keys.iter().zip(out).filter(|(key, found)| **found != before(**key)).count();
    }
    wrong as u64
}
