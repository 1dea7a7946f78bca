//! Figure 5: searches before and after expansions, in the order of the levels and in the fuller level first.
//!
//! Three tables of the same pairs grow from a 64th of the pairs through six expansions at [`EXPAND_AT`]. Two are
//! searched as in the paper, bucket by bucket: one in the order of the levels (static), one in the fuller level first
//! (dynamic). The third uses the engine's fingerprints. At load factors a tenth apart, all are searched in turns for
//! the same keys, present and absent ones. If there are fewer keys than searches, the keys are used again.
//!
//! The same is repeated on medium `count`, with fewer pairs, for the lines of the pool that a search reads.

use super::NAME;
use super::table::{EXPAND_AT, Table, shape_within};
use crate::crew::{self, Timing};
use crate::keys::{Keys, Writer};
use crate::paper::turns::{OPS_PART, Turns};
use crate::pool::{counted_memory, memory};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use engines::level::{Design, Shape};
use pmem::Medium;
use pmem::medium::measure;

const EXPANSIONS: u32 = 6;
/// Load factors of the searches, in hundredths. None is directly after an expansion, since a table learns during
/// insertions which level is the fuller one.
const LOAD_PERCENTS: [u64; 9] = [5, 15, 25, 35, 45, 55, 65, 75, 85];
/// Slices of the searches, between which the tables take turns.
const SLICES: usize = 4;
/// At most this many pairs in a table whose lines are counted: the count does not depend on the table's size.
const COUNTED_PAIRS_MAX: u64 = 1 << 18;
/// At most this many searches whose lines are counted.
const COUNTED_OPS_MAX: u64 = 1 << 14;

/// Tables that are compared.
const TABLES: usize = 3;

struct Searched<M: Medium> {
    contender: String,
    table: Table<M>,
}

/// Searches for these keys, which are present or not.
type Search<M> = fn(&Table<M>, words: &[u64], is_hit: bool, threads: usize) -> Result<Slice>;

/// The cost of a slice of searches.
#[derive(Debug, Clone, Copy)]
enum Slice {
    Timed(Timing),
    /// Lines of the pool that were read.
    Counted(u64),
}

/// Tables that hold the same pairs and are searched in turns.
struct Comparison<'a, M: Medium> {
    setting: &'a Setting,
    keys: Keys,
    searched: [Searched<M>; TABLES],
    search: Search<M>,
    count: u64,
    rows: Vec<Row>,
    step: u32,
}

/// Searches on the clock.
pub(super) fn timed(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    rows(name, setting, memory, |table, words, is_hit, threads| {
        let timing = crew::check(op(is_hit), words, threads, &|words| wrong(table, words, is_hit))?;
        Ok(Slice::Timed(timing))
    })
}

/// Counts the lines read.
pub(super) fn counted(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    let fewer = Setting {
        pairs: setting.pairs.min(COUNTED_PAIRS_MAX),
        ops: setting.ops.min(COUNTED_OPS_MAX * OPS_PART),
        ..setting.clone()
    };
    let mut rows = rows(name, &fewer, counted_memory, |table, words, is_hit, _| {
        let search = |word: &u64| measure(|| wrong(table, &[*word], is_hit));
        let (wrong, lines) = words
            .iter()
            .map(search)
            .fold((0, 0), |sum, (wrong, cost)| (sum.0 + wrong, sum.1 + cost.lines_read));
        crew::refuse_wrong(op(is_hit), wrong, words.len() as u64)?;
        Ok(Slice::Counted(lines))
    })?;
    rows.iter_mut().for_each(|row| row.medium = Some("count".into()));
    Ok(rows)
}

