//! A table of words on an engine.

use super::{Failed, Refusal, Setup, Subject, known_value, place, spec, verdict};
use crate::history::{Action, Key, Value};
use engines::Settings;
use engines::clevel::{self, ClevelTable};
use engines::iceberg::{self, Iceberg};
use engines::level::{self, LevelHashing};
use index::{Error, Index};
use pmem::medium::sim::Sim;
use pmem::superblock::{ENGINE_PARAMS, PoolKind};
use pmem::{OpenError, Pool};
use std::sync::Arc;

/// An engine that takes words.
pub trait Words: Index<u64, u64> + Send + Sync + Sized + 'static {
    /// Its name on the command line.
    const NAME: &'static str;
    /// Its number in superblocks.
    const ID: u32;
    /// As [`Subject::SCANS_ARE_EXACT`].
    const SCANS_ARE_EXACT: bool = true;

    /// What a pool of this setup is created with.
    fn params(setup: &Setup) -> [u64; ENGINE_PARAMS];

    /// Opens the table in `pool`.
    fn open(pool: Arc<Pool<Sim>>, settings: Settings) -> Result<Self, OpenError>;

    /// Halves the table, where the engine can.
    fn halve(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl Words for Iceberg<Sim> {
    const NAME: &'static str = "iceberg";
    const ID: u32 = iceberg::ENGINE_ID;
    const SCANS_ARE_EXACT: bool = false;

    fn params(setup: &Setup) -> [u64; ENGINE_PARAMS] {
        iceberg::engine_params(&setup.shape)
    }

    fn open(pool: Arc<Pool<Sim>>, settings: Settings) -> Result<Self, OpenError> {
        Iceberg::open(pool, settings)
    }
}

impl Words for LevelHashing<Sim> {
    const NAME: &'static str = "level";
    const ID: u32 = level::ENGINE_ID;

    fn params(setup: &Setup) -> [u64; ENGINE_PARAMS] {
        level::engine_params(&setup.level_shape)
    }

    fn open(pool: Arc<Pool<Sim>>, settings: Settings) -> Result<Self, OpenError> {
        LevelHashing::open(pool, settings)
    }

    fn halve(&self) -> Result<(), Error> {
        self.shrink().map(drop)
    }
}

impl Words for ClevelTable<Sim> {
    const NAME: &'static str = "clevel";
    const ID: u32 = clevel::ENGINE_ID;

    fn params(setup: &Setup) -> [u64; ENGINE_PARAMS] {
        clevel::engine_params(&setup.clevel_shape)
    }

    fn open(pool: Arc<Pool<Sim>>, settings: Settings) -> Result<Self, OpenError> {
        ClevelTable::open(pool, settings)
    }

    fn halve(&self) -> Result<(), Error> {
        self.shrink().map(drop)
    }
}

/// `Table<u64, u64>` on an engine.
pub struct WordsSubject<E> {
    index: E,
    pool: Arc<Pool<Sim>>,
}

/// `Table<u64, u64>` on IcebergHT.
pub type TableSubject = WordsSubject<Iceberg<Sim>>;
/// `Table<u64, u64>` on Level hashing.
pub type LevelSubject = WordsSubject<LevelHashing<Sim>>;

/// `Table<u64, u64>` on Clevel hashing.
pub type ClevelSubject = WordsSubject<ClevelTable<Sim>>;

/// A new pool for an engine of this setup.
pub(super) fn create_pool<E: Words>(
    medium: Sim,
    setup: &Setup,
    kind: PoolKind,
) -> Result<Arc<Pool<Sim>>, Refusal> {
    let spec = spec(setup, kind, E::ID, E::params(setup));
    Ok(Arc::new(Pool::create(medium, &spec, place(0))?))
}

impl<E: Words> WordsSubject<E> {
    /// How full the table's levels are.
    pub fn occupancy(&self) -> index::Occupancy {
        self.index.occupancy()
    }

    fn on(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, Refusal> {
        let index = E::open(Arc::clone(&pool), setup.settings())?;
        Ok(WordsSubject { index, pool })
    }
}

/// Words of a batch, by the kind of its first action.
pub(super) enum Batch {
    Get(Vec<u64>),
    Insert(Vec<(u64, u64)>),
    Upsert(Vec<(u64, u64)>),
    Remove(Vec<u64>),
    Exchange(Vec<(u64, Option<u64>, Option<u64>)>),
}

impl Batch {
    fn of(setup: &Setup, calls: &[(Key, Action)]) -> Batch {
        let keys = || calls.iter().map(|&(key, _)| setup.keys[usize::from(key)]);
        let values = || {
            calls.iter().map(|&(_, action)| match action {
                Action::Insert(value) | Action::Update(value) | Action::Upsert(value) => {
                    Setup::word(value)
                }
                _ => 0,
            })
        };
        match calls.first() {
            Some((_, Action::Insert(_))) => Batch::Insert(keys().zip(values()).collect()),
            Some((_, Action::Upsert(_))) => Batch::Upsert(keys().zip(values()).collect()),
            Some((_, Action::Remove)) => Batch::Remove(keys().collect()),
            Some((_, Action::Exchange(..))) => Batch::Exchange(
                calls
                    .iter()
                    .zip(keys())
                    .map(|(&(_, action), key)| match action {
                        Action::Exchange(expected, new) => {
                            (key, expected.map(Setup::word), new.map(Setup::word))
                        }
                        _ => (key, None, None),
                    })
                    .collect(),
            ),
            _ => Batch::Get(keys().collect()),
        }
    }
}

impl<E: Words> Subject for WordsSubject<E> {
    const NAME: &'static str = E::NAME;
    const SCANS_ARE_EXACT: bool = E::SCANS_ARE_EXACT;

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        WordsSubject::on(create_pool::<E>(medium, setup, PoolKind::Table)?, setup)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        WordsSubject::on(Arc::new(Pool::open(medium, place(boot))?), setup)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let key = setup.keys[usize::from(key)];
        if action == Action::Get {
            return known_value(self.index.get(key));
        }
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let found = match action {
            Action::Get => self.index.get(key),
            Action::Insert(value) => self.index.insert(key, Setup::word(value))?,
            Action::Update(value) => self.index.update(key, Setup::word(value))?,
            Action::Upsert(value) => self.index.upsert(key, Setup::word(value))?,
            Action::Remove => self.index.remove(key)?,
            Action::Exchange(expected, new) => {
                let expected = expected.map(Setup::word);
                match self.index.compare_exchange(key, expected, new.map(Setup::word))? {
                    Ok(()) => expected,
                    Err(found) => found,
                }
            }
        };
        known_value(found)
    }

    fn call_many(
        &self,
        setup: &Setup,
        calls: &[(Key, Action)],
    ) -> Result<Vec<Option<Value>>, Failed> {
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let mut found = vec![None; calls.len()];
        match Batch::of(setup, calls) {
            Batch::Get(keys) => self.index.get_many(&keys, &mut found),
            Batch::Insert(pairs) => self.index.insert_many(&pairs, &mut found)?,
            Batch::Upsert(pairs) => self.index.upsert_many(&pairs, &mut found)?,
            Batch::Remove(keys) => self.index.remove_many(&keys, &mut found)?,
            Batch::Exchange(changes) => self.index.compare_exchange_many(&changes, &mut found)?,
        }
        found.into_iter().map(known_value).collect()
    }

    fn settle(&self) {
        self.index.settle();
    }

    fn shrink(&self) -> Result<(), Failed> {
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        Ok(self.index.halve()?)
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        let mut wrong = None;
        self.index.for_each(&mut |key, value| match (setup.key_of(key), Setup::value_of(value)) {
            (Some(key), Some(value)) => pairs.push((key, value)),
            _ => wrong = Some(format!("the pair {key:#x}, {value:#x} was never stored")),
        });
        wrong.map_or(Ok(pairs), Err)
    }

    fn check(&self) -> Result<(), String> {
        verdict(self.index.check(), self.index.len())
    }
}
