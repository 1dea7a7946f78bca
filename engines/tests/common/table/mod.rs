//! A table with its pool, and keys to put into it: what the suites of engines for pairs have in common.

pub(crate) mod packed;
pub(crate) mod power;

use crate::common::{self, Image, PLACE, dram};
use engines::{Engine, Settings};
use index::{Fixed, Index, Occupancy, Shrunk};
use pmem::medium::{Count, Dram};
use pmem::pool::Spec;
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::sync::Arc;
use workload::spread;

const LIMIT_BYTES: u64 = 1 << 30;

/// A medium that can be had empty.
pub(crate) trait Fresh: Medium {
    fn fresh() -> Self;
}

impl Fresh for Dram {
    fn fresh() -> Self {
        dram(LIMIT_BYTES)
    }
}

impl Fresh for Count<Dram> {
    fn fresh() -> Self {
        Count::new(Dram::fresh())
    }
}

/// An engine, as its suite opens it.
pub(crate) trait Kind: 'static {
    type Shape: Copy;
    type Index<M: Medium, K: Fixed, V: Fixed>: Index<K, V>;

    const ENGINE: Engine;
    const HASH_SEED: u64;

    fn params(shape: &Self::Shape) -> [u64; ENGINE_PARAMS];

    fn open<M: Medium, K: Fixed, V: Fixed>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Self::Index<M, K, V>, OpenError>;
}

/// An open table with its pool. Mutations take the right to write by themselves.
pub(crate) struct Table<E: Kind, M: Medium, K: Fixed = u64, V: Fixed = u64> {
    pub(crate) index: E::Index<M, K, V>,
    pub(crate) pool: Arc<Pool<M>>,
    resize_at: f64,
}

impl<E: Kind, M: Fresh, K: Fixed, V: Fixed> Table<E, M, K, V> {
    pub(crate) fn new(shape: E::Shape, resize_at: f64) -> Self {
        Self::try_new(shape, resize_at).expect("a table is made")
    }

    pub(crate) fn try_new(shape: E::Shape, resize_at: f64) -> Result<Self, OpenError> {
        let spec = Spec {
            key_bytes: K::layout_bytes() as u32,
            value_bytes: V::layout_bytes() as u32,
            ..common::spec(E::ENGINE, E::HASH_SEED, E::params(&shape))
        };
        Self::assemble(Pool::create(M::fresh(), &spec, PLACE)?, resize_at)
    }

    fn assemble(pool: Pool<M>, resize_at: f64) -> Result<Self, OpenError> {
        let settings =
            Settings { resize_at, helpers: 0, recovery_threads: 1, ..Settings::default() };
        let pool = Arc::new(pool);
        let index = E::open(Arc::clone(&pool), settings)?;
        Ok(Table { index, pool, resize_at })
    }

    /// The bytes of the pool as a process that is killed now would leave them.
    pub(crate) fn image(&self) -> Image {
        Image::of(self.pool.medium())
    }

    /// The table that is recovered from an image of this one.
    pub(crate) fn recovered(&self, image: &Image) -> Self {
        self.recovered_with(image, self.resize_at)
    }

    /// As [`Table::recovered`], to grow at another load factor.
    pub(crate) fn recovered_with(&self, image: &Image, resize_at: f64) -> Self {
        let medium = M::fresh();
        image.fill(&medium);
        let pool = Pool::open(medium, PLACE).expect("the image is a pool");
        Self::assemble(pool, resize_at).expect("the table is recovered")
    }
}

impl<E: Kind, M: Medium, K: Fixed, V: Fixed> Table<E, M, K, V> {
    pub(crate) fn get(&self, key: K) -> Option<V> {
        self.index.get(key)
    }

    pub(crate) fn insert(&self, key: K, value: V) -> Result<Option<V>, index::Error> {
        let _write = self.pool.write().expect("the pool may be written");
        self.index.insert(key, value)
    }

    pub(crate) fn update(&self, key: K, value: V) -> Option<V> {
        let _write = self.pool.write().expect("the pool may be written");
        self.index.update(key, value).expect("an update needs no room")
    }

    pub(crate) fn upsert(&self, key: K, value: V) -> Option<V> {
        let _write = self.pool.write().expect("the pool may be written");
        self.index.upsert(key, value).expect("the table grows")
    }

    pub(crate) fn remove(&self, key: K) -> Option<V> {
        let _write = self.pool.write().expect("the pool may be written");
        self.index.remove(key).expect("a removal needs no room")
    }

    /// Whether the table has been halved.
    pub(crate) fn shrink(&self) -> bool {
        let _write = self.pool.write().expect("the pool may be written");
        self.index.shrink().expect("a shrink needs little room") == Shrunk::Halved
    }

    /// Ends a resize that is under way.
    pub(crate) fn settle(&self) {
        self.index.settle();
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        self.index.occupancy()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.occupancy().capacity
    }

    /// Asserts that `check` finds `pairs` pairs and nothing wrong.
    pub(crate) fn assert_sound(&self, pairs: u64) {
        common::assert_sound(&self.index.check(), pairs);
        assert_eq!(self.index.len(), pairs, "pairs counted");
    }
}

impl<E: Kind, M: Medium> Table<E, M> {
    /// Stores [`value`] under [`key`] of each index.
    pub(crate) fn fill(&self, indexes: std::ops::Range<u64>) {
        for index in indexes {
            let stored = self.insert(key(index), value(index)).expect("there is room");
            assert_eq!(stored, None, "key {index} was there");
        }
    }

    /// Asserts that exactly the pairs of `indexes` are there.
    pub(crate) fn assert_holds(&self, indexes: impl Iterator<Item = u64>) {
        let mut count = 0;
        for index in indexes {
            assert_eq!(self.get(key(index)), Some(value(index)), "key {index}");
            count += 1;
        }
        self.settle();
        self.assert_sound(count);
    }
}

/// The key of an index; no two have the same.
pub(crate) fn key(index: u64) -> u64 {
    spread(index.wrapping_add(1))
}

/// What is stored under [`key`].
pub(crate) fn value(index: u64) -> u64 {
    !index << 1
}
