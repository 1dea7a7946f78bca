//! The tables for several threads with which papers compare ([`baselines::threaded`]), as contenders of every suite of
//! words. They grow, and a setting that wants no growth gets a table that needs none.

use crate::contender::Contender;
use crate::map::{Facts, Failure, Map};
use crate::medium::Medium;
use crate::opener::Opener;
use crate::pool::{counted_memory, delayed_memory, flushed_memory};
use crate::setting::Setting;
use anyhow::Result;
use baselines::threaded::{Kind, Shape, Threaded, create};
use pmem::SpaceError;
use std::sync::{Arc, OnceLock};

/// A table on memory of its own.
struct Baseline {
    table: Box<dyn Threaded>,
    failure: OnceLock<Failure>,
}

impl Baseline {
    fn open(kind: Kind, setting: &Setting) -> Result<Baseline> {
        let shape = Shape::new(kind, setting.capacity, setting.seed);
        let table = match setting.medium {
            Medium::Dram => create(Arc::new(flushed_memory(setting.flushes)?), &shape)?,
            Medium::Count => create(Arc::new(counted_memory()?), &shape)?,
            medium => create(Arc::new(delayed_memory(medium, setting.flushes)?), &shape)?,
        };
        Ok(Baseline { table, failure: OnceLock::new() })
    }

    /// The value before.
    #[inline(always)]
    fn stored(&self, stored: std::result::Result<Option<u64>, SpaceError>) -> Option<Option<u64>> {
        stored.map_err(|full| self.failure.get_or_init(|| Failure::Full(full.to_string()))).ok()
    }
}

impl Map for Baseline {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.table.get(key)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.stored(self.table.insert(key, value)).is_some_and(|before| before.is_none())
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.table.update(key, value).is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.stored(self.table.upsert(key, value)).flatten().is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.table.remove(key).is_some()
    }

    fn facts(&self) -> Option<Facts> {
        let (pairs, capacity) = (self.table.count(), self.table.capacity());
        Some(Facts {
            pairs,
            capacity,
            load_factor: pairs as f64 / capacity as f64,
            resizes: self.table.resizes(),
            bytes: self.table.bytes(),
            level_pairs: vec![pairs],
        })
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.get().cloned()
    }
}

/// All of them. Each is measured if it is asked for by name.
pub fn tables() -> Vec<Box<dyn Contender>> {
    let contender = |kind: Kind| -> Box<dyn Contender> {
        Box::new(Opener {
            name: kind.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            threads_max: usize::MAX,
            engine: None,
            grows: true,
            is_by_name: true,
            lies_on: |medium, _| medium.is_in_memory(),
            open: move |setting: &Setting| Baseline::open(kind, setting),
        })
    };
    Kind::ALL.into_iter().map(contender).collect()
}
