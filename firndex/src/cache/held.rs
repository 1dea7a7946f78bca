//! A cache in its pool.

use super::clock::{CacheClock, System};
use super::flights::Flights;
use super::{Cache, CacheOperations, End, Owned};
use crate::any_engine::AnyEngine;
use crate::body::Body;
use crate::bounds::MAX_BYTES_MAX;
use crate::contents::Contents;
use crate::guests::Served;
use crate::held::Held;
use crate::open::{self, Mode};
use crate::pool::Pool;
use crate::shapes::Shapes;
use crate::{Engine, Error, Options, Result, refusals};
use engines::cache::{self, CAPACITY_MIN};
use index::hash::Hasher;
use index::{CheckReport, Occupancy, Records, Shrunk, WhenBuilt};
use pmem::heap::HeapUse;
use pmem::medium::Memory;
use pmem::pool::Gate;
use pmem::superblock::ENGINE_PARAMS;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;
use std::time::Duration;

/// How often what is over is looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

impl Body for Arc<dyn CacheOperations> {
    fn pairs(&self) -> u64 {
        (**self).len()
    }

    /// To count them all could take as long as to read the whole pool.
    fn pairs_to_record(&self) -> Option<u64> {
        None
    }

    fn occupancy(&self) -> Occupancy {
        Occupancy::default()
    }

    fn heap_use(&self) -> HeapUse {
        HeapUse::default()
    }

    /// Segments of which most is dead are emptied by puts.
    fn compact(&self) -> u64 {
        0
    }

    fn give_back(&self) -> u64 {
        0
    }

    fn check(&self) -> CheckReport {
        (**self).check()
    }

    fn settle(&self) {}

    fn shrink(&self) -> std::result::Result<Shrunk, index::Error> {
        Ok(Shrunk::Kept)
    }

    fn scan_time(&self) -> Duration {
        Duration::ZERO
    }

    /// What it holds is counted when somebody asks.
    fn is_built(&self) -> bool {
        false
    }

    /// Nobody is told: what was there may have gone.
    fn when_built(&self, _then: WhenBuilt) {}

    fn records(&self) -> Option<&dyn Records> {
        None
    }

    fn has_background(&self) -> bool {
        true
    }

    fn run_background(&self, gate: &Gate, is_stopped: &AtomicBool) {
        let Some(cache) = Arc::clone(self).owned() else { return };
        // What is over can be found only where it has been counted.
        cache.count_unless(&|| is_stopped.load(Ordering::Relaxed));
        while !is_stopped.load(Ordering::Relaxed) {
            park_timeout(SWEEP_EVERY);
            // A pool that was synced stays clean: what is over is not returned anyway.
            if let Some(_write) = gate.enter()
                && cache.sweep() > 0
            {
                // If that fails, only a clock that is set back before the next opening brings something back.
                let _ = cache.record_time();
            }
        }
        // How many look-ups there were is of use to nobody but those who want figures.
        if let Some(_write) = gate.enter() {
            let _ = cache.record_time();
        }
    }
}

impl Held for Cache {
    type Operations = dyn CacheOperations;

    fn contents() -> Contents {
        Contents::CACHE
    }

    fn shapes() -> Shapes {
        Shapes::default()
    }

    fn engine(
        pool: Arc<pmem::Pool<Memory>>,
        _engine: Engine,
        options: &Options,
    ) -> Result<AnyEngine<dyn CacheOperations>> {
        let superblock = pool.superblock();
        let settings = cache::Settings {
            capacity_bytes: options.cache_bytes.unwrap_or_else(|| cache::capacity_of(&superblock)),
            clock: Arc::new(CacheClock::new(System, cache::recorded_ms(&superblock))),
            when_gone: options.on_evict.as_ref().map(crate::on_evict::OnEvict::when_gone),
        };
        let opened = Owned::open(pool, Hasher::new(superblock.hash_seed), settings)?;
        Ok(AnyEngine::new(Box::new(opened), engines::Inlined::none()))
    }

    fn body(engine: &AnyEngine<dyn CacheOperations>) -> Arc<dyn Body> {
        Arc::new(engine.shared())
    }

