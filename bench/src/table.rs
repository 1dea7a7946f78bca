//! firndex's own contenders: tables through the facade that users have, and engines on media that
//! only a laboratory needs.

use crate::contender::{Contender, Medium, Opener, Setting};
use crate::map::{Batched, Map};
use anyhow::{Context, Result};
use firndex::{Engine, Options, Stats, Table};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A table through the facade, in a file that goes when it does, or in memory.
pub struct Facade {
    table: Table<u64, u64>,
    failure: OnceLock<String>,
    /// Dropped after the table.
    _directory: Option<TempDir>,
}

/// Options of a table for this setting.
pub fn options(engine: Engine, setting: &Setting) -> Options {
    Options::new()
        .engine(engine)
        .capacity(setting.pairs)
        .hash_seed(setting.seed)
        .force_flushes(setting.flushes)
}

impl Facade {
    /// Opens an empty table on `dram` or `mapped`.
    pub fn open(engine: Engine, setting: &Setting) -> Result<Facade> {
        Facade::with(&options(engine, setting), setting)
    }

    /// As [`Facade::open`], with these options.
    pub fn with(options: &Options, setting: &Setting) -> Result<Facade> {
        let (table, directory) = match setting.medium {
            Medium::Mapped => {
                let directory = tempfile::tempdir_in(&setting.directory)
                    .with_context(|| format!("a pool in {}", setting.directory.display()))?;
                let options = options.clone().medium(firndex::Medium::Mapped);
                (options.create_table(directory.path().join("bench.firn"))?, Some(directory))
            }
            Medium::Dram | Medium::Delay { .. } => (options.in_memory_table()?, None),
        };
        Ok(Facade { table, failure: OnceLock::new(), _directory: directory })
    }

    /// The table.
    pub fn table(&self) -> &Table<u64, u64> {
        &self.table
    }

    #[inline(always)]
    fn told<T>(&self, result: firndex::Result<T>) -> Option<T> {
        result.map_err(|error| self.fail(&error)).ok()
    }

    #[cold]
    fn fail(&self, error: &dyn std::fmt::Display) {
        // The first one says why; those after it follow from it.
        let _ = self.failure.set(error.to_string());
    }
}

impl Map for Facade {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.told(self.table.get(key)).flatten()
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.told(self.table.insert(key, value)).is_some_and(|before| before.is_none())
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.told(self.table.update(key, value)).flatten().is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.told(self.table.put(key, value)).flatten().is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.told(self.table.remove(key)).flatten().is_some()
    }

    fn batched(&self) -> Batched {
        Batched::Everything
    }

    #[inline]
    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        self.told(self.table.get_many_into(keys, out));
    }

    #[inline]
    fn insert_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        self.told(self.table.insert_many_into(pairs, out));
    }

    #[inline]
    fn update_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        self.told(self.table.update_many_into(pairs, out));
    }

    #[inline]
    fn remove_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        self.told(self.table.remove_many_into(keys, out));
    }

    fn facts(&self) -> Option<Stats> {
        Some(self.table.stats())
    }

    fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }
}

/// firndex's engines.
pub fn engines() -> Vec<Box<dyn Contender>> {
    let contender = |&engine: &Engine| -> Box<dyn Contender> {
        Box::new(Opener {
            name: engine.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            threads_max: usize::MAX,
            is_engine: true,
            lies_on: |medium, _| !matches!(medium, Medium::Delay { .. }),
            open: move |setting: &Setting| Facade::open(engine, setting),
        })
    };
    Engine::ALL.iter().map(contender).collect()
}
