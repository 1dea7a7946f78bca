//! The classic tables ([`baselines`]), as contenders of every suite that needs neither several threads nor growth.

use crate::contender::Contender;
use crate::map::{Facts, Failure, Map};
use crate::medium::Medium;
use crate::opener::Opener;
use crate::pool::{delayed_memory, flushed_memory};
use crate::setting::Setting;
use anyhow::{Result, ensure};
use baselines::{Full, Kind, Shape, Table};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How full a table of a setting's capacity is, in percent. Every one of them can be fuller.
const LOAD_PERCENT: u64 = 85;

thread_local! {
    /// The table that this thread opened, under its number.
    static OPENED: RefCell<Option<(u64, Box<dyn Table>)>> = const { RefCell::new(None) };
}

/// Counts the tables, to number them; 0 is none.
static OPENED_COUNT: AtomicU64 = AtomicU64::new(0);

/// A table without a lock. It lies in the storage of the thread that opened it, and panics in any other. A thread has
/// one at a time.
struct Classic {
    number: u64,
    failure: OnceLock<Failure>,
}

impl Classic {
    fn open(kind: Kind, setting: &Setting) -> Result<Classic> {
        let slots = setting.capacity * 100 / LOAD_PERCENT + 1;
        let shape = Shape::new(kind, slots, setting.seed);
        let table = match setting.medium {
            Medium::Dram => baselines::create(Arc::new(flushed_memory(setting.flushes)?), &shape)?,
            medium => {
                baselines::create(Arc::new(delayed_memory(medium, setting.flushes)?), &shape)?
            }
        };
        let number = OPENED_COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        OPENED.with_borrow_mut(|opened| {
            ensure!(opened.is_none(), "this thread has a classic table already");
            *opened = Some((number, table));
            Ok(Classic { number, failure: OnceLock::new() })
        })
    }

    #[inline(always)]
    fn with<T>(&self, work: impl FnOnce(&mut dyn Table) -> T) -> T {
        OPENED.with_borrow_mut(|opened| match opened {
            Some((number, table)) if *number == self.number => work(&mut **table),
            _ => panic!("a classic table belongs to the thread that opened it"),
        })
    }

    fn stored(&self, stored: std::result::Result<Option<u64>, Full>) -> bool {
        let full = || Failure::Full("the table is full".into());
        match stored {
            Ok(before) => before.is_none(),
            Err(Full) => {
                self.failure.get_or_init(full);
                false
            }
        }
    }
}

impl Drop for Classic {
    fn drop(&mut self) {
        // Another thread has nothing to free: the table goes with its thread.
        OPENED.with_borrow_mut(|opened| {
            if opened.as_ref().is_some_and(|(number, _)| *number == self.number) {
                *opened = None;
            }
        });
    }
}

impl Map for Classic {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.with(|table| table.get(key))
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.stored(self.with(|table| table.insert(key, value)))
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.with(|table| table.update(key, value)).is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        if self.update(key, value) {
            return true;
        }
        self.insert(key, value);
        false
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.with(|table| table.remove(key)).is_some()
    }

    fn facts(&self) -> Option<Facts> {
        let facts = |table: &mut dyn Table| Facts {
            pairs: table.len(),
            capacity: table.capacity(),
            load_factor: table.len() as f64 / table.capacity() as f64,
            resizes: 0,
            bytes: table.bytes(),
            level_pairs: vec![table.len()],
        };
        Some(self.with(facts))
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
            threads_max: 1,
            engine: None,
            grows: false,
            is_by_name: true,
            lies_on: |medium, _| medium == Medium::Dram || medium.latency().is_some(),
            open: move |setting: &Setting| Classic::open(kind, setting),
        })
    };
    Kind::ALL.into_iter().map(contender).collect()
}
