//! Lines, blocks, flushes and fences of an operation, on medium `count`.
//!
//! A table is filled in steps of 5 % up to a load factor of 0.8. At each step some pairs are updated, some are removed
//! (and inserted again, uncounted), some are looked up, and so are some absent keys. Rows are means over all load
//! factors up to 0.6 (`insert_to_60`) and up to 0.8 (`insert_to_80`). Blocks are those that Optane's buffer lets
//! through ([`pmem::medium::media_writes`]). There is no cached table, so `lines_read` is what a miss of the cached
//! table reads.
//!
//! Then the table is doubled, for the costs per pair.

use super::NAME;
use super::bands::{BANDS_PERCENT, Bands};
use crate::crew::refuse_wrong;
use crate::keys::Keys;
use crate::paper::bytes::{Bytes, OfWord};
use crate::paper::table;
use crate::pool::{Laboratory, NEVER, counted_memory, without_facade};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use engines::Settings;
use engines::rewo::{self, Cached, Design, RewoHash, Shape};
use index::{Fixed, is_same_state};
use pmem::Medium;
use pmem::medium::{Cost, measure, media_writes};
use std::fmt::Debug;
use std::sync::Arc;

/// Bytes of the paper's keys and values.
pub(super) const KEY_BYTES: usize = 16;
pub(super) const VALUE_BYTES: usize = 15;
/// At most this many pairs in a table whose costs are counted: they do not depend on its size.
const PAIRS_MAX: u64 = 1 << 18;
/// At most this many operations of a kind at each step.
const OPS_MAX: u64 = 1 << 13;
/// Percentage of the slots that a step fills.
const STEP_PERCENT: u64 = 5;

/// A table of Rewo-Hash that grows only when it is told to.
pub(super) type Table<M, K, V> = table::Table<M, RewoHash<M, K, V>, K, V>;

/// The largest empty table of this shape that `pairs` pairs fill to at least 0.8; if there is none, the smallest.
pub(super) fn table<M: Medium, K: Fixed + Debug, V: Fixed + Debug>(
    medium: M,
    shape: Shape,
    pairs: u64,
    seed: u64,
) -> Result<Table<M, K, V>> {
    let mut shape = Shape { initial_log2: 0, ..shape };
    while (u64::from(shape.slots) << (shape.initial_log2 + 1)) * 8 <= pairs * 10 {
        shape.initial_log2 += 1;
    }
    let engine = (rewo::ENGINE_ID, rewo::engine_params(&shape));
    let pool = without_facade(medium, engine, (K::BYTES, V::BYTES), seed)?;
    let settings = Settings { resize_at: NEVER, helpers: 0, ..Settings::default() };
    let index = RewoHash::open(Arc::clone(&pool), settings)?;
    Ok(Table::of(index, pool))
}

/// The pair of a number, as it is inserted.
pub(super) fn pair<K: OfWord, V: OfWord>(keys: Keys, number: u64) -> (K, V) {
    let word = keys.key(number);
    (K::of_word(word), first_value(word))
}

fn first_value<V: OfWord>(word: u64) -> V {
    V::of_word(!word)
}

pub(super) fn rows(setting: &Setting) -> Result<Vec<Row>> {
    let copied = Design { in_place_update: false, ..Design::default() };
    let mut rows = of::<u64, u64>("rewo-15-slots", Design::default(), setting)?;
    rows.extend(of::<u64, u64>("rewo-15-slots-copied", copied, setting)?);
    rows.extend(of::<Bytes<KEY_BYTES>, Bytes<VALUE_BYTES>>("rewo-8-slots", copied, setting)?);
    Ok(rows)
}

/// One table whose costs are counted.
struct Counted<K: Fixed, V: Fixed> {
    table: Table<Laboratory, K, V>,
    keys: Keys,
    /// It has this many keys: the first ones.
    pairs: u64,
    percent: u64,
}

