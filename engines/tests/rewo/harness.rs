//! A table of Rewo-Hash, for the tests.

pub(crate) use crate::common::{NEVER, WHEN_FULL, within};
pub(crate) use crate::table::{key, value};
pub(crate) use workload::Random;

use crate::table::{self, Kind};
use engines::rewo::{self, Cached, Design, RewoHash, Shape};
use engines::{Engine, Settings};
use index::Fixed;
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::sync::Arc;

/// Rewo-Hash.
pub(crate) enum Rewo {}

impl Kind for Rewo {
    type Shape = Shape;
    type Index<M: Medium, K: Fixed, V: Fixed> = RewoHash<M, K, V>;

    const ENGINE: Engine = Engine::Rewo;
    const HASH_SEED: u64 = 0x4e30;

    fn params(shape: &Shape) -> [u64; ENGINE_PARAMS] {
        rewo::engine_params(shape)
    }

    fn open<M: Medium, K: Fixed, V: Fixed>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<RewoHash<M, K, V>, OpenError> {
        RewoHash::open(pool, settings)
    }
}

pub(crate) type Table<M, K = u64, V = u64> = table::Table<Rewo, M, K, V>;

/// A shape with all design decisions in force, and without a cached table.
pub(crate) fn shape(slots: u32, initial_log2: u32) -> Shape {
    Shape { slots, initial_log2, cached: Cached::Nothing, design: Design::default() }
}

/// A shape whose cached table is so many times two smaller than the persistent one.
pub(crate) fn cached(slots: u32, initial_log2: u32, smaller_log2: u32) -> Shape {
    Shape { cached: Cached::SmallerLog2(smaller_log2), ..shape(slots, initial_log2) }
}

/// Doubles a table in the calling thread.
pub(crate) fn extend<M: Medium, K: Fixed, V: Fixed>(table: &Table<M, K, V>) {
    let _write = table.pool.write().expect("the pool may be written");
    table.index.extend().expect("there is room");
}
