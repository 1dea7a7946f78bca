//! What each operation costs the memory: lines, media blocks, flushes, fences.
//!
//! Medium `count` counts them, in one thread. A line counts once per operation (per batch, for the operations that take
//! many), however often it is touched. Figures are means per pair. What the media write comes from
//! [`pmem::medium::media_writes`], the model of a small write-combining buffer, over the whole run of an operation.

use super::micro::pairs_for;
use crate::filling::{explained, fill};
use crate::keys::{Keys, Writer};
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use pmem::medium::{Cost, measure, media_writes};

/// At most this many operations of each kind: means of counts settle soon.
const OPS_MAX: u64 = 1 << 18;

/// Orders of the keys, one per operation.
const HITS: u64 = 1;
const UPDATES: u64 = 2;
const UPSERTS: u64 = 3;
const REMOVALS: u64 = 4;

/// Does an operation on a key; returns whether the answer was right.
type Right<'a, M> = &'a dyn Fn(&M, u64) -> bool;

/// Counts what the operations of one map cost.
struct Tally<'a, M> {
    name: &'a str,
    map: &'a M,
    setting: &'a Setting,
    rows: Vec<Row>,
}

/// One round: single calls on one map, batches on another.
pub fn round<M: Map>(
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for is_batched in [false, true] {
        let map = open(setting)?;
        let pairs = pairs_for(&map, setting);
        let ops = setting.ops.min(pairs).min(OPS_MAX);
        let keys = Keys::new(setting.seed, pairs);
        let mut tally = Tally { name, map: &map, setting, rows: Vec::new() };
        let done = fill(&map, keys, 0..pairs - ops, 1).and_then(|()| {
            if is_batched { tally.batches(keys, ops) } else { tally.singles(keys, ops) }
        });
        rows.append(&mut tally.rows);
        explained(&map, setting, done)?;
    }
    Ok(rows)
}

impl<M: Map> Tally<'_, M> {
    /// Counts what `work` costs on each chunk of `batch` words. `work` returns the number of wrong answers.
    fn count(
        &mut self,
        op: &str,
        batch: Option<usize>,
        words: &[u64],
        mut work: impl FnMut(&M, &[u64]) -> u64,
    ) -> Result<()> {
        let map = self.map;
        let (mut total, mut wrong) = (Cost::default(), 0);
        let ((), media) = media_writes(|| {
            for words in words.chunks(batch.unwrap_or(1)) {
                let (chunk_wrong, cost) = measure(|| work(map, words));
                wrong += chunk_wrong;
                total += cost;
            }
        });
        crate::crew::refuse_wrong(op, wrong, words.len() as u64)?;
        let facts = map.facts();
        let row = Row {
            batch,
            pairs: facts.as_ref().map(|facts| facts.pairs),
            load_factor: facts.map(|facts| facts.load_factor),
            ..self.setting.row("writes", op, self.name)
        };
        self.rows.push(row.with_costs(words.len() as u64, total, media));
        Ok(())
    }

    fn singles(&mut self, keys: Keys, ops: u64) -> Result<()> {
        let stored = |salt| stored(keys, salt, ops);
        let added: Vec<u64> = (keys.count() - ops..keys.count()).map(|n| keys.key(n)).collect();
        let absent: Vec<u64> = (0..ops).map(|place| keys.absent(place)).collect();
        let steps: [(&str, Vec<u64>, Right<M>); 6] = [
            ("insert", added, &|map, key| map.insert(key, Writer::Insert.value(key))),
            ("get_hit", stored(HITS), &|map, key| map.get(key) == Some(Writer::Insert.value(key))),
            ("get_miss", absent, &|map, key| map.get(key).is_none()),
            ("update", stored(UPDATES), &|map, key| map.update(key, Writer::Update.value(key))),
            ("upsert", stored(UPSERTS), &|map, key| map.upsert(key, Writer::Upsert.value(key))),
            ("remove", stored(REMOVALS), &|map, key| map.remove(key)),
        ];
        for (op, words, right) in steps {
            self.count(op, None, &words, |map, words| {
                words.iter().filter(|&&key| !right(map, key)).count() as u64
            })?;
        }
        self.check(keys, ops)
    }

    fn batches(&mut self, keys: Keys, ops: u64) -> Result<()> {
        let batch = self.setting.batch;
        let mut out = vec![None; batch];
        let mut pairs = Vec::with_capacity(batch);
        let some = Some(batch);
        let added: Vec<u64> = (keys.count() - ops..keys.count()).map(|n| keys.key(n)).collect();
        self.count("insert_many", some, &added, |map, words| {
            pairs.clear();
            pairs.extend(words.iter().map(|&key| (key, Writer::Insert.value(key))));
            let out = &mut out[..words.len()];
            map.insert_many(&pairs, out);
            out.iter().filter(|found| found.is_some()).count() as u64
        })?;
        self.count("get_many_hit", some, &stored(keys, HITS, ops), |map, words| {
            let out = &mut out[..words.len()];
            map.get_many(words, out);
            differing(out, words, |key| Some(Writer::Insert.value(key)))
        })?;
        let absent: Vec<u64> = (0..ops).map(|place| keys.absent(place)).collect();
        self.count("get_many_miss", some, &absent, |map, words| {
            let out = &mut out[..words.len()];
            map.get_many(words, out);
            differing(out, words, |_| None)
        })?;
        self.count("update_many", some, &stored(keys, UPDATES, ops), |map, words| {
            pairs.clear();
            pairs.extend(words.iter().map(|&key| (key, Writer::Update.value(key))));
            let out = &mut out[..words.len()];
            map.update_many(&pairs, out);
            differing(out, words, |key| Some(Writer::Insert.value(key)))
        })?;
        self.count("remove_many", some, &stored(keys, REMOVALS, ops), |map, words| {
            let out = &mut out[..words.len()];
            map.remove_many(words, out);
            out.iter().filter(|found| found.is_none()).count() as u64
        })?;
        self.check(keys, ops)
    }

    /// Fails unless the removals have left what they should.
    fn check(&self, keys: Keys, ops: u64) -> Result<()> {
        let removed =
            stored(keys, REMOVALS, ops).into_iter().find(|&key| self.map.get(key).is_some());
        ensure!(removed.is_none(), "key {removed:x?} is there after its removal");
        if let Some(facts) = self.map.facts() {
            let (found, expected) = (facts.pairs, keys.count() - ops);
            ensure!(found == expected, "{found} pairs are left instead of {expected}");
        }
        Ok(())
    }
}

fn stored(keys: Keys, salt: u64, ops: u64) -> Vec<u64> {
    let order = keys.order(salt);
    (0..ops).map(|place| keys.key(order.apply(place))).collect()
}

/// The number of entries that are not as `expected`.
fn differing(out: &[Option<u64>], keys: &[u64], expected: impl Fn(u64) -> Option<u64>) -> u64 {
    keys.iter().zip(out).filter(|(key, found)| **found != expected(**key)).count() as u64
}
