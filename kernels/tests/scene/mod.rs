//! Tables under loom: the engines themselves, on memory whose accesses are loom's.

pub(crate) mod tables;

use engines::{Engine, Settings};
use index::{Fixed, Index};
use pmem::medium::watched::Watched;
use pmem::pool::{Pool, Spec};
use pmem::superblock::{ENGINE_PARAMS, Place, PoolKind};
use pmem::sync::loom::{begin, end, explore, spawn};
use std::sync::Arc;

const POOL_BYTES: u64 = 24 << 10;
/// log2 of a heap segment's size. Their state is long, so there are few.
const SEGMENT_LOG2: u32 = 11;
/// Seed of all hashing here.
pub(crate) const HASH_SEED: u64 = 7;

/// A table of words.
pub(crate) struct Table {
    engine: Engine,
    index: Box<dyn Index<u64, u64>>,
    pool: Arc<Pool<Watched>>,
}

/// An engine and its parameters.
pub(crate) type Made = (Engine, [u64; ENGINE_PARAMS]);

impl Table {
    pub(crate) fn new((engine, params): Made, resize_at: f64) -> Table {
        Table::on(new_pool(engine.description().id, params), engine, resize_at, u64::MAX)
    }

    /// The same table, opened again by an engine that builds its sidecar while operations run.
    pub(crate) fn reopened(self) -> Table {
        let Table { engine, index, pool } = self;
        drop(index);
        Table::on(pool, engine, 2.0, 0)
    }

    fn on(
        pool: Arc<Pool<Watched>>,
        engine: Engine,
        resize_at: f64,
        built_at_once_max: u64,
    ) -> Table {
        // Helpers are threads of the operating system. Operations do the same work in small steps.
        let settings = Settings {
            resize_at,
            helpers: 0,
            recovery_threads: 1,
            built_at_once_max,
            ..Settings::default()
        };
        let index = engine.open_words(Arc::clone(&pool), settings).unwrap().engine;
        Table { engine, index, pool }
    }

    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        self.index.get(key)
    }

    pub(crate) fn put(&self, key: u64, value: u64) -> Option<u64> {
        let _write = self.pool.write().unwrap();
        self.index.upsert(key, value).unwrap()
    }

    /// Like [`Table::put`], if there is room.
    pub(crate) fn try_put(&self, key: u64, value: u64) {
        let _write = self.pool.write().unwrap();
        let _ = self.index.upsert(key, value);
    }

    pub(crate) fn remove(&self, key: u64) -> Option<u64> {
        let _write = self.pool.write().unwrap();
        self.index.remove(key).unwrap()
    }
}

fn new_pool(engine: u32, engine_params: [u64; ENGINE_PARAMS]) -> Arc<Pool<Watched>> {
    let spec = Spec {
        kind: PoolKind::Table,
        engine,
        key_bytes: u64::BYTES as u32,
        value_bytes: u64::BYTES as u32,
        hash_id: index::hash::HASH_ID,
        hash_seed: HASH_SEED,
        uuid: 1,
        segment_log2: SEGMENT_LOG2,
        engine_params,
    };
    let place = Place { boot_id: [1, 1], inode: 1, file_system: 1 };
    Arc::new(Pool::create(Watched::new(POOL_BYTES).unwrap(), &spec, place).unwrap())
}

/// Explores `first` and `second` running concurrently, on a table that `setup` makes.
pub(crate) fn beside<T: Send + 'static, U: Send + 'static>(
    preemptions_max: usize,
    setup: impl Fn() -> Table + Send + Sync + 'static,
    first: impl Fn(&Table) -> T + Copy + Send + Sync + 'static,
    second: impl Fn(&Table) -> U + Copy + Send + Sync + 'static,
    judge: impl Fn(&Table, T, U) + Send + Sync + 'static,
) {
    explore(Some(preemptions_max), move || {
        let table = Arc::new(setup());
        begin();
        let shared = Arc::clone(&table);
        let other = spawn(1, move || second(&shared));
        let first = first(&table);
        let second = other.join().unwrap();
        end();
        let report = table.index.check();
        assert!(report.is_sound(), "{report:?}");
        judge(&table, first, second);
    });
}
