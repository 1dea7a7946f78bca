//! How full a table gets before it refuses a pair, by how many items an insertion may move (section 3.1).

use super::NAME;
use super::counted::{KEY_BYTES, Table, VALUE_BYTES, pair, table};
use crate::keys::Keys;
use crate::paper::bytes::{Bytes, OfWord};
use crate::pool::memory;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use engines::rewo::{Cached, Design, Shape};
use pmem::medium::Dram;

pub(super) fn rows(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for evictions in 0..=2 {
        rows.push(full::<u64, u64>(evictions, setting)?);
    }
    for evictions in 0..=2 {
        rows.push(full::<Bytes<KEY_BYTES>, Bytes<VALUE_BYTES>>(evictions, setting)?);
    }
    Ok(rows)
}

fn full<K: OfWord, V: OfWord>(evictions: u32, setting: &Setting) -> Result<Row> {
    let shape = Shape {
        cached: Cached::Nothing,
        design: Design { evictions, ..Design::default() },
        ..Shape::for_pair_bytes((K::BYTES + V::BYTES) as u64)
    };
    let table: Table<Dram, K, V> = table(memory()?, shape, setting.pairs, setting.seed)?;
    let slots = table.capacity();
    let keys = Keys::new(setting.seed, slots + 1);
    let count = table.fill(0..slots + 1, |number| pair(keys, number))?;
    ensure!(count <= slots, "a table of {slots} slots took {count} pairs");
    table.check(count, |number| pair(keys, number))?;
    Ok(Row {
        pairs: Some(count),
        load_factor: Some(count as f64 / slots as f64),
        ..setting.row(NAME, "full", &format!("rewo-{}-slots-{evictions}-moves", shape.slots))
    })
}
