//! Figure 15: expanding and shrinking in place, and into a new table.
//!
//! A table is filled to a load factor of [`EXPAND_AT`]. `expand_full_rehash` makes an empty table of twice the size in
//! a new pool, with the same hash functions, and inserts every pair of the old one, in the order of the old one's
//! buckets. The old one stays as it was. Then `expand_in_place` is [`engines::level::LevelHashing::expand`] of the old
//! one: it adds a new top level, inserts the pairs of the bottom level above, and deletes them below. Another table is
//! filled as far, and random pairs are removed down to a load factor of [`SHRINK_AT`]; `shrink_full_rehash` and
//! `shrink_in_place` do the same with half the size. Cuckoo hashing, PFHT and path hashing have full
//! rehashes only, without a log.
//!
//! One thread does everything, and all touch the pages of their new buckets for the first time. Rates are in pairs of
//! the whole table. The ceiling of one is the other, so its ratio is how many times as fast it is.

use super::table::{EXPAND_AT, Table, shape_within};
use super::{BCH, NAME, PATH, PFHT, PFHT_SLOTS};
use crate::crew;
use crate::keys::{Keys, Writer};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use baselines::{Kind, create_unlogged};
use engines::level::Shape;
use index::{Index, Shrunk};
use pmem::Medium;
use std::sync::Arc;

/// Load factor at which tables shrink.
const SHRINK_AT: f64 = 0.3;

pub(super) fn rows<M: Medium>(
    name: &str,
    setting: &Setting,
    memory: impl Fn() -> Result<M> + Sync,
) -> Result<Vec<Row>> {
    let mut rows = of_level(name, setting, &memory)?;
    for (name, kind) in [(BCH, Kind::Cuckoo24), (PFHT, Kind::Pfht), (PATH, Kind::Path)] {
        rows.extend(of_classic(name, kind, setting, &memory)?);
    }
    Ok(rows)
}

/// A table of random pairs, of which some go.
struct Filled {
    keys: Keys,
    count: u64,
    load_factor: f64,
}

impl Filled {
    fn pair(&self, number: u64) -> (u64, u64) {
        let key = self.keys.key(number);
        (key, Writer::Insert.value(key))
    }

    fn row(
        &self,
        op: &str,
        name: &str,
        setting: &Setting,
        timing: crew::Timing,
        ceiling: Option<f64>,
    ) -> Row {
        let row = Row {
            pairs: Some(self.count),
            load_factor: Some(self.load_factor),
            took_s: Some(timing.elapsed_s),
            cpu_share: timing.cpu_share,
            ..setting.row(NAME, op, name)
        };
        row.with_rate(self.count as f64 / timing.elapsed_s, ceiling)
    }
}

fn of_level<M: Medium>(
    name: &str,
    setting: &Setting,
    memory: &(impl Fn() -> Result<M> + Sync),
) -> Result<Vec<Row>> {
    let shape = shape_within(Shape::default(), setting.pairs, EXPAND_AT);
    let table: Table<M> = Table::new(memory()?, shape, setting.seed)?;
    let slots = table.capacity();
    let mut filled = Filled {
        keys: Keys::new(setting.seed, setting.pairs),
        count: (EXPAND_AT * slots as f64) as u64,
        load_factor: EXPAND_AT,
    };
    filled.count = table.fill(0..filled.count, |number| filled.pair(number))?;

    let twice = Shape { initial_log2: shape.initial_log2 + 1, ..shape };
    let (larger, timing) = rehashed(&table, twice, setting, memory)?;
    larger.check(filled.count, |number| filled.pair(number)).context("after a full rehash")?;
    drop(larger);
    let full_rehash = filled.row("expand_full_rehash", name, setting, timing, None);

    let ((), timing) = timed(|| table.expand())?;
    let expanded = table.capacity();
    ensure!(expanded == 2 * slots, "a table of {slots} slots was expanded to {expanded}");
    table
        .check(filled.count, |number| filled.pair(number))
        .context("after an expansion in place")?;
    let in_place = filled.row("expand_in_place", name, setting, timing, full_rehash.ops_per_s);

    drop(table);
    let mut rows = vec![full_rehash, in_place];
    rows.extend(shrunk(name, shape, setting, memory)?);
    Ok(rows)
}

