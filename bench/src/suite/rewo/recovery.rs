//! Section 3.7: opening a table again, and refilling its cached table.
//!
//! The table is dropped and opened again in the same pool, which stays in memory. `open` is in pairs a second of all
//! threads together. `refill` is the time in which one thread then fills a cached table as large as the table. The
//! paper's recovery includes both.

use super::entrant::{Entrant, Kind, UNCACHED, WHOLE};
use crate::direct::settings;
use crate::keys::Writer;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use engines::Settings;
use engines::rewo::RewoHash;
use index::Index;
use pmem::Medium;
use std::sync::Arc;
use std::time::Instant;

/// At most this many pairs are looked up after opening.
const CHECKS_MAX: u64 = 1 << 18;

pub(super) fn rows<M: Medium>(
    setting: &Setting,
    memory: &dyn Fn() -> Result<M>,
) -> Result<Vec<Row>> {
    let mut rows = vec![opened(UNCACHED, setting, memory)?.0];
    let (row, table) = opened(WHOLE, setting, memory)?;
    if setting.threads == 1 {
        let started = Instant::now();
        table.refill();
        let elapsed_s = started.elapsed().as_secs_f64();
        let op = setting.row("rewo", "refill", &row.contender);
        let (pairs, load_factor) = (row.pairs, row.load_factor);
        let refill = Row { pairs, load_factor, took_s: Some(elapsed_s), ..op };
        rows.push(refill.with_rate(table.len() as f64 / elapsed_s, None));
    }
    rows.push(row);
    Ok(rows)
}

fn opened<M: Medium>(
    kind: Kind,
    setting: &Setting,
    memory: &dyn Fn() -> Result<M>,
) -> Result<(Row, RewoHash<M>)> {
    let Entrant { name, map, own, doubles, capacity, keys, pairs } =
        Entrant::filled(kind, setting, memory)?;
    let pool = Arc::clone(map.pool());
    drop((map, own, doubles));

    let not_growing = Setting { grows: false, ..setting.clone() };
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
        ..setting.row("rewo", "open", &name)
    };
    Ok((row.with_rate(pairs as f64 / elapsed_s, None), table))
}
