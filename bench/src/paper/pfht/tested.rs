//! The tables that are measured, behind one interface.

use super::figures::LOADS;
use crate::direct::Direct;
use crate::map::{Failure, Map};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, bail};
use baselines::{Kind, Shape, Table, Writes};
use engines::Engine;
use pmem::Medium;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A phase is cut short after this time ...
const PHASE_MAX: Duration = Duration::from_secs(5);
/// ... and a table that is not full after this time is given up.
const FILLING_MAX: Duration = Duration::from_secs(600);
/// Operations between two looks at the clock.
pub(super) const CHUNK: usize = 64;
/// Percentage of the slots that are in the stash of hopscotch hashing and PFHT.
const STASH_PERCENT: u64 = 3;

/// The kinds of tables.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// A classic table.
    Classic(Kind),
    /// The paper's table.
    Own(Engine),
}

/// A table.
pub(super) enum Tested {
    Classic(Box<dyn Table>),
    Own(Box<dyn Map>),
}

impl Entry {
    pub(super) fn name(self) -> &'static str {
        match self {
            Entry::Classic(kind) => kind.name(),
            Entry::Own(engine) => engine.name(),
        }
    }

    /// An empty table with as many slots as the setting has pairs, its pages touched.
    pub(super) fn open<M: Medium>(self, load: u64, setting: &Setting, medium: M) -> Result<Tested> {
        match self {
            Entry::Classic(kind) => {
                let part = setting.pairs * STASH_PERCENT / 100;
                let stash = match load == LOADS[0] {
                    true => part.min(baselines::kind::STASH_PAIRS),
                    false => part,
                };
                Tested::classic(kind, stash, setting, medium)
            }
            Entry::Own(engine) => {
                let setting = Setting { grows: false, ..setting.clone() };
                let map = Direct::create(engine, medium, &setting)?;
                let medium = map.pool().medium();
                medium.populate(0..medium.size());
                Ok(Tested::Own(Box::new(map)))
            }
        }
    }
}

impl Tested {
    /// Like [`Entry::open`], for a classic table, with a stash of this many pairs if it has one.
    pub(super) fn classic<M: Medium>(
        kind: Kind,
        stash: u64,
        setting: &Setting,
        medium: M,
    ) -> Result<Tested> {
        let shape = Shape { stash: stash.max(1), ..Shape::new(kind, setting.pairs, setting.seed) };
        let medium = Arc::new(medium);
        let table = baselines::create(Arc::clone(&medium), &shape)?;
        medium.populate(0..medium.size());
        Ok(Tested::Classic(table))
    }

    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        match self {
            Tested::Classic(table) => table.get(key),
            Tested::Own(map) => map.get(key),
        }
    }

    /// Stores a pair whose key is absent; returns whether there was room.
    #[inline]
    pub(super) fn insert(&mut self, key: u64, value: u64) -> Result<bool> {
        match self {
            Tested::Classic(table) => match table.insert(key, value) {
                Ok(None) => Ok(true),
                Ok(Some(found)) => bail!("key {key:#x} was there before, with {found:#x}"),
                Err(baselines::Full) => Ok(false),
            },
            Tested::Own(map) => match (map.insert(key, value), map.failure()) {
                (true, _) => Ok(true),
                (false, Some(Failure::Full(_))) => Ok(false),
                (false, failure) => bail!("key {key:#x} was not inserted: {failure:?}"),
            },
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, key: u64) -> bool {
        match self {
            Tested::Classic(table) => table.remove(key).is_some(),
            Tested::Own(map) => map.remove(key),
        }
    }

    /// Pairs stored, and slots.
    pub(super) fn fill(&self) -> (u64, u64) {
        match self {
            Tested::Classic(table) => (table.len(), table.capacity()),
            Tested::Own(map) => map.facts().map_or((0, 0), |facts| (facts.pairs, facts.capacity)),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Tested::Classic(table) => table.bytes(),
            Tested::Own(map) => map.facts().map_or(0, |facts| facts.bytes),
        }
    }

    /// What insertions have written by the rule, if that is known.
    pub(super) fn writes(&self) -> Option<Writes> {
        match self {
            Tested::Classic(table) => Some(table.changes().inserts),
            Tested::Own(_) => None,
        }
    }

    /// Pairs in a stash. An engine's stash is its last level.
    pub(super) fn stashed(&self) -> Option<u64> {
        match self {
            Tested::Classic(table) => Some(table.stashed()).filter(|&stashed| stashed > 0),
            Tested::Own(map) => map.facts()?.level_pairs.last().copied(),
        }
    }

    /// Fails unless the table holds this many pairs. Looks at all of a small table.
    pub(super) fn check(&self, pairs: u64) -> Result<()> {
        let (found, slots) = self.fill();
        if found != pairs {
            bail!("{found} pairs are there instead of {pairs}");
        }
        match self {
            Tested::Classic(table) if slots <= 1 << 20 => table.check().map_err(anyhow::Error::msg),
            _ => Ok(()),
        }
    }
}

/// Operations of a phase, with the time that they took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clocked {
    pub(super) ops: u64,
    elapsed: Duration,
}

impl Clocked {
    /// Times `ops` operations; returns their result.
    #[inline(always)]
    pub(super) fn time<R>(&mut self, ops: usize, work: impl FnOnce() -> R) -> R {
        let started = Instant::now();
        let result = work();
        self.elapsed += started.elapsed();
        self.ops += ops as u64;
        result
    }

    pub(super) fn is_over(&self) -> bool {
        self.elapsed >= PHASE_MAX
    }

    pub(super) fn is_filling_over(&self) -> bool {
        self.elapsed >= FILLING_MAX
    }

    /// The row with rate and mean latency.
    pub(super) fn on(&self, row: Row) -> Row {
        let elapsed_s = self.elapsed.as_secs_f64().max(1e-9);
        let row = Row { mean_ns: Some(elapsed_s * 1e9 / self.ops.max(1) as f64), ..row };
        row.with_rate(self.ops as f64 / elapsed_s, None)
    }
}