/// A table that was filled to [`EXPAND_AT`], and from which random pairs were removed.
fn shrunk<M: Medium>(
    name: &str,
    shape: Shape,
    setting: &Setting,
    memory: &(impl Fn() -> Result<M> + Sync),
) -> Result<Vec<Row>> {
    // A table does not shrink below the size that it began with, so it is expanded while it is empty.
    let half = Shape { initial_log2: shape.initial_log2.saturating_sub(1).max(1), ..shape };
    let table: Table<M> = Table::new(memory()?, half, setting.seed)?;
    table.expand()?;
    let slots = table.capacity();
    let keys = Keys::new(setting.seed, slots);
    let count = (EXPAND_AT * slots as f64) as u64;
    let order = Keys::new(setting.seed, count).order(1);
    // Numbered so that the last ones are those to be removed, at random.
    let pair = |number| {
        let key = keys.key(order.apply(number));
        (key, Writer::Insert.value(key))
    };
    for number in 0..count {
        let key = keys.key(number);
        ensure!(table.insert(key, Writer::Insert.value(key))?, "no room at {EXPAND_AT}");
    }
    let kept = (SHRINK_AT * slots as f64) as u64;
    for number in kept..count {
        ensure!(table.remove(pair(number).0), "pair {number} cannot be removed");
    }
    let filled = Filled { keys, count: kept, load_factor: SHRINK_AT };
    let (smaller, timing) = rehashed(&table, half, setting, memory)?;
    smaller.check(kept, pair).context("after a full rehash")?;
    drop(smaller);
    let by_rehash = filled.row("shrink_full_rehash", name, setting, timing, None);
    let (shrunk, timing) = timed(|| {
        let _write = table.pool.write()?;
        Ok(table.index.shrink()?)
    })?;
    ensure!(shrunk == Shrunk::Halved, "a table at a load factor of {SHRINK_AT} did not shrink");
    table.check(kept, pair).context("after shrinking in place")?;
    let in_place = filled.row("shrink_in_place", name, setting, timing, by_rehash.ops_per_s);
    Ok(vec![by_rehash, in_place])
}

/// All pairs of a table, inserted into a new one of this shape.
fn rehashed<M: Medium>(
    table: &Table<M>,
    shape: Shape,
    setting: &Setting,
    memory: &(impl Fn() -> Result<M> + Sync),
) -> Result<(Table<M>, crew::Timing)> {
    timed(|| {
        let other: Table<M> = Table::new(memory()?, shape, setting.seed)?;
        other.insert_all_of(table)?;
        Ok(other)
    })
}

fn of_classic<M: Medium>(
    name: &str,
    kind: Kind,
    setting: &Setting,
    memory: &(impl Fn() -> Result<M> + Sync),
) -> Result<Vec<Row>> {
    // As many slots as Level hashing's table, more or less.
    let slots = (setting.pairs as f64 / EXPAND_AT / 1.5) as u64 + 1;
    let shape = |slots| {
        let shape = baselines::Shape::new(kind, slots, setting.seed);
        let width = if kind == Kind::Pfht { PFHT_SLOTS } else { shape.width };
        baselines::Shape { stash: slots / 30 + 1, width, ..shape }
    };
    let create = |slots| -> Result<Box<dyn baselines::Table>> {
        Ok(create_unlogged(Arc::new(memory()?), &shape(slots))?)
    };
    let mut table = create(slots)?;
    let mut filled = Filled {
        keys: Keys::new(setting.seed, setting.pairs),
        count: (EXPAND_AT * table.capacity() as f64) as u64,
        load_factor: EXPAND_AT,
    };
    for number in 0..filled.count {
        let (key, value) = filled.pair(number);
        ensure!(table.insert(key, value) == Ok(None), "{name} is full at {EXPAND_AT}");
    }
    let rehash = |table: &dyn baselines::Table, slots| {
        timed(|| {
            let mut other = create(slots)?;
            let mut refused = 0u64;
            table.for_each(&mut |key, value| {
                refused += u64::from(other.insert(key, value) != Ok(None));
            });
            ensure!(refused == 0, "{name}: {refused} pairs were refused by a new table");
            ensure!(other.len() == table.len(), "{name}: a new table lacks pairs");
            Ok(other)
        })
    };
    let (_, timing) = rehash(&*table, 2 * slots)?;
    let expanded = filled.row("expand_full_rehash", name, setting, timing, None);
    let kept = (SHRINK_AT * table.capacity() as f64) as u64;
    let order = Keys::new(setting.seed, filled.count).order(1);
    for number in (kept..filled.count).map(|number| order.apply(number)) {
        let removed = table.remove(filled.keys.key(number));
        ensure!(removed.is_some(), "{name}: pair {number} cannot be removed");
    }
    filled = Filled { count: kept, load_factor: SHRINK_AT, ..filled };
    let (_, timing) = rehash(&*table, slots / 2 + 1)?;
    let shrunk = filled.row("shrink_full_rehash", name, setting, timing, None);
    Ok(vec![expanded, shrunk])
}

/// Does `work` in this thread, on the clock.
fn timed<T: Send>(work: impl Fn() -> Result<T> + Sync) -> Result<(T, crew::Timing)> {
    let (mut done, timing) = crew::run(vec![()], |()| work())?;
    let done = done.pop().context("a crew that did nothing")??;
    Ok((done, timing))
}
