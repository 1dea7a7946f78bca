//! The classic tables ([`baselines`]), as contenders of every suite that needs neither several threads nor growth.

use crate::contender::Contender;
use crate::map::{Facts, Failure, Map};
use crate::medium::Medium;
use crate::opener::Opener;
use crate::pool::{counted_memory, delayed_memory, flushed_memory};
use crate::setting::Setting;
use anyhow::Result;
use baselines::{Commit, Full, Kind, OpenError, Shape, Table};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How full a table of a setting's capacity is, in percent. Every one of them can be fuller.
pub(crate) const LOAD_PERCENT: u64 = 85;
/// Pairs of a stash, as a percentage of the slots: what Debnath et al. use, and Zuo et al. after them.
const STASH_PERCENT: u64 = 3;

/// Ends the names of tables whose changes have no log ([`baselines::unlogged`]).
pub(crate) const UNLOGGED: &str = "-unlogged";
/// What Zuo et al. and Li and Huang compare in that way. The former have buckets of 4 slots only.
const WITHOUT_A_LOG: [(Kind, Option<u64>); 4] =
    [(Kind::Cuckoo24, None), (Kind::Path, None), (Kind::Pfht, None), (Kind::Pfht, Some(4))];

thread_local! {
    /// The tables that this thread opened, under their numbers.
    static OPENED: RefCell<Vec<(u64, Box<dyn Table>)>> = const { RefCell::new(Vec::new()) };
}

/// Counts the tables, to number them; 0 is none.
static OPENED_COUNT: AtomicU64 = AtomicU64::new(0);

/// A table without a lock. It lies in the storage of the thread that opened it, and panics in any other.
struct Classic {
    number: u64,
    failure: OnceLock<Failure>,
}

impl Classic {
    fn open(named: Named, setting: &Setting) -> Result<Classic> {
        let Named { kind, width, commit } = named;
        let slots = setting.capacity * 100 / LOAD_PERCENT + 1;
        let shape = Shape::new(kind, slots, setting.seed);
        let stash = slots * STASH_PERCENT / 100 + 1;
        let shape = Shape { stash, width: width.unwrap_or(shape.width), ..shape };
        let table = match setting.medium {
            Medium::Dram => create(commit, flushed_memory(setting.flushes)?, &shape)?,
            Medium::Count => create(commit, counted_memory()?, &shape)?,
            medium => create(commit, delayed_memory(medium, setting.flushes)?, &shape)?,
        };
        let number = OPENED_COUNT.fetch_add(1, Ordering::Relaxed) + 1;
        OPENED.with_borrow_mut(|opened| opened.push((number, table)));
        Ok(Classic { number, failure: OnceLock::new() })
    }

    #[inline(always)]
    fn with<T>(&self, work: impl FnOnce(&mut dyn Table) -> T) -> T {
        let is_it = |(number, _): &&mut (u64, Box<dyn Table>)| *number == self.number;
        OPENED.with_borrow_mut(|opened| match opened.iter_mut().find(is_it) {
            Some((_, table)) => work(&mut **table),
            None => panic!("a classic table belongs to the thread that opened it"),
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
        OPENED.with_borrow_mut(|opened| opened.retain(|(number, _)| *number != self.number));
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

fn create<M: pmem::Medium>(
    commit: Commit,
    medium: M,
    shape: &Shape,
) -> std::result::Result<Box<dyn Table>, OpenError> {
    match commit {
        Commit::Logged => baselines::create(Arc::new(medium), shape),
        Commit::Ordered => baselines::create_unlogged(Arc::new(medium), shape),
    }
}

/// A table as it is asked for by name.
#[derive(Clone, Copy)]
struct Named {
    kind: Kind,
    /// Another width than its paper's.
    width: Option<u64>,
    commit: Commit,
}

fn contender(name: String, named: Named) -> Box<dyn Contender> {
    Box::new(Opener {
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        threads_max: 1,
        engine: None,
        grows: false,
        is_by_name: true,
        lies_on: |medium, _| medium.is_in_memory(),
        open: move |setting: &Setting| Classic::open(named, setting),
    })
}

/// All of them. Each is measured if it is asked for by name.
pub fn tables() -> Vec<Box<dyn Contender>> {
    let logged = |kind: Kind| {
        let named = Named { kind, width: None, commit: Commit::Logged };
        contender(kind.name().to_owned(), named)
    };
    let unlogged = |(kind, width): (Kind, Option<u64>)| {
        let slots = width.map_or(String::new(), |width| format!("-{width}"));
        let named = Named { kind, width, commit: Commit::Ordered };
        contender(format!("{}{slots}{UNLOGGED}", kind.name()), named)
    };
    Kind::ALL.into_iter().map(logged).chain(WITHOUT_A_LOG.into_iter().map(unlogged)).collect()
}
