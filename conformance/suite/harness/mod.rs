//! What the tests get: an engine, and a backing for its pool.

mod backing;
mod engine;
mod history;
mod journal;

pub(crate) use crate::common::{Image, NEVER, PLACE, WHEN_FULL, within};
pub(crate) use backing::{Backing, Counted, Dram, FileBacking, SharedMemory, Slow, TempFile};
pub(crate) use engine::{Budget, Engine, colliding, colliding_by_two_hashes};
pub(crate) use history::{Call, Clock, Event, History, THREADS_MAX};
pub(crate) use journal::{Access, Journal, Journaled};
pub(crate) use workload::{Random, spread};

use crate::common;
use engines::Settings;
use index::{CheckReport, Error, Exchange, Index, Occupancy, Scan, Shrunk, Unfinished};
use pmem::heap::HeapUse;
use pmem::pool::Spec;
use pmem::{OpenError, Pool, Write};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Undoes [`spread`], by multiplication modulo 2^64.
pub(crate) const GATHER: u64 = 0xf1de_83e1_9937_733d;
const _: () = assert!(spread(GATHER) == 1);

/// Seed of the hash functions of every table here, so that colliding keys can be searched for.
pub(crate) const SEED: u64 = 0x5eed_0ff1_e1d5;

/// How a table is created.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) engine: &'static Engine,
    /// Structural variant.
    pub(crate) variant: usize,
    /// The table begins with room for this many pairs.
    pub(crate) pairs: u64,
    /// The pool may grow to this many bytes.
    pub(crate) limit_bytes: u64,
    /// Load factor at which the table grows; above 1 for never.
    pub(crate) resize_at: f64,
    /// Helper threads.
    pub(crate) helpers: usize,
    /// Threads for recovery.
    pub(crate) recovery_threads: usize,
}

impl Setup {
    /// The default variant of an engine, as small as possible.
    pub(crate) const fn of(engine: &'static Engine) -> Setup {
        Setup {
            engine,
            variant: 0,
            pairs: 0,
            limit_bytes: 1 << 32,
            resize_at: 0.85,
            helpers: 1,
            recovery_threads: 2,
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            resize_at: self.resize_at,
            helpers: self.helpers,
            recovery_threads: self.recovery_threads,
            ..Settings::default()
        }
    }

    pub(crate) fn spec(&self) -> Spec {
        let engine_params = (self.engine.params)(self.variant, self.pairs);
        common::spec(self.engine.listed, SEED, engine_params)
    }
}

/// An open table with its pool. Its mutations take the right to write themselves.
pub(crate) struct Table<B: Backing> {
    index: Box<dyn Index<u64, u64>>,
    pool: Arc<Pool<B::Medium>>,
    backing: B,
    setup: Setup,
}

impl<B: Backing> Table<B> {
    /// A new table.
    pub(crate) fn new(setup: Setup) -> Self {
        let (backing, medium) = B::empty(setup.limit_bytes);
        let pool = Pool::create(medium, &setup.spec(), PLACE).expect("a pool is made");
        Self::assemble(backing, pool, setup).expect("a table is made")
    }

    /// The table in an image, recovered.
    pub(crate) fn from_image(image: &Image, setup: Setup) -> Result<Self, OpenError> {
        let (backing, medium) = B::holding(image, setup.limit_bytes);
        Self::assemble(backing, Pool::open(medium, PLACE)?, setup)
    }

    pub(crate) fn assemble(
        backing: B,
        pool: Pool<B::Medium>,
        setup: Setup,
    ) -> Result<Self, OpenError> {
        let pool = Arc::new(pool);
        let index = setup.engine.open(Arc::clone(&pool), setup.settings())?;
        Ok(Table { index, pool, backing, setup })
    }

    /// Closes the table and opens it again.
    pub(crate) fn reopen(self) -> Self {
        let Table { index, pool, mut backing, setup } = self;
        drop(index);
        pool.close().expect("the pool is closed");
        backing.keep(pool.medium());
        assert!(Arc::into_inner(pool).is_some(), "a closed table left its pool in use");
        let medium = backing.again(setup.limit_bytes);
        let pool = Pool::open(medium, PLACE).expect("a closed pool is opened");
        Self::assemble(backing, pool, setup).expect("a closed table is opened")
    }

