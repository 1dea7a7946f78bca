//! Figure 12: updates at growing load factors, with real flushes.
//!
//! Three tables have keys of 16 bytes. Two have values of 15 bytes: updates of one use an empty slot of the bucket if
//! there is one (`log-free`), updates of the other always write a log entry (`logged`). The third has words as values,
//! which updates overwrite (`in-place`). At each load factor the tables take turns with the same keys. No key is
//! updated twice.

use super::NAME;
use super::table::{Table, shape_within};
use crate::crew::{self, Timing};
use crate::keys::Keys;
use crate::paper::bytes::{Bytes, OfWord};
use crate::paper::turns::{OPS_PART, Turns};
use crate::pool::flushed_memory;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use engines::level::{Design, Shape};
use pmem::medium::Memory;

/// Load factors of the updates, in tenths.
const LOAD_TENTHS: std::ops::RangeInclusive<u64> = 1..=9;
/// The last of them.
const LOAD_FACTOR_MAX: f64 = 0.9;
/// Slices of the updates, between which the tables take turns.
const SLICES: usize = 6;

type Key = Bytes<16>;

/// A table that is updated, for any type of values.
trait Updated {
    /// Inserts the keys of these numbers with their first values until one is refused; returns the number at which it
    /// stopped.
    fn fill(&self, keys: Keys, numbers: std::ops::Range<u64>) -> Result<u64>;

    /// Gives `words`, which stand for keys, the values of `generation`, on the clock.
    fn update(&self, words: &[u64], generation: u8, threads: usize) -> Result<Timing>;

    /// Fails unless the table has exactly the first keys, with values of these generations.
    fn check(&self, keys: Keys, generations: &[u8]) -> Result<()>;

    fn capacity(&self) -> u64;
}

/// The word that stands for the value of a key in a generation.
fn value(word: u64, generation: u8) -> u64 {
    !word.rotate_left(8).wrapping_add(u64::from(generation))
}

impl<V: OfWord> Updated for Table<Memory, Key, V> {
    fn fill(&self, keys: Keys, numbers: std::ops::Range<u64>) -> Result<u64> {
        Table::fill(self, numbers, |number| {
            let word = keys.key(number);
            (Key::of_word(word), V::of_word(value(word, 0)))
        })
    }

    fn update(&self, words: &[u64], generation: u8, threads: usize) -> Result<Timing> {
        let pair = |&word: &u64| (Key::of_word(word), V::of_word(value(word, generation)));
        let pairs: Vec<(Key, V)> = words.iter().map(pair).collect();
        crew::check("update", &pairs, threads, &|pairs| {
            pairs.iter().filter(|(key, value)| !Table::update(self, *key, *value)).count() as u64
        })
    }

    fn check(&self, keys: Keys, generations: &[u8]) -> Result<()> {
        Table::check(self, generations.len() as u64, |number| {
            let word = keys.key(number);
            (Key::of_word(word), V::of_word(value(word, generations[number as usize])))
        })
    }

    fn capacity(&self) -> u64 {
        Table::capacity(self)
    }
}

fn table<V: OfWord + 'static>(design: Design, setting: &Setting) -> Result<Box<dyn Updated>> {
    let shape = Shape { design, ..Shape::default() };
    let shape = shape_within(shape, setting.pairs, LOAD_FACTOR_MAX);
    Ok(Box::new(Table::<_, Key, V>::new(flushed_memory(true)?, shape, setting.seed)?))
}

pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    let all = Design::default();
    let log_free = Design { in_place_update: false, ..all };
    let logged = Design { log_free_update: false, ..log_free };
    let tables = [
        ("log-free", table::<Bytes<15>>(log_free, setting)?),
        ("logged", table::<Bytes<15>>(logged, setting)?),
        ("in-place", table::<u64>(all, setting)?),
    ];
    let capacity = tables[0].1.capacity();
    let is_as_large = tables.iter().all(|(_, table)| table.capacity() == capacity);
    ensure!(is_as_large, "the tables differ in size");
    let keys = Keys::new(setting.seed, capacity);
    let mut generations: Vec<u8> = Vec::new();
    let mut rows = Vec::new();
    'steps: for tenths in LOAD_TENTHS {
        let before = generations.len() as u64;
        let count = capacity * tenths / 10;
        for (_, table) in &tables {
            // Small tables may be full earlier.
            if table.fill(keys, before..count)? < count {
                break 'steps;
            }
        }
        generations.resize(count as usize, 0);
        let generation = tenths as u8;
        let order = Keys::new(setting.seed, count).order(tenths);
        let ops = (setting.ops / OPS_PART).max(1).min(count);
        let numbers: Vec<u64> = (0..ops).map(|place| order.apply(place)).collect();
        let words: Vec<u64> = numbers.iter().map(|&number| keys.key(number)).collect();
        let mut turns = [Turns::default(); 3];
        for (slice, words) in words.chunks(words.len().div_ceil(SLICES).max(1)).enumerate() {
            for turn in 0..tables.len() {
                let which = (slice + turn) % tables.len();
                let timing = tables[which].1.update(words, generation, setting.threads)?;
                turns[which].add(words.len(), timing);
            }
        }
        numbers.iter().for_each(|&number| generations[number as usize] = generation);
        for ((variant, table), turns) in tables.iter().zip(&turns) {
            let contender = format!("{name}-{variant}");
            table.check(keys, &generations).with_context(|| format!("updating {contender}"))?;
            let row = Row {
                pairs: Some(count),
                load_factor: Some(count as f64 / capacity as f64),
                step: Some(tenths as u32 - 1),
                ..setting.row(NAME, "update", &contender)
            };
            rows.push(turns.on(row));
        }
    }
    Ok(rows)
}