fn of<K: OfWord, V: OfWord>(name: &str, design: Design, setting: &Setting) -> Result<Vec<Row>> {
    let pair_bytes = (K::BYTES + V::BYTES) as u64;
    let shape = Shape { cached: Cached::Nothing, design, ..Shape::for_pair_bytes(pair_bytes) };
    let pairs = setting.pairs.min(PAIRS_MAX);
    let table = table(counted_memory()?, shape, pairs, setting.seed)?;
    let keys = Keys::new(setting.seed, table.capacity());
    let mut counted = Counted::<K, V> { table, keys, pairs: 0, percent: 0 };
    let [mut inserts, mut updates, mut removes, mut hits, mut misses] = [Bands::default(); 5];
    let [.., last] = BANDS_PERCENT;
    while counted.percent < last {
        counted.percent += STEP_PERCENT;
        let target = keys.count() * counted.percent / 100;
        let added: Vec<u64> = (counted.pairs..target).map(|number| keys.key(number)).collect();
        counted.pairs = target;
        counted.count("insert", &mut inserts, &added, |table, word| {
            matches!(table.insert(K::of_word(word), first_value(word)), Ok(true))
        })?;
        let some = |salt| -> Vec<u64> {
            let order = Keys::new(setting.seed, target).order(salt);
            let ops = target.min(OPS_MAX).min(setting.ops);
            (0..ops).map(|place| keys.key(order.apply(place))).collect()
        };
        let holds = |table: &Table<_, K, V>, word: u64, value| {
            is_same_state(table.get(K::of_word(word)), value)
        };
        let words = some(1);
        counted.count("get_hit", &mut hits, &words, |table, word| {
            holds(table, word, Some(first_value(word)))
        })?;
        let absent: Vec<u64> = (0..words.len() as u64).map(|place| keys.absent(place)).collect();
        counted.count("get_miss", &mut misses, &absent, |table, word| holds(table, word, None))?;
        let words = some(2);
        let updated = |word: u64| V::of_word(word.rotate_left(8));
        counted.count("update", &mut updates, &words, |table, word| {
            table.update(K::of_word(word), updated(word))
        })?;
        for &word in &words {
            let is_new = holds(&counted.table, word, Some(updated(word)));
            let is_back = counted.table.update(K::of_word(word), first_value(word));
            ensure!(is_new && is_back, "{name}: key {word:#x} is not updated");
        }
        let words = some(3);
        counted
            .count("remove", &mut removes, &words, |table, word| table.remove(K::of_word(word)))?;
        for &word in &words {
            let is_gone = holds(&counted.table, word, None);
            let is_back = counted.table.insert(K::of_word(word), first_value(word))?;
            ensure!(is_gone && is_back, "{name}: key {word:#x} is not removed");
        }
    }
    counted.table.check(counted.pairs, |number| pair(keys, number))?;
    let pairs = counted.pairs;
    let row = |op: &str| Row {
        medium: Some("count".into()),
        pairs: Some(pairs),
        ..setting.row(NAME, op, name)
    };
    let mut rows: Vec<Row> = [
        ("insert", inserts),
        ("update", updates),
        ("remove", removes),
        ("get_hit", hits),
        ("get_miss", misses),
    ]
    .iter()
    .flat_map(|(op, bands)| bands.rows(&row(op)))
    .collect();
    rows.push(counted.double(row("double"))?);
    Ok(rows)
}

impl<K: OfWord, V: OfWord> Counted<K, V> {
    /// Counts what `operation` costs on each of the words. `operation` returns whether the answer was right.
    fn count(
        &self,
        op: &str,
        bands: &mut Bands,
        words: &[u64],
        operation: impl Fn(&Table<Laboratory, K, V>, u64) -> bool,
    ) -> Result<()> {
        let (mut total, mut wrong) = (Cost::default(), 0);
        let ((), media) = media_writes(|| {
            for &word in words {
                let (is_right, cost) = measure(|| operation(&self.table, word));
                wrong += u64::from(!is_right);
                total += cost;
            }
        });
        refuse_wrong(op, wrong, words.len() as u64)?;
        bands.add(self.percent, words.len(), total, media);
        Ok(())
    }

    /// Doubles the table; returns costs per pair.
    fn double(self, row: Row) -> Result<Row> {
        let Counted { table, keys, pairs, .. } = self;
        let slots = table.capacity();
        let ((doubled, cost), media) = media_writes(|| {
            measure(|| {
                let _write = table.pool.write()?;
                anyhow::Ok(table.index.extend()?)
            })
        });
        doubled?;
        let doubled_slots = table.capacity();
        ensure!(doubled_slots == 2 * slots, "{slots} slots were doubled to {doubled_slots}");
        table.check(pairs, |number| pair(keys, number))?;
        let row = Row { load_factor: Some(pairs as f64 / slots as f64), ..row };
        Ok(row.with_costs(pairs, cost, media))
    }
}
