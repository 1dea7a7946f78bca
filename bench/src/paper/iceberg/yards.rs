//! Tables 4 and 6: pairs by level, and what the sizes of blocks change.

use super::sized::slots;
use super::{LOAD_FACTOR, NAME};
use crate::direct::{Direct, settings};
use crate::keys::Writer;
use crate::paper::Scene;
use crate::paper::compare::{Round, compare};
use crate::paper::lineup::Entrant;
use crate::paper::turns::OPS_PART;
use crate::pool::{memory, without_facade};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use engines::iceberg::{self, Iceberg, Shape};
use std::sync::Arc;

/// Slots of a block of level 1 and of level 2.
pub(super) const SHAPES: [(u32, u32); 6] = [(64, 8), (64, 6), (64, 4), (32, 8), (32, 6), (32, 4)];
/// How full a table is that has been loaded: the paper's 64 M pairs in 2^26 slots of level 1. It doubles at 0.85.
const LOADED: f64 = 0.845;
/// A table that grows begins with room for this part of its pairs.
const BEGIN_PART: u64 = 4;

pub(super) fn name(shape: (u32, u32)) -> String {
    format!("{}-{}", shape.0, shape.1)
}

pub(super) fn rows(scene: &Scene) -> Result<Vec<Row>> {
    let setting = Setting { threads: scene.threads_max.max(2), ..scene.setting.clone() };
    let mut rows = vec![loaded(scene, &setting)?];
    (scene.tell)("iceberg, sizes of blocks");
    let mut entrants: Vec<Entrant> =
        SHAPES.into_iter().map(|shape| sized(shape, &setting)).collect::<Result<_>>()?;
    for entrant in &mut entrants {
        entrant.pairs = entrant.pairs_at(LOAD_FACTOR);
    }
    let inserted =
        |entrant: &Entrant| (0..entrant.pairs).map(|number| entrant.keys.key(number)).collect();
    let words: Vec<Vec<u64>> = entrants.iter().map(inserted).collect();
    rows.extend(compare(NAME, "yards_insert", 0, &entrants, &words, &setting, &|map, key| {
        map.insert(key, Writer::Insert.value(key))
    })?);
    for entrant in &entrants {
        let facts = entrant.map.facts().context("a table that does not know its levels")?;
        let level_pairs = Some(facts.level_pairs);
        rows.push(Row { level_pairs, ..entrant.row(NAME, "levels", 0, &setting) });
    }
    let ops = (setting.ops / OPS_PART * 2).min(setting.pairs / 4).max(8);
    let round = Round { paper: NAME, step: 0, setting: &setting, ops };
    let searches =
        [round.get_hit(&entrants)?, round.get_miss(&entrants)?, round.remove(&entrants)?];
    rows.extend(
        searches.into_iter().flatten().map(|row| Row { op: format!("yards_{}", row.op), ..row }),
    );
    Ok(rows)
}

/// A table of this shape as large as those of other figures.
fn sized(shape: (u32, u32), setting: &Setting) -> Result<Entrant> {
    let blocks = (slots(setting) * 8 / 9 / u64::from(shape.0)).max(2);
    let made = Shape {
        level_1_slots: shape.0,
        level_2_slots: shape.1,
        initial_log2: blocks.ilog2(),
        ..Shape::default()
    };
    let capacity = u64::from(shape.0 + shape.1) << made.initial_log2;
    // So many that the pairs of level 3, under one in a hundred, find nodes.
    let made = Shape { initial_nodes_log2: (capacity / 64).max(32).ilog2(), ..made };
    let engine = (iceberg::ENGINE_ID, iceberg::engine_params(&made));
    let pool = without_facade(memory()?, engine, (8, 8), setting.seed)?;
    let fixed = Setting { grows: false, ..setting.clone() };
    let table: Iceberg<_> = Iceberg::open(Arc::clone(&pool), settings(&fixed))?;
    let map = Direct::of(Arc::new(table) as _, pool);
    Entrant::new(name(shape), (Box::new(map), None), Some(capacity), setting.seed)
}

/// A table that has grown twice, and would soon again.
fn loaded(scene: &Scene, setting: &Setting) -> Result<Row> {
    let pairs = (slots(setting) as f64 * LOADED) as u64;
    let small = Setting { capacity: pairs / BEGIN_PART, pairs, ..setting.clone() };
    let map = scene.open(NAME, &small)?;
    let mut entrant = Entrant::new(NAME, (map, None), Some(pairs), setting.seed)?;
    entrant.fill(pairs, setting)?;
    let facts = entrant.map.facts().context("a table that does not know its levels")?;
    let row = entrant.row(NAME, "levels_loaded", 0, setting);
    Ok(Row { level_pairs: Some(facts.level_pairs), load_factor: Some(facts.load_factor), ..row })
}
