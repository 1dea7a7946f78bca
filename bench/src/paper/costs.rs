//! Lines, flushes and fences of each operation, on medium `count`: what the order of tables in a figure follows from.
//!
//! Tables are small, since counts do not depend on the size, and at a load factor of 0.8. `cost_insert` is of the last
//! insertions before it; the other operations are on random pairs, or absent ones.

use super::compare::some;
use super::lineup::Entrant;
use crate::keys::Writer;
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use pmem::medium::{Cost, measure, media_writes};

/// At most this many slots, and this many operations of a kind.
pub(crate) const PAIRS_MAX: u64 = 1 << 17;
const OPS_MAX: u64 = 1 << 13;
const LOAD_FACTOR: f64 = 0.8;
/// Begins the names of these operations.
pub(crate) const PREFIX: &str = "cost_";

/// Counts of these tables, which are empty and lie on medium `count`.
pub(crate) fn rows(
    paper: &'static str,
    entrants: Vec<Entrant>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for mut entrant in entrants {
        rows.extend(of(paper, &mut entrant, setting)?);
    }
    Ok(rows)
}

fn of(paper: &'static str, entrant: &mut Entrant, setting: &Setting) -> Result<Vec<Row>> {
    let target = entrant.pairs_at(LOAD_FACTOR);
    let ops = OPS_MAX.min(setting.ops).min(entrant.capacity / 20).max(1);
    entrant.fill(target.saturating_sub(ops), setting)?;
    let keys = entrant.keys;
    let new: Vec<u64> = (entrant.pairs..target).map(|number| keys.key(number)).collect();
    entrant.pairs = target;
    let [hits, updated, removed] = [1, 2, 3].map(|salt| some(entrant, setting.seed, ops, salt));
    let absent: Vec<u64> = (0..ops).map(|number| keys.absent(number)).collect();
    let mut rows = Vec::new();
    let mut count = |op: &str, words: &[u64], operation: &dyn Fn(&dyn Map, u64) -> bool| {
        let (mut total, mut wrong) = (Cost::default(), 0u64);
        let ((), media) = media_writes(|| {
            for &word in words {
                let (is_right, cost) = measure(|| operation(&*entrant.map, word));
                wrong += u64::from(!is_right);
                total += cost;
            }
        });
        ensure!(wrong == 0, "{}, {op}: {wrong} answers are wrong", entrant.name);
        let row = entrant.row(paper, &format!("{PREFIX}{op}"), 0, setting);
        rows.push(row.with_costs(words.len() as u64, total, media));
        Ok(())
    };
    count("insert", &new, &|map, key| map.insert(key, Writer::Insert.value(key)))?;
    count("hit", &hits, &|map, key| map.get(key) == Some(Writer::Insert.value(key)))?;
    count("miss", &absent, &|map, key| map.get(key).is_none())?;
    count("update", &updated, &|map, key| map.update(key, Writer::Update.value(key)))?;
    count("remove", &removed, &|map, key| map.remove(key))?;
    Ok(rows)
}
