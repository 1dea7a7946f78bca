//! Engines on media that only a laboratory needs.

use crate::map::{Batched, Facts, Failure, Map};
use crate::medium::Medium;
use crate::pool::{Laboratory, NEVER, counted_memory, delayed_memory, without_facade};
use crate::setting::Setting;
use anyhow::Result;
use engines::engine::{PairSizes, Parameters, Wanted};
use engines::{Engine, Settings};
use index::Index;
use pmem::{Pool, SpaceError};
use std::sync::{Arc, OnceLock};

/// A table on any medium, without the facade but behind one virtual call, as there.
pub struct Direct<M: pmem::Medium> {
    /// Dropped before the pool.
    index: Arc<dyn Index<u64, u64>>,
    pool: Arc<Pool<M>>,
    failure: OnceLock<Failure>,
}

impl Direct<Laboratory> {
    /// An empty table behind the latencies of the setting's medium, or on medium `count`.
    pub fn in_laboratory(engine: Engine, setting: &Setting) -> Result<Self> {
        let medium = match setting.medium {
            Medium::Count => counted_memory()?,
            medium => delayed_memory(medium, setting.flushes)?,
        };
        Direct::create(engine, medium, setting)
    }
}

/// How a table of this setting is opened.
pub(crate) fn settings(setting: &Setting) -> Settings {
    let default = Settings::default();
    Settings { resize_at: if setting.grows { default.resize_at } else { NEVER }, ..default }
}

/// A new pool on `medium` for a table of this engine and setting.
pub(crate) fn pool_for<M: pmem::Medium>(
    engine: Engine,
    medium: M,
    setting: &Setting,
) -> Result<Arc<Pool<M>>> {
    let wanted = Wanted {
        sizes: PairSizes::WORDS,
        pairs: setting.capacity,
        resize_at: settings(setting).resize_at,
        parameters: &Parameters::default(),
    };
    let numbered = (engine.description().id, engine.engine_params(&wanted));
    without_facade(medium, numbered, (8, 8), setting.seed)
}

impl<M: pmem::Medium> Direct<M> {
    /// An empty table on `medium`.
    pub(crate) fn create(engine: Engine, medium: M, setting: &Setting) -> Result<Self> {
        let pool = pool_for(engine, medium, setting)?;
        let index = engine.open_words(Arc::clone(&pool), settings(setting))?.engine;
        Ok(Direct::of(index.into(), pool))
    }

    /// An open table.
    pub(crate) fn of(index: Arc<dyn Index<u64, u64>>, pool: Arc<Pool<M>>) -> Self {
        Direct { index, pool, failure: OnceLock::new() }
    }

    /// The pool that the table is in.
    pub(crate) fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// Changes the table with the right to write, as the facade does.
    #[inline(always)]
    fn change<T, E: Into<index::Error>>(
        &self,
        change: impl FnOnce(&dyn Index<u64, u64>) -> std::result::Result<T, E>,
    ) -> Option<T> {
        let changed = match self.pool.write() {
            Ok(_write) => change(&*self.index).map_err(|error| match error.into() {
                index::Error::Space(full @ SpaceError::Full { .. }) => {
                    Failure::Full(full.to_string())
                }
                other => Failure::Other(other.to_string()),
            }),
            Err(error) => Err(Failure::Other(error.to_string())),
        };
        changed.map_err(|failure| self.failure.set(failure)).ok()
    }
}

impl<M: pmem::Medium> Map for Direct<M> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.index.get(key)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.change(|index| index.insert(key, value)).is_some_and(|before| before.is_none())
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.change(|index| index.update(key, value)).flatten().is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.change(|index| index.upsert(key, value)).flatten().is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.change(|index| index.remove(key)).flatten().is_some()
    }

    fn batched(&self) -> Batched {
        Batched::Everything
    }

    #[inline]
    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        self.index.get_many(keys, out);
    }

    #[inline]
    fn insert_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        self.change(|index| index.insert_many(pairs, out));
    }

    #[inline]
    fn update_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        self.change(|index| index.update_many(pairs, out));
    }

    #[inline]
    fn remove_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        self.change(|index| index.remove_many(keys, out));
    }

    fn facts(&self) -> Option<Facts> {
        let occupancy = self.index.occupancy();
        Some(Facts {
            pairs: self.index.len(),
            capacity: occupancy.capacity,
            load_factor: occupancy.load_factor(),
            resizes: occupancy.resizes,
            bytes: self.pool.medium().size() + occupancy.sidecar_bytes(),
            level_pairs: occupancy.levels.iter().map(|level| level.pairs).collect(),
        })
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }
}