    fn new(operations: AnyEngine<dyn CacheOperations>, pool: Pool) -> Self {
        let owned = operations.shared().owned();
        Cache { operations, owned, pool, flights: Flights::new() }
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn into_pool(self) -> Pool {
        self.pool
    }

    fn served(&self) -> Option<Arc<dyn Served>> {
        Some(Arc::new(self.operations.shared()))
    }

    fn put_all_in(&self, copy: &Self) -> Result<()> {
        for entry in self {
            let (key, value) = entry?;
            let end = match self.owned.as_ref().and_then(|owned| owned.expires_ms(&key)) {
                None => continue,
                Some(0) => End::Never,
                Some(expires_ms) => End::AtMs(expires_ms),
            };
            copy.put_to(&key, &value, end)?;
        }
        Ok(())
    }
}

impl Options {
    /// Opens the cache at `path`, or creates it. Its file has at most so many bytes, and two in a hundred more; log and
    /// checkpoint apart. A capacity other than the one that it had is its capacity from now on. If it is smaller, what
    /// is worth least is evicted at once, and the space beyond is given back to the file system. Of the capacity that
    /// it was made with it may take a twenty-fifth, even if it is given less.
    ///
    /// At least 256 KiB. An entry may take a quarter of it. In a process that becomes a guest
    /// ([`Options::guests`]) the capacity is the owner's, and stays what it is when this one owns the pool later.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("thumbnails.firn");
    /// use firndex::{Durability, Options};
    ///
    /// let thumbnails = Options::new()
    ///     .durability(Durability::Process)
    ///     .on_evict(|key, _, _| println!("{} bytes of key are gone", key.len()))
    ///     .open_or_create_cache(&path, 1 << 20)?;
    /// thumbnails.put([7; 16], [0; 4000])?;
    /// # thumbnails.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_or_create_cache(
        &self,
        path: impl AsRef<Path>,
        capacity_bytes: u64,
    ) -> Result<Cache> {
        self.cache(path.as_ref(), Mode::OpenOrCreate, Some(capacity_bytes))
    }

    /// Creates a cache at `path`, where no file may exist, as [`Options::open_or_create_cache`] does.
    pub fn create_cache(&self, path: impl AsRef<Path>, capacity_bytes: u64) -> Result<Cache> {
        self.cache(path.as_ref(), Mode::Create, Some(capacity_bytes))
    }

    /// Opens the cache at `path`, with the capacity that it had. [`Options::reset_if_refused`] has no effect: it is not
    /// known how large an empty cache in its place would have to be.
    pub fn open_cache(&self, path: impl AsRef<Path>) -> Result<Cache> {
        self.cache(path.as_ref(), Mode::Open, None)
    }

    /// A cache in anonymous memory.
    pub fn in_memory_cache(&self, capacity_bytes: u64) -> Result<Cache> {
        open::in_memory(&self.for_cache(Some(capacity_bytes), 0)?)
    }

    /// Calls `tell` with key, value and cause after an entry of a cache is gone that nobody removed or replaced.
    ///
    /// It is called by the thread that makes room, or removes what is over, and others may be waiting for that thread:
    /// so it should be quick. It may look up entries. It must not change the cache, since it would wait for itself.
    pub fn on_evict(
        mut self,
        tell: impl Fn(&[u8], &[u8], crate::Gone) + Send + Sync + 'static,
    ) -> Self {
        self.on_evict = Some(crate::on_evict::OnEvict::new(tell));
        self
    }

    fn cache(&self, path: &Path, mode: Mode, capacity_bytes: Option<u64>) -> Result<Cache> {
        let found_bytes = std::fs::metadata(path).map_or(0, |found| found.len());
        let options = self.for_cache(capacity_bytes, found_bytes)?;
        refusals::open(&options, path, mode)
    }

    /// These options, for a cache of this capacity in a file that has `found_bytes`.
    fn for_cache(&self, capacity_bytes: Option<u64>, found_bytes: u64) -> Result<Options> {
        let mut options = self.clone();
        if let Some(bytes) = capacity_bytes {
            if !(CAPACITY_MIN..=MAX_BYTES_MAX).contains(&bytes) {
                return Err(Error::OutOfRange {
                    option: "capacity_bytes",
                    found: format!("{bytes} bytes"),
                    expected: format!("{CAPACITY_MIN} to {MAX_BYTES_MAX}"),
                });
            }
            let mut engine_params = [0; ENGINE_PARAMS];
            engine_params[0] = u64::from(cache::segment_log2(bytes));
            options.engine_params = Some(engine_params);
            options.max_bytes = Some(bytes.max(found_bytes));
        }
        options.cache_bytes = capacity_bytes;
        Ok(options)
    }
}
