//! Section 6: a table is opened again, which reads its pairs and builds the metadata.

use super::{ENGINE, NAME};
use crate::direct::{Direct, settings};
use crate::filling::{check, explained, fill};
use crate::keys::Keys;
use crate::paper::Scene;
use crate::pool::memory;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use engines::Settings;
use std::sync::Arc;
use std::time::Instant;

/// Load factor of the table.
const LOAD_FACTOR: f64 = 0.85;

pub(super) fn rows(scene: &Scene) -> Result<Vec<Row>> {
    let setting = Setting { grows: false, ..scene.setting.clone() };
    let pairs = (super::sized::slots(&setting) as f64 * LOAD_FACTOR) as u64;
    let setting = Setting { capacity: pairs, ..setting };
    let map = Direct::create(ENGINE, memory()?, &setting)?;
    let keys = Keys::new(setting.seed, pairs);
    let started = Instant::now();
    let filled = fill(&map, keys, 0..pairs, 1);
    explained(&map, &setting, filled)?;
    let inserting_s = started.elapsed().as_secs_f64();
    let pool = Arc::clone(map.pool());
    drop(map);
    let settings = Settings { recovery_threads: 1, ..settings(&setting) };
    let started = Instant::now();
    let table = ENGINE.open_words(Arc::clone(&pool), settings)?.engine;
    let found = table.len();
    let opening_s = started.elapsed().as_secs_f64();
    ensure!(found == pairs, "{found} pairs were recovered of {pairs}");
    check(&Direct::of(table.into(), pool), keys)?;
    let row = |op, elapsed_s: f64| {
        let row =
            Row { pairs: Some(pairs), took_s: Some(elapsed_s), ..setting.row(NAME, op, NAME) };
        row.with_rate(pairs as f64 / elapsed_s.max(1e-9), None)
    };
    Ok(vec![row("open", opening_s), row("fill_once", inserting_s)])
}
