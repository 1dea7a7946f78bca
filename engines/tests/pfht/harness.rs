//! A table of PFHT, for the tests.

pub(crate) use crate::common::{Image, NEVER, WHEN_FULL, within};
pub(crate) use crate::table::{key, value};
pub(crate) use workload::Random;

use crate::table::{self, Kind};
use engines::pfht::{self, Design, Pfht, Shape};
use engines::{Engine, Settings};
use index::hash::{Hasher, h1, h2};
use index::{Error, Fixed};
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool, SpaceError};
use std::sync::Arc;

/// PFHT.
pub(crate) enum OfPfht {}

impl Kind for OfPfht {
    type Shape = Shape;
    type Index<M: Medium, K: Fixed, V: Fixed> = Pfht<M, K, V>;

    const ENGINE: Engine = Engine::Pfht;
    const HASH_SEED: u64 = 0x4e30;

    fn params(shape: &Shape) -> [u64; ENGINE_PARAMS] {
        pfht::engine_params(shape)
    }

    fn open<M: Medium, K: Fixed, V: Fixed>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Pfht<M, K, V>, OpenError> {
        Pfht::open(pool, settings)
    }
}

pub(crate) type Table<M, K = u64, V = u64> = table::Table<OfPfht, M, K, V>;

// As `docs/engines/pfht.md` and the engine's layout have it.
pub(crate) const TABLES: u8 = 1;
pub(crate) const CURSOR: u8 = 2;
pub(crate) const STASH: u8 = 4;
pub(crate) const BUCKET_BYTES: u64 = 128;
pub(crate) const NODE_BYTES: u64 = 16;
/// Slots of a bucket of words.
pub(crate) const SLOTS: u32 = 8;

/// A shape with all design decisions in force, and the paper's stash.
pub(crate) fn shape(slots: u32, initial_log2: u32) -> Shape {
    Shape { slots, initial_log2, stash_percent: 3, design: Design::default() }
}

/// Another stash.
pub(crate) fn stashing(slots: u32, initial_log2: u32, stash_percent: u32) -> Shape {
    Shape { stash_percent, ..shape(slots, initial_log2) }
}

/// Doubles a table in the calling thread.
pub(crate) fn extend<M: Medium, K: Fixed, V: Fixed>(table: &Table<M, K, V>) {
    let _write = table.pool.write().expect("the pool may be written");
    table.index.extend().expect("there is room");
}

/// Whether an insertion was refused for want of room in the table.
pub(crate) fn is_full<V>(result: &Result<Option<V>, Error>) -> bool {
    matches!(result, Err(Error::Space(SpaceError::Full { .. })))
}

/// The two buckets of a word in a first table of `1 << log2` buckets.
pub(crate) fn choices(key: u64, log2: u32) -> [u64; 2] {
    let hash = Hasher::new(OfPfht::HASH_SEED).second_u64(key);
    [h1(hash), h2(hash)].map(|hash| hash & ((1 << log2) - 1))
}

/// Words other than 0 whose buckets among `1 << log2` are these.
pub(crate) fn words_in(choice: [u64; 2], log2: u32) -> impl Iterator<Item = u64> {
    (1..).filter(move |&key| choices(key, log2) == choice)
}

/// Pairs in the stash.
pub(crate) fn stashed<M: Medium, K: Fixed, V: Fixed>(table: &Table<M, K, V>) -> u64 {
    table.occupancy().levels[1].pairs
}
