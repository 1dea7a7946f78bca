//! A Level hash table with its pool.

use crate::pool::{NEVER, memory, without_facade};
use anyhow::{Context, Result, bail, ensure};
use engines::Settings;
use engines::level::{self, LevelHashing, Shape};
use index::{Error, Fixed, Index, is_same_state};
use pmem::medium::{CacheFlush, Memory};
use pmem::{Medium, Pool, SpaceError};
use std::fmt::Debug;
use std::sync::Arc;

/// Load factor at which the paper's tables are expanded, where they do not wait to be full.
pub(super) const EXPAND_AT: f64 = 0.85;

/// Anonymous memory with flushes as on dax.
pub(super) fn flushed_memory() -> Result<Memory<CacheFlush>> {
    let flush = CacheFlush::detect().context("this machine has no flush instruction")?;
    Ok(memory()?.flushed(flush))
}

/// A table that grows only when it is told to.
pub(super) struct Table<M: Medium, K: Fixed = u64, V: Fixed = u64> {
    /// Dropped before the pool.
    index: LevelHashing<M, K, V>,
    pool: Arc<Pool<M>>,
}

impl<M: Medium, K: Fixed + Debug, V: Fixed + Debug> Table<M, K, V> {
    /// An empty table on `medium`.
    pub(super) fn new(medium: M, shape: Shape, seed: u64) -> Result<Self> {
        let engine = (level::ENGINE_ID, level::engine_params(&shape));
        let pool = without_facade(medium, engine, (K::BYTES, V::BYTES), seed)?;
        let settings = Settings { resize_at: NEVER, helpers: 0, ..Settings::default() };
        let index = LevelHashing::open(Arc::clone(&pool), settings)?;
        Ok(Table { index, pool })
    }

    #[inline]
    pub(super) fn get(&self, key: K) -> Option<V> {
        self.index.get(key)
    }

    /// Stores a pair whose key is not there. Whether there was room.
    pub(super) fn insert(&self, key: K, value: V) -> Result<bool> {
        let _write = self.pool.write()?;
        match self.index.insert(key, value) {
            Ok(None) => Ok(true),
            Ok(Some(found)) => bail!("key {key:x?} was there before it was inserted: {found:x?}"),
            Err(Error::Space(SpaceError::Full { .. })) => match self.get(key) {
                None => Ok(false),
                Some(_) => bail!("key {key:x?} was refused, and is there"),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces a value; whether the key was there.
    #[inline]
    pub(super) fn update(&self, key: K, value: V) -> bool {
        self.pool.write().is_ok_and(|_write| matches!(self.index.update(key, value), Ok(Some(_))))
    }

    /// Inserts the pairs of these numbers until one is refused; returns the number at which it
    /// stopped.
    pub(super) fn fill(
        &self,
        numbers: std::ops::Range<u64>,
        pair: impl Fn(u64) -> (K, V),
    ) -> Result<u64> {
        for number in numbers.clone() {
            let (key, value) = pair(number);
            if !self.insert(key, value)? {
                return Ok(number);
            }
        }
        Ok(numbers.end.max(numbers.start))
    }

    /// Doubles the table in place, in this thread.
    pub(super) fn expand(&self) -> Result<()> {
        let _write = self.pool.write()?;
        self.index.expand().context("expanding in place")
    }

    /// Inserts all pairs of `other`, which this one has none of, in the order of its buckets.
    pub(super) fn insert_all_of(&self, other: &Self) -> Result<()> {
        let _write = self.pool.write()?;
        let mut refused = 0u64;
        other.index.for_each(&mut |key, value| {
            refused += u64::from(!matches!(self.index.insert(key, value), Ok(None)));
        });
        ensure!(refused == 0, "{refused} pairs were refused by a table of twice the size");
        Ok(())
    }

    /// Slots of the two levels.
    pub(super) fn capacity(&self) -> u64 {
        self.index.occupancy().capacity
    }

    /// Slots of the first `levels` levels, from the top.
    pub(super) fn slots(&self, levels: usize) -> u64 {
        self.index.occupancy().levels.iter().take(levels).map(|level| level.slots).sum()
    }

    /// Fails unless exactly the first `count` pairs are there, and the table is sound.
    pub(super) fn check(&self, count: u64, pair: impl Fn(u64) -> (K, V)) -> Result<()> {
        let report = self.index.check();
        ensure!(report.is_sound(), "the table has {} faults: {:?}", report.faults, report.findings);
        let counted = (report.pairs, self.index.len());
        ensure!(counted == (count, count), "{counted:?} pairs were found and counted, not {count}");
        for number in 0..count {
            let (key, value) = pair(number);
            let found = self.get(key);
            let is_found = is_same_state(found, Some(value));
            ensure!(is_found, "key {key:x?} holds {found:x?} instead of {value:x?}");
        }
        Ok(())
    }
}

/// The largest shape of which `pairs` pairs fill at least the part `load_factor`; where there is none,
/// the smallest.
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
