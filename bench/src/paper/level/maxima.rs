//! Figure 10: the load factors at which tables refuse a pair.
//!
//! Cuckoo hashing gives up after 500 displacements. PFHT has a stash of 3 % of the whole, which counts as slots.

use super::NAME;
use super::table::{Table, shape_within};
use crate::keys::{Keys, Writer};
use crate::pool::memory;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use baselines::{Full, Kind};
use engines::level;
use std::sync::Arc;

/// At most this many slots: load factors depend little on the size.
const SLOTS_MAX: u64 = 1 << 20;
/// Displacements after which cuckoo hashing gives up.
const MOVES_MAX: u64 = 500;
/// Percentage of PFHT's pairs that may be in its stash.
const STASH_PERCENT: u64 = 3;

pub(super) fn rows(setting: &Setting) -> Result<Vec<Row>> {
    let slots = setting.pairs.min(SLOTS_MAX);
    let stash = slots * STASH_PERCENT / 100 + 1;
    let classic = |kind, width: Option<u64>| {
        let shape = baselines::Shape::new(kind, slots, setting.seed);
        let width = width.unwrap_or(shape.width);
        baselines::Shape { width, stash, moves_max: MOVES_MAX, ..shape }
    };
    let mut rows = Vec::new();
    for (name, shape) in [
        ("bch-4", classic(Kind::Cuckoo24, None)),
        ("bch-8", classic(Kind::Cuckoo28, None)),
        ("pfht-4", classic(Kind::Pfht, Some(4))),
        ("pfht-8", classic(Kind::Pfht, Some(8))),
        // Its paths have more levels in a larger table.
        ("path", baselines::Shape::new(Kind::Path, setting.pairs, setting.seed)),
    ] {
        rows.push(fill_classic(name, &shape, setting)?);
    }
    for slots_of_bucket in [4, 8] {
        let shape = level::Shape { slots: slots_of_bucket, ..level::Shape::default() };
        let table: Table<_> = Table::new(memory()?, shape_within(shape, slots, 1.0), setting.seed)?;
        let capacity = table.capacity();
        let keys = Keys::new(setting.seed, capacity + 1);
        let pair = |number| {
            let key = keys.key(number);
            (key, Writer::Insert.value(key))
        };
        let count = table.fill(0..capacity + 1, pair)?;
        table.check(count, pair)?;
        rows.push(row(&format!("level-{slots_of_bucket}"), count, capacity, setting));
    }
    Ok(rows)
}

fn row(name: &str, count: u64, slots: u64, setting: &Setting) -> Row {
    Row {
        pairs: Some(count),
        load_factor: Some(count as f64 / slots as f64),
        ..setting.row(NAME, "maximum", name)
    }
}

fn fill_classic(name: &str, shape: &baselines::Shape, setting: &Setting) -> Result<Row> {
    let mut table = baselines::create(Arc::new(memory()?), shape)?;
    let in_stash = if shape.kind == Kind::Pfht { shape.stash } else { 0 };
    let slots = table.capacity() + in_stash;
    let keys = Keys::new(setting.seed, slots);
    for key in (0..slots).map(|number| keys.key(number)) {
        match table.insert(key, Writer::Insert.value(key)) {
            Ok(before) => ensure!(before.is_none(), "key {key:#x} was there before"),
            Err(Full) => break,
        }
    }
    table.check().map_err(anyhow::Error::msg)?;
    Ok(row(name, table.len(), slots, setting))
}
