//! Every operation of a `Store` by itself, with keys and values of 8 bytes: suite `micro` on byte strings, without
//! batches.
//!
//! A store on one engine stands beside those on the others. Values are compared in place.

use super::micro;
use crate::map::{Facts, Failure, Map};
use crate::pool::{facts, failure, through_facade};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::{Engine, Error, Options, Record, Store};
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

/// One round on one store.
pub fn round(name: &str, engine: Engine, setting: &Setting) -> Result<Vec<Row>> {
    micro::round_of("store", name, |setting| Words::open(engine, setting), setting)
}

/// A store of words, each a string of 8 bytes.
struct Words {
    store: Store,
    failure: OnceLock<Failure>,
    /// Dropped after the store.
    _directory: Option<TempDir>,
}

impl Words {
    fn open(engine: Engine, setting: &Setting) -> Result<Words> {
        let in_file = |options: &Options, path: &Path| options.create_store(path);
        let (store, directory) =
            through_facade(engine, setting, in_file, Options::in_memory_store)?;
        Ok(Words { store, failure: OnceLock::new(), _directory: directory })
    }

    #[inline(always)]
    fn told<T>(&self, result: firndex::Result<T>) -> Option<T> {
        result.map_err(|error| self.fail(&error)).ok()
    }

    #[cold]
    fn fail(&self, error: &Error) {
        // The first failure says why; later ones follow from it.
        let _ = self.failure.set(failure(error));
    }
}

/// The word in a value. A value of another length has none: a wrong answer.
#[inline(always)]
fn word(record: &Record<'_>) -> Option<u64> {
    record.as_ref().try_into().ok().map(u64::from_le_bytes)
}

impl Map for Words {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.told(self.store.get(key.to_le_bytes())).flatten().and_then(|record| word(&record))
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.told(self.store.insert(key.to_le_bytes(), value.to_le_bytes()))
            .is_some_and(|before| before.is_none())
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.told(self.store.update(key.to_le_bytes(), value.to_le_bytes())).flatten().is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.told(self.store.put(key.to_le_bytes(), value.to_le_bytes())).flatten().is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.told(self.store.remove(key.to_le_bytes())).flatten().is_some()
    }

    fn facts(&self) -> Option<Facts> {
        self.told(self.store.stats()).map(|stats| facts(&stats))
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }
}
