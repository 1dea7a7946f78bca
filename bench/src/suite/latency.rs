//! How long each operation takes, up to the slowest.
//!
//! Every operation is timed by itself, so its rate includes the clock; row `clock` tells what timing nothing costs.
//! `insert` fills the table, except the first [`WARM_UP`] of the pairs. The other operations run on the full table.

use super::micro::{WARM_UP, pairs_for};
use crate::filling::{check, explained, fill};
use crate::keys::{Keys, Writer};
use crate::latencies;
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use quanta::Clock;
use std::hint::black_box;

/// Orders of the keys, one per operation.
const HITS: u64 = 1;
const UPDATES: u64 = 2;
const REMOVALS: u64 = 3;

/// Times the operations of one map, one by one.
struct Timekeeper<'a, M> {
    name: &'a str,
    map: &'a M,
    setting: &'a Setting,
    pairs: u64,
    clock: Clock,
    rows: Vec<Row>,
}

/// One round on one map.
pub fn round<M: Map>(
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let map = open(setting)?;
    let mut timekeeper = Timekeeper {
        name,
        map: &map,
        setting,
        pairs: pairs_for(&map, setting),
        clock: Clock::new(),
        rows: Vec::new(),
    };
    let done = timekeeper.operations();
    let rows = timekeeper.rows;
    explained(&map, setting, done.map(|()| rows))
}

impl<M: Map> Timekeeper<'_, M> {
    /// Times each operation on `words`.
    fn time(
        &mut self,
        op: &str,
        words: &[u64],
        operation: impl Fn(&M, u64) -> bool + Sync,
    ) -> Result<()> {
        let (map, threads) = (self.map, self.setting.threads);
        let operation = |word| operation(map, word);
        let (latencies, timing) =
            latencies::measure::<1>(op, words, threads, &self.clock, operation)?;
        let facts = map.facts();
        let row = Row {
            pairs: Some(facts.as_ref().map_or(self.pairs, |facts| facts.pairs)),
            load_factor: facts.map(|facts| facts.load_factor),
            cpu_share: timing.cpu_share,
            ..self.setting.row("latency", op, self.name)
        };
        self.rows.push(latencies.on(row.with_rate(words.len() as f64 / timing.elapsed_s, None)));
        Ok(())
    }

    fn operations(&mut self) -> Result<()> {
        let (map, setting, pairs) = (self.map, self.setting, self.pairs);
        let ops = setting.ops.min(pairs);
        let keys = Keys::new(setting.seed, pairs);
        let stored = |salt| -> Vec<u64> {
            let order = keys.order(salt);
            (0..ops).map(|place| keys.key(order.apply(place))).collect()
        };

        let warm = (pairs as f64 * WARM_UP) as u64;
        fill(map, keys, 0..warm, setting.threads)?;
        let words: Vec<u64> = (warm..pairs).map(|number| keys.key(number)).collect();
        self.time("insert", &words, |map, key| map.insert(key, Writer::Insert.value(key)))?;
        check(map, keys)?;

        if !setting.flushes {
            let words = stored(HITS);
            self.time("clock", &words, |_, key| black_box(key) == key)?;
            self.time("get_hit", &words, |map, key| {
                map.get(key) == Some(Writer::Insert.value(key))
            })?;
            let words: Vec<u64> = (0..ops).map(|place| keys.absent(place)).collect();
            self.time("get_miss", &words, |map, key| map.get(key).is_none())?;
        }

        let words = stored(UPDATES);
        self.time("update", &words, |map, key| map.update(key, Writer::Update.value(key)))?;
        let lost = words.iter().find(|&&key| map.get(key) != Some(Writer::Update.value(key)));
        ensure!(lost.is_none(), "key {lost:x?} has lost its update");

        let words = stored(REMOVALS);
        self.time("remove", &words, |map, key| map.remove(key))?;
        let left = words.iter().find(|&&key| map.get(key).is_some());
        ensure!(left.is_none(), "key {left:x?} is there after its removal");
        Ok(())
    }
}