    /// The bytes of the pool that a process would leave if it were killed now. Exact if nothing writes.
    pub(crate) fn image(&self) -> Image {
        Image::of(self.pool.medium())
    }

    pub(crate) fn pool(&self) -> &Pool<B::Medium> {
        &self.pool
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// All pairs; fails if a key comes twice. Exact if nothing writes.
    pub(crate) fn pairs(&self) -> HashMap<u64, u64> {
        let mut pairs = HashMap::new();
        self.index
            .for_each(&mut |key, value| {
                let twice = pairs.insert(key, value);
                assert_eq!(
                    twice, None,
                    "a scan met key {key:#x} twice, the second time with {value:#x}"
                );
            })
            .unwrap();
        pairs
    }

    /// Asserts that the table holds exactly `expected`, in every way of looking at it.
    pub(crate) fn assert_holds(&self, expected: &HashMap<u64, u64>) {
        // A pair that a helper is moving would be counted in both places.
        self.settle();
        assert_eq!(self.len(), expected.len() as u64, "number of pairs");
        assert_eq!(self.is_empty(), expected.is_empty());
        assert_eq!(self.occupancy().pairs(), expected.len() as u64, "pairs in all levels");
        for (&key, &value) in expected {
            assert_eq!(self.get(key), Some(value), "value of key {key:#x}");
        }
        let pairs = self.pairs();
        if &pairs != expected {
            let stray: Vec<_> =
                pairs.iter().filter(|&(key, value)| expected.get(key) != Some(value)).collect();
            panic!("a scan met pairs that nobody stored: {stray:x?}");
        }
        self.assert_sound();
    }

    /// Asserts that `check` finds nothing wrong.
    pub(crate) fn assert_sound(&self) {
        common::assert_sound(&self.check(), self.len());
    }

    fn write(&self) -> Write<'_> {
        self.pool.write().expect("the pool may be written")
    }
}

impl<B: Backing> Index<u64, u64> for Table<B> {
    fn get(&self, key: u64) -> Option<u64> {
        self.index.get(key)
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        let _write = self.write();
        self.index.insert(key, value)
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        let _write = self.write();
        self.index.update(key, value)
    }

    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        let _write = self.write();
        self.index.upsert(key, value)
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        let _write = self.write();
        self.index.remove(key)
    }

    fn compare_exchange(
        &self,
        key: u64,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<Exchange<u64>, Error> {
        let _write = self.write();
        self.index.compare_exchange(key, expected, new)
    }

    fn remove_if(&self, key: u64, expected: u64) -> Result<Exchange<u64>, Error> {
        let _write = self.write();
        self.index.remove_if(key, expected)
    }

    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        self.index.get_many(keys, out);
    }

    fn insert_many(
        &self,
        pairs: &[(u64, u64)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        let _write = self.write();
        self.index.insert_many(pairs, out)
    }

    fn update_many(
        &self,
        pairs: &[(u64, u64)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        let _write = self.write();
        self.index.update_many(pairs, out)
    }

    fn upsert_many(
        &self,
        pairs: &[(u64, u64)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        let _write = self.write();
        self.index.upsert_many(pairs, out)
    }

    fn remove_many(&self, keys: &[u64], out: &mut [Option<u64>]) -> Result<(), Unfinished<Error>> {
        let _write = self.write();
        self.index.remove_many(keys, out)
    }

    fn compare_exchange_many(
        &self,
        changes: &[(u64, Option<u64>, Option<u64>)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        let _write = self.write();
        self.index.compare_exchange_many(changes, out)
    }

    fn scan(&self) -> Box<dyn Scan<u64, u64> + '_> {
        self.index.scan()
    }

    fn for_each_on(&self, threads: usize, visit: &(dyn Fn(u64, u64) -> ControlFlow<()> + Sync)) {
        self.index.for_each_on(threads, visit);
    }

    fn len(&self) -> u64 {
        self.index.len()
    }

    fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn occupancy(&self) -> Occupancy {
        self.index.occupancy()
    }

    fn heap_use(&self) -> HeapUse {
        self.index.heap_use()
    }

    fn check(&self) -> CheckReport {
        self.index.check()
    }

    fn settle(&self) {
        self.index.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        let _write = self.write();
        self.index.shrink()
    }

    fn scan_time(&self) -> Duration {
        self.index.scan_time()
    }
}
