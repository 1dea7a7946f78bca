//! A table of level hashing, for the tests.

pub(crate) use crate::common::{NEVER, WHEN_FULL, within};
pub(crate) use crate::table::{key, value};
pub(crate) use workload::Random;

use crate::table::{self, Kind};
use engines::level::{self, Design, LevelHashing, Shape};
use engines::{Engine, Settings};
use index::Fixed;
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::sync::Arc;

/// Level hashing.
pub(crate) enum Levels {}

impl Kind for Levels {
    type Shape = Shape;
    type Index<M: Medium, K: Fixed, V: Fixed> = LevelHashing<M, K, V>;

    const ENGINE: Engine = Engine::Level;
    const HASH_SEED: u64 = 0x1e7e1;

    fn params(shape: &Shape) -> [u64; ENGINE_PARAMS] {
        level::engine_params(shape)
    }

    fn open<M: Medium, K: Fixed, V: Fixed>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<LevelHashing<M, K, V>, OpenError> {
        LevelHashing::open(pool, settings)
    }
}

pub(crate) type Table<M, K = u64, V = u64> = table::Table<Levels, M, K, V>;

/// A shape with all design decisions in force.
pub(crate) fn shape(slots: u32, initial_log2: u32) -> Shape {
    Shape { slots, initial_log2, design: Design::default() }
}
