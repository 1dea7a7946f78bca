//! Figure 15a: expanding in place, and into a new table.
//!
//! A table is filled to a load factor of [`EXPAND_AT`]. `expand_full_rehash` makes an empty table of twice the size in
//! a new pool, with the same hash functions, and inserts every pair of the old one, in the order of the old one's
//! buckets. The old one stays as it was. Then `expand_in_place` is [`engines::level::LevelHashing::expand`] of the old
//! one: it adds a new top level, inserts the pairs of the bottom level above, and deletes them below. One thread does
//! both, and both touch the pages of their new buckets for the first time. Rates are in pairs of the whole table. The
//! ceiling of one is the other, so its ratio is how many times as fast it is.

use super::table::{EXPAND_AT, Table, shape_within};
use crate::crew;
use crate::keys::{Keys, Writer};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use engines::level::Shape;
use pmem::Medium;

pub(super) fn rows<M: Medium>(
    name: &str,
    setting: &Setting,
    memory: impl Fn() -> Result<M> + Sync,
) -> Result<Vec<Row>> {
    let shape = shape_within(Shape::default(), setting.pairs, EXPAND_AT);
    let table: Table<M> = Table::new(memory()?, shape, setting.seed)?;
    let slots = table.capacity();
    let keys = Keys::new(setting.seed, setting.pairs);
    let pair = |number| {
        let key = keys.key(number);
        (key, Writer::Insert.value(key))
    };
    let count = table.fill(0..(EXPAND_AT * slots as f64) as u64, pair)?;
    let load_factor = Some(count as f64 / slots as f64);
    let row = |op, timing: crew::Timing, ceiling| {
        let row = Row {
            pairs: Some(count),
            load_factor,
            took_s: Some(timing.elapsed_s),
            cpu_share: timing.cpu_share,
            ..setting.row("level", op, name)
        };
        row.with_rate(count as f64 / timing.elapsed_s, ceiling)
    };

    let twice = Shape { initial_log2: shape.initial_log2 + 1, ..shape };
    let (larger, timing) = timed(|| {
        let larger: Table<M> = Table::new(memory()?, twice, setting.seed)?;
        larger.insert_all_of(&table)?;
        Ok(larger)
    })?;
    larger.check(count, pair).context("after a full rehash")?;
    drop(larger);
    let full_rehash = row("expand_full_rehash", timing, None);

    let ((), timing) = timed(|| table.expand())?;
    let expanded = table.capacity();
    ensure!(expanded == 2 * slots, "a table of {slots} slots was expanded to {expanded}");
    table.check(count, pair).context("after an expansion in place")?;
    let in_place = row("expand_in_place", timing, full_rehash.ops_per_s);
    Ok(vec![full_rehash, in_place])
}

/// Does `work` in this thread, on the clock.
fn timed<T: Send>(work: impl Fn() -> Result<T> + Sync) -> Result<(T, crew::Timing)> {
    let (mut done, timing) = crew::run(vec![()], |()| work())?;
    let done = done.pop().context("a crew that did nothing")??;
    Ok((done, timing))
}
