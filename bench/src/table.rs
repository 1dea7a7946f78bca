//! firndex's own contenders: tables through the facade that users have, and engines on media that only a laboratory
//! needs.

use crate::contender::Contender;
use crate::direct::Direct;
use crate::map::{Batched, Facts, Failure, Map};
use crate::medium::Medium;
use crate::opener::Opener;
use crate::pool::{facts, failure, through_facade};
use crate::setting::Setting;
use anyhow::Result;
use firndex::{Engine, Error, Options, Table};
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

/// A table through the facade, in a file that is removed with it, or in memory.
pub struct Facade {
    table: Table<u64, u64>,
    failure: OnceLock<Failure>,
    /// Dropped after the table.
    _directory: Option<TempDir>,
}

impl Facade {
    /// Opens an empty table on `dram` or `mapped`.
    pub fn open(engine: Engine, setting: &Setting) -> Result<Facade> {
        let in_file = |options: &Options, path: &Path| options.create_table(path);
        let (table, directory) =
            through_facade(engine, setting, in_file, Options::in_memory_table)?;
        Ok(Facade { table, failure: OnceLock::new(), _directory: directory })
    }

    #[inline(always)]
    fn told<T, E: Into<Error>>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.fail(&error.into())).ok()
    }

    #[cold]
    fn fail(&self, error: &Error) {
        // The first failure says why; later ones follow from it.
        let _ = self.failure.set(failure(error));
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

    fn facts(&self) -> Option<Facts> {
        self.told(self.table.stats()).map(|stats| facts(&stats))
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }
}

/// A contender of `engine` on those media.
fn opener<O>(engine: Engine, lies_on: fn(Medium, bool) -> bool, open: O) -> Opener<O> {
    Opener {
        name: engine.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        threads_max: usize::MAX,
        engine: Some(engine),
        grows: true,
        is_by_name: false,
        lies_on,
        open,
    }
}

/// firndex's engines, each once for every type of map that its media need.
pub fn engines() -> Vec<Box<dyn Contender>> {
    let contenders = |&engine: &Engine| -> [Box<dyn Contender>; 2] {
        [
            Box::new(opener(
                engine,
                |medium, _| matches!(medium, Medium::Dram | Medium::Mapped | Medium::Disk),
                move |setting: &Setting| Facade::open(engine, setting),
            )),
            Box::new(opener(
                engine,
                |medium, _| medium.latency().is_some() || medium == Medium::Count,
                move |setting: &Setting| Direct::in_laboratory(engine, setting),
            )),
        ]
    };
    Engine::ALL.iter().flat_map(contenders).collect()
}