fn rows<M: Medium>(
    name: &str,
    setting: &Setting,
    memory: impl Fn() -> Result<M>,
    search: Search<M>,
) -> Result<Vec<Row>> {
    let shape = shape_within(Shape::default(), setting.pairs >> EXPANSIONS, EXPAND_AT);
    let searched = |variant: &str, fingerprints, dynamic_search| -> Result<Searched<M>> {
        let design = Design { fingerprints, dynamic_search, ..Design::default() };
        let table = Table::new(memory()?, Shape { design, ..shape }, setting.seed)?;
        Ok(Searched { contender: format!("{name}-{variant}"), table })
    };
    let mut comparison = Comparison {
        setting,
        keys: Keys::new(setting.seed, setting.pairs),
        searched: [
            searched("static", false, false)?,
            searched("dynamic", false, true)?,
            searched("fingerprints", true, true)?,
        ],
        search,
        count: 0,
        rows: Vec::new(),
        step: 0,
    };
    for expansions in 0..=EXPANSIONS {
        comparison.between_expansions(expansions)?;
        if expansions < EXPANSIONS {
            comparison.searched.iter().try_for_each(|searched| searched.table.expand())?;
        }
    }
    for Searched { table, .. } in &comparison.searched {
        table.check(comparison.count, |number| pair(comparison.keys, number))?;
    }
    Ok(comparison.rows)
}

fn pair(keys: Keys, number: u64) -> (u64, u64) {
    let key = keys.key(number);
    (key, Writer::Insert.value(key))
}

impl<M: Medium> Comparison<'_, M> {
    /// Fills all tables up to [`EXPAND_AT`], or until they are full; small ones may be full earlier.
    fn between_expansions(&mut self, expansions: u32) -> Result<()> {
        let capacity = self.searched[0].table.capacity();
        let is_as_large = |searched: &Searched<M>| searched.table.capacity() == capacity;
        ensure!(self.searched.iter().all(is_as_large), "the tables expanded at different times");
        for percent in LOAD_PERCENTS {
            let target = capacity * percent / 100;
            if target <= self.count {
                continue;
            }
            let (keys, numbers) = (self.keys, self.count..target);
            let [first, others @ ..] = &self.searched;
            // One thread: only a thread that inserts often finds out which level is fuller.
            let reached = first.table.fill(numbers.clone(), |number| pair(keys, number))?;
            for other in others {
                let numbers = numbers.start..reached;
                let also = other.table.fill(numbers, |number| pair(keys, number))?;
                ensure!(reached == also, "the order of searches made another pair be refused");
            }
            self.count = reached;
            if reached < target {
                return Ok(());
            }
            self.search(true, expansions, capacity)?;
            self.search(false, expansions, capacity)?;
            self.step += 1;
        }
        Ok(())
    }

    /// Adds a row for each of the tables.
    fn search(&mut self, is_hit: bool, expansions: u32, capacity: u64) -> Result<()> {
        let (setting, keys, count) = (self.setting, self.keys, self.count);
        let ops = (setting.ops / OPS_PART).max(1);
        let order = Keys::new(setting.seed, count).order(u64::from(self.step));
        let words: Vec<u64> = if is_hit {
            (0..ops).map(|place| keys.key(order.apply(place % count))).collect()
        } else {
            (0..ops).map(|place| keys.absent(place)).collect()
        };
        let mut turns = [Turns::default(); TABLES];
        let mut lines = [None; TABLES];
        for (slice, words) in words.chunks(words.len().div_ceil(SLICES)).enumerate() {
            // Each slice begins with another table.
            for turn in 0..TABLES {
                let which = (slice + turn) % TABLES;
                let table = &self.searched[which].table;
                match (self.search)(table, words, is_hit, setting.threads)? {
                    Slice::Timed(timing) => turns[which].add(words.len(), timing),
                    Slice::Counted(read) => *lines[which].get_or_insert(0) += read,
                }
            }
        }
        for (which, Searched { contender, .. }) in self.searched.iter().enumerate() {
            let row = Row {
                pairs: Some(count),
                load_factor: Some(count as f64 / capacity as f64),
                expansions: Some(expansions),
                step: Some(self.step),
                lines_read: lines[which].map(|lines: u64| lines as f64 / words.len() as f64),
                ..setting.row(NAME, op(is_hit), contender)
            };
            self.rows.push(if row.lines_read.is_some() { row } else { turns[which].on(row) });
        }
        Ok(())
    }
}

fn op(is_hit: bool) -> &'static str {
    if is_hit { "get_hit" } else { "get_miss" }
}

/// The number of wrong answers.
#[inline(always)]
fn wrong<M: Medium>(table: &Table<M>, keys: &[u64], is_hit: bool) -> u64 {
    let is_wrong = |key: &&u64| table.get(**key) != is_hit.then(|| Writer::Insert.value(**key));
    keys.iter().filter(is_wrong).count() as u64
}
