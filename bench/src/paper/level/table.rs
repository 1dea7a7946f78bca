//! A Level hash table with its pool.

use crate::direct::{Direct, pool_for, settings};
use crate::paper::lineup::{Handle, Opened};
use crate::paper::table;
use crate::pool::{NEVER, without_facade};
use crate::setting::Setting;
use anyhow::{Context, Result};
use engines::level::{self, Design, LevelHashing, Shape};
use engines::{Engine, Settings};
use index::Fixed;
use pmem::{Medium, Pool};
use std::fmt::Debug;
use std::sync::Arc;

/// Load factor at which the paper's tables expand if they do not wait until they are full.
pub(super) const EXPAND_AT: f64 = 0.85;

/// A table that grows only when it is told to.
pub(super) type Table<M, K = u64, V = u64> = table::Table<M, LevelHashing<M, K, V>, K, V>;

impl<M: Medium, K: Fixed + Debug, V: Fixed + Debug> Table<M, K, V> {
    /// An empty table on `medium`.
    pub(super) fn new(medium: M, shape: Shape, seed: u64) -> Result<Self> {
        let engine = (level::ENGINE_ID, level::engine_params(&shape));
        let pool = without_facade(medium, engine, (K::BYTES, V::BYTES), seed)?;
        let settings = Settings { resize_at: NEVER, helpers: 0, ..Settings::default() };
        let index = LevelHashing::open(Arc::clone(&pool), settings)?;
        Ok(Table::of(index, pool))
    }

    /// Doubles the table in place, in this thread.
    pub(super) fn expand(&self) -> Result<()> {
        let _write = self.pool.write()?;
        self.index.expand().context("expanding in place")
    }
}

/// A table with its pool, to be doubled.
struct Own<M: Medium> {
    table: Arc<LevelHashing<M>>,
    pool: Arc<Pool<M>>,
}

impl<M: Medium> Handle for Own<M> {
    fn double(&self) -> Result<()> {
        let _write = self.pool.write()?;
        Ok(self.table.expand()?)
    }
}

/// A table for the setting's capacity, which doubles when it is told to. `as_in_paper`: without fingerprints, and
/// without overwriting a value where it is.
pub(crate) fn open_to_double<M: Medium>(
    medium: M,
    setting: &Setting,
    as_in_paper: bool,
) -> Result<Opened> {
    let pool = if as_in_paper {
        let paper = Design { fingerprints: false, in_place_update: false, ..Design::default() };
        let shape = Shape { design: paper, ..Shape::default() };
        let shape = shape.for_pairs(setting.capacity, settings(setting).resize_at);
        let engine = (level::ENGINE_ID, level::engine_params(&shape));
        without_facade(medium, engine, (8, 8), setting.seed)?
    } else {
        pool_for(Engine::Level, medium, setting)?
    };
    let table: Arc<LevelHashing<M>> =
        Arc::new(LevelHashing::open(Arc::clone(&pool), settings(setting))?);
    let map = Direct::of(Arc::clone(&table) as _, Arc::clone(&pool));
    Ok((Box::new(map), Some(Arc::new(Own { table, pool }))))
}

/// The largest shape that `pairs` pairs fill to at least `load_factor`; if there is none, the smallest.
pub(super) fn shape_within(shape: Shape, pairs: u64, load_factor: f64) -> Shape {
    let mut shape = Shape { initial_log2: 1, ..shape };
    let slots = |shape: &Shape| (u64::from(shape.slots) * 3) << (shape.initial_log2 - 1);
    while slots(&shape) as f64 * 2.0 * load_factor <= pairs as f64 {
        shape.initial_log2 += 1;
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_as_large_as_the_pairs_fill() {
        let log2 =
            |pairs, load_factor| shape_within(Shape::default(), pairs, load_factor).initial_log2;
        // Buckets of 4 slots: 12, 24, 48, ... in all.
        assert_eq!([log2(1, 1.0), log2(23, 1.0), log2(24, 1.0), log2(48, 1.0)], [1, 1, 2, 3]);
        assert_eq!([log2(23, 0.5), log2(24, 0.5)], [2, 3]);
    }
}
