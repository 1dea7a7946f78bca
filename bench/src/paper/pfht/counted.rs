//! Writes per insertion of an engine without a log: the lines that it writes back, counted on medium `count`. By the
//! rule of [`baselines`] each would be written twice, and each operation would be committed and its log truncated.

use super::NAME;
use super::figures::{WRITES, figure};
use crate::direct::Direct;
use crate::keys::Keys;
use crate::map::Map;
use crate::medium::Medium;
use crate::paper::pfht::workloads::value;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use firndex::Engine;
use pmem::medium::measure;
use workload::Random;

/// At most this many slots: counts do not depend on the size.
const SLOTS_MAX: u64 = 1 << 20;

pub(super) fn rows(engine: Engine, load: u64, setting: &Setting) -> Result<Vec<Row>> {
    let capacity = setting.pairs.min(SLOTS_MAX);
    let medium = Medium::Count;
    let small = Setting { medium, capacity, pairs: capacity, grows: false, ..setting.clone() };
    let map = Direct::in_laboratory(engine, &small)?;
    let slots = map.facts().map_or(0, |facts| facts.capacity);
    let pairs = slots * load / 100;
    let keys = Keys::new(setting.seed, pairs);
    let insert = |number| {
        let key = keys.key(number);
        let (is_stored, cost) = measure(|| map.insert(key, value(key)));
        is_stored.then_some(cost.flushes)
    };
    let row = |op: &str, flushes: u64, ops: u64| Row {
        medium: Some("count".into()),
        pairs: Some(pairs),
        load_factor: Some(load as f64 / 100.0),
        flushes: Some(flushes as f64 / ops as f64),
        writes: Some(2.0 * flushes as f64 / ops as f64 + 2.0),
        paper: figure(&WRITES, engine.name(), &format!("{op}_{load}")),
        ..setting.row(NAME, &format!("insert_{op}_{load}"), engine.name())
    };
    let mut flushes = 0;
    let mut live = Vec::new();
    for number in 0..pairs {
        let Some(cost) = insert(number) else { return Ok(Vec::new()) };
        flushes += cost;
        live.push(number);
    }
    let mut rows = vec![row("wo", flushes, pairs)];
    let mut random = Random::new(setting.seed);
    let (mut replaced, mut next) = (0, pairs);
    flushes = 0;
    while replaced < setting.ops.min(slots) {
        let place = random.index(live.len());
        ensure!(map.remove(keys.key(live[place])), "a stored key is not there");
        live[place] = next;
        let Some(cost) = insert(next) else { return Ok(rows) };
        flushes += cost;
        (replaced, next) = (replaced + 1, next + 1);
    }
    rows.push(row("wh", flushes, replaced));
    Ok(rows)
}
