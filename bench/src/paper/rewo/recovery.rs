//! Section 3.7: opening a table again, and refilling its cached table.
//!
//! The table is dropped and opened again in the same pool, which stays in memory. `open` is in pairs a second of all
//! threads together. `refill` is the time in which one thread then fills a cached table as large as the table. The
//! paper's recovery includes both.

use super::NAME;
use super::entrant::{Kind, LOAD_FACTOR_MAX, Own, rewo_table};
use crate::direct::settings;
use crate::filling::{explained, fill};
use crate::keys::{Keys, Writer};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use engines::Settings;
use engines::rewo::{Cached, RewoHash};
use index::Index;
use pmem::Medium;
use std::time::Instant;

/// At most this many pairs are looked up after opening.
const CHECKS_MAX: u64 = 1 << 18;

pub(super) fn rows<M: Medium>(
    setting: &Setting,
    memory: &dyn Fn() -> Result<M>,
) -> Result<Vec<Row>> {
    let mut rows = vec![opened(Cached::Nothing, setting, memory)?.0];
    let (row, table) = opened(Cached::SmallerLog2(0), setting, memory)?;
    if setting.threads == 1 {
        let started = Instant::now();
        table.refill();
        let elapsed_s = started.elapsed().as_secs_f64();
        let op = setting.row(NAME, "refill", &row.contender);
        let (pairs, load_factor) = (row.pairs, row.load_factor);
        let refill = Row { pairs, load_factor, took_s: Some(elapsed_s), ..op };
        rows.push(refill.with_rate(table.len() as f64 / elapsed_s, None));
    }
    rows.push(row);
    Ok(rows)
}

fn opened<M: Medium>(
    cached: Cached,
    setting: &Setting,
    memory: &dyn Fn() -> Result<M>,
) -> Result<(Row, RewoHash<M>)> {
    let not_growing = Setting { grows: false, capacity: setting.pairs / 2, ..setting.clone() };
    let (map, Own { table, pool }) = rewo_table(cached, memory()?, &not_growing)?;
    let capacity = table.occupancy().capacity;
    let pairs = ((capacity as f64 * LOAD_FACTOR_MAX) as u64).max(1);
    let keys = Keys::new(setting.seed, pairs);
    let filled = fill(&map, keys, 0..pairs, setting.threads);
    explained(&map, setting, filled).context("filling a table to be opened again")?;
    drop((map, table));

    let settings = Settings { recovery_threads: setting.threads, ..settings(&not_growing) };
    let started = Instant::now();
    let table = RewoHash::open(pool, settings)?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let found = table.len();
    ensure!(found == pairs, "open: {found} pairs were recovered of {pairs}");
    let step = pairs.div_ceil(CHECKS_MAX).max(1) as usize;
    for key in (0..pairs).step_by(step).map(|number| keys.key(number)) {
        let (found, expected) = (table.get(key), Some(Writer::Insert.value(key)));
        ensure!(found == expected, "open: key {key:#x} holds {found:?} instead of {expected:?}");
    }
    let row = Row {
        pairs: Some(pairs),
        load_factor: Some(pairs as f64 / capacity as f64),
        took_s: Some(elapsed_s),
        ..setting.row(NAME, "open", &Kind::Rewo(cached).name())
    };
    Ok((row.with_rate(pairs as f64 / elapsed_s, None), table))
}
