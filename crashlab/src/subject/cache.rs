//! The cache.
//!
//! Each passing of time is recorded in the pool before it returns, and a clock begins at the latest time that its pool
//! records. So what was over stays over after a crash.

use super::store::{bytes_of, value_of};
use super::{Failed, HASH_SEED, Refusal, Setup, Subject, place, spec, verdict};
use crate::history::{Action, CacheAction, Key, Value};
use engines::cache::{Cache, CacheError, CacheStats, Clock, Settings, recorded_ms};
use index::hash::Hasher;
use pmem::Pool;
use pmem::medium::sim::Sim;
use pmem::pool::Spec;
use pmem::superblock::PoolKind;
use pmem::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// How far the clock goes each time, in milliseconds: so far that sweeps find what is over.
const STEP_MS: u64 = 1024;

/// A clock that is moved by hand.
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// [`Cache`].
pub struct CacheSubject {
    cache: Cache<Sim>,
    pool: Arc<Pool<Sim>>,
    clock: Arc<Hand>,
}

impl From<CacheError> for Failed {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Held => Failed::Full,
            CacheError::Space(error) => error.into(),
            error => Failed::Wrong(error.to_string()),
        }
    }
}

impl CacheSubject {
    /// Its name on the command line.
    pub const NAME: &str = "cache";

    /// Figures of the cache.
    pub fn stats(&self) -> CacheStats {
        self.cache.stats()
    }

    fn on(pool: Arc<Pool<Sim>>, capacity_bytes: u64) -> Result<Self, Refusal> {
        let now_ms = recorded_ms(&pool.superblock()).max(STEP_MS);
        let clock = Arc::new(Hand(AtomicU64::new(now_ms)));
        let settings = Settings {
            capacity_bytes,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            when_gone: None,
        };
        let cache = Cache::open(Arc::clone(&pool), Hasher::new(HASH_SEED), settings)?;
        Ok(CacheSubject { cache, pool, clock })
    }

    /// Whether values of this number end when time passes.
    pub(crate) fn ends(value: Value) -> bool {
        value % 3 == 2
    }

    fn end(&self, ends: bool) -> u64 {
        if ends { self.clock.now_ms() + 1 } else { 0 }
    }

    fn writing(&self) -> Result<impl Sized + '_, Failed> {
        self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))
    }
}

impl Subject for CacheSubject {
    fn name(_setup: &Setup) -> String {
        CacheSubject::NAME.into()
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let words = spec(setup, PoolKind::Store, 1, setup.engine_params);
        let spec = Spec { key_bytes: 0, value_bytes: 0, ..words };
        CacheSubject::on(Arc::new(Pool::create(medium, &spec, place(0))?), setup.limit_bytes)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        let capacity_bytes = setup.limit_bytes - setup.cut_bytes;
        CacheSubject::on(Arc::new(Pool::open(medium, place(boot))?), capacity_bytes)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let key = &setup.keys[usize::from(key)].to_le_bytes();
        if action == Action::Get {
            let found = self.cache.get(key);
            let value = found.map(|record| value_of(setup, record.bytes())).transpose();
            return value.map_err(Failed::Wrong);
        }
        let _write = self.writing()?;
        match action {
            Action::Upsert(value) => {
                let ends_ms = self.end(CacheSubject::ends(value));
                self.cache.put(key, &bytes_of(setup, value), ends_ms)?;
            }
            Action::Remove => drop(self.cache.remove(key)),
            Action::OfCache(CacheAction::Touch { ends }) => {
                // Which value it was is not known: only whether there was one.
                let is_there = self.cache.touch(key, self.end(ends));
                return Ok(is_there.then_some(0));
            }
            action => return Err(Failed::Wrong(format!("{action}: not for caches"))),
        }
        Ok(None)
    }

    fn help(&self) {
        self.cache.sweep();
    }

    fn settle(&self) {
        self.cache.count_all();
    }

    fn clear(&self) -> Result<(), Failed> {
        let _write = self.writing()?;
        Ok(self.cache.clear()?)
    }

    fn pass(&self) -> Result<(), Failed> {
        let _write = self.writing()?;
        self.clock.0.fetch_add(STEP_MS, Ordering::AcqRel);
        Ok(self.cache.record_time()?)
    }

    fn close(&self) -> Result<(), String> {
        self.pool.close().map_err(|error| error.to_string())
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        let mut wrong = None;
        self.cache.for_each(&mut |key, value| {
            let word = key.try_into().map(u64::from_le_bytes).ok();
            match (word.and_then(|word| setup.key_of(word)), value_of(setup, value)) {
                (Some(key), Ok(value)) => pairs.push((key, value)),
                (None, _) => wrong = Some(format!("the key {key:x?} was never put")),
                (_, Err(what)) => wrong = Some(what),
            }
            wrong.is_none()
        });
        wrong.map_or(Ok(pairs), Err)
    }

    fn check(&self) -> Result<(), String> {
        verdict(self.cache.check(), self.cache.len())
    }
}
