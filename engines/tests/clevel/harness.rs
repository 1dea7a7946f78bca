//! A store with its pool, and a medium that counts the items that are looked at.

pub(crate) use crate::common::{NEVER, WHEN_FULL, within};

use crate::common::{self, Image, PLACE, Watched, Watcher, dram};
use engines::clevel::{self, Clevel, Shape};
use engines::{Engine, Settings};
use index::{Record, Records, Shrunk};
use pmem::Pool;
use pmem::medium::{Count, Dram, MediumKind};
use pmem::pool::Spec;
use pmem::superblock::PoolKind;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
pub(crate) use workload::Random;
use workload::spread;

/// Owner of the extents of levels.
pub(crate) const LEVELS: u8 = 1;

const LIMIT_BYTES: u64 = 1 << 30;

thread_local! {
    static ITEMS_READ: Cell<u64> = const { Cell::new(0) };
}

/// Counts the items that were looked at: their headers, and nothing else, are read as pairs.
pub(crate) struct Looks;

impl Watcher for Looks {
    const KIND: MediumKind = MediumKind::Dram;

    fn before_load_two(&self) {
        ITEMS_READ.set(ITEMS_READ.get() + 1);
    }
}

type Looked = Watched<Looks, Count<Dram>>;

/// Items that the calling thread has looked at in `operation`.
pub(crate) fn items_read<R>(operation: impl FnOnce() -> R) -> (R, u64) {
    ITEMS_READ.set(0);
    (operation(), ITEMS_READ.get())
}

fn fresh() -> Looked {
    let inner = Count::new(dram(LIMIT_BYTES));
    Watched::new(inner, Looks)
}

/// An open store with its pool. Mutations take the right to write by themselves.
pub(crate) struct Store {
    pub(crate) table: Clevel<Looked>,
    pub(crate) pool: Arc<Pool<Looked>>,
    settings: Settings,
}

impl Store {
    /// An empty store whose writers drain, if there are no `helpers`.
    pub(crate) fn new(initial_log2: u32, resize_at: f64, helpers: usize) -> Store {
        let spec = Spec {
            kind: PoolKind::Store,
            key_bytes: 0,
            value_bytes: 0,
            ..common::spec(Engine::Clevel, 0xc1e7e1, clevel::engine_params(&Shape { initial_log2 }))
        };
        let settings = Settings { resize_at, helpers, recovery_threads: 2, ..Settings::default() };
        Store::assemble(Pool::create(fresh(), &spec, PLACE).expect("a pool"), settings)
    }

    fn assemble(pool: Pool<Looked>, settings: Settings) -> Store {
        let pool = Arc::new(pool);
        let table = Clevel::open(Arc::clone(&pool), settings).expect("a table");
        Store { table, pool, settings }
    }

    /// What is recovered from what a process killed now would leave.
    pub(crate) fn recovered(&self) -> Store {
        let medium = fresh();
        Image::of(self.pool.medium()).fill(&medium);
        Store::assemble(Pool::open(medium, PLACE).expect("a pool"), self.settings)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        bytes(self.table.get(key).expect("sound items"))
    }

    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let _write = self.pool.write().expect("the pool may be written");
        bytes(self.table.insert(key, value).expect("there is room"))
    }

    pub(crate) fn upsert(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let _write = self.pool.write().expect("the pool may be written");
        bytes(self.table.upsert(key, value).expect("there is room"))
    }

    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let _write = self.pool.write().expect("the pool may be written");
        bytes(self.table.update(key, value).expect("there is room"))
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Option<Vec<u8>> {
        let _write = self.pool.write().expect("the pool may be written");
        bytes(self.table.remove(key).expect("a removal needs no room"))
    }

    pub(crate) fn shrink(&self) -> bool {
        let _write = self.pool.write().expect("the pool may be written");
        self.table.shrink().expect("there is room") == Shrunk::Halved
    }

    /// Ends a resize that is under way.
    pub(crate) fn settle(&self) {
        self.table.settle();
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.table.occupancy().capacity
    }

    pub(crate) fn level_extents(&self) -> usize {
        self.pool.extents_of(LEVELS).len()
    }

    /// Stores each index under its key.
    pub(crate) fn fill(&self, indices: Range<u64>) {
        for index in indices {
            assert_eq!(self.insert(&key(index), &index.to_le_bytes()), None, "key {index}");
        }
    }

    /// Asserts that exactly the keys of `indices` are there, and nothing is wrong or lost.
    pub(crate) fn assert_holds(&self, indices: impl Iterator<Item = u64>) {
        let mut count = 0;
        for index in indices {
            assert_eq!(self.get(&key(index)), Some(index.to_le_bytes().to_vec()), "key {index}");
            count += 1;
        }
        self.assert_sound(count);
    }

    pub(crate) fn assert_sound(&self, count: u64) {
        common::assert_sound(&self.table.check(), count);
        assert_eq!(self.table.len(), count, "keys counted");
    }
}

fn bytes(record: Option<Record<'_>>) -> Option<Vec<u8>> {
    record.map(|record| record.bytes().to_vec())
}

/// The key of an index: eight bytes.
pub(crate) fn key(index: u64) -> [u8; 8] {
    spread(index.wrapping_add(1)).to_le_bytes()
}
