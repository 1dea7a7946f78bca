//! A store of bytes: items in the heap behind an engine, or in an engine that keeps bytes itself.

use super::{
    Failed, HASH_SEED, Pairs, Refusal, Setup, Subject, place, read_only, spec, sync, verdict,
};
use crate::history::{Action, Key, Value};
use engines::clevel::{self, Clevel};
use engines::iceberg::Iceberg;
use engines::level::LevelHashing;
use index::hash::Hasher;
use index::{ItemError, Items, Record, Records};
use pmem::medium::sim::Sim;
use pmem::pool::Spec;
use pmem::superblock::{ENGINE_PARAMS, PoolKind};
use pmem::{OpenError, Pool};
use std::sync::Arc;

/// What keeps the bytes of a store.
pub trait Keeper: Records + Sized + 'static {
    /// As [`Subject::NAME`].
    const NAME: &'static str;
    /// The engine's number in superblocks.
    const ENGINE_ID: u32;
    /// As [`Subject::SCANS_ARE_EXACT`].
    const SCANS_ARE_EXACT: bool;

    /// What a pool of this setup is created with.
    fn params(setup: &Setup) -> [u64; ENGINE_PARAMS];

    /// Opens the store in `pool`.
    fn open(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, OpenError>;

    /// From now on the store has a helper, if the engine has such.
    fn expect_help(&self);

    /// One round of a helper.
    fn help(&self);
}

impl<E: Pairs<u64, u64>> Keeper for Items<E, Sim> {
    const NAME: &'static str = E::STORE_NAME;
    const ENGINE_ID: u32 = E::ID;
    const SCANS_ARE_EXACT: bool = E::SCANS_ARE_EXACT;

    fn params(setup: &Setup) -> [u64; ENGINE_PARAMS] {
        E::params(setup)
    }

    fn open(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, OpenError> {
        let index = E::open(Arc::clone(&pool), setup.settings())?;
        let hasher = Hasher::with_bits(HASH_SEED, setup.hash_bits);
        Items::open(index, pool, hasher, setup.settings().recovery_threads())
    }

    fn expect_help(&self) {
        self.index().expect_help();
    }

    fn help(&self) {
        self.index().help();
    }
}

impl Keeper for Clevel<Sim> {
    const NAME: &'static str = "clevel store";
    const ENGINE_ID: u32 = clevel::ENGINE_ID;
    const SCANS_ARE_EXACT: bool = true;

    fn params(setup: &Setup) -> [u64; ENGINE_PARAMS] {
        clevel::engine_params(&setup.clevel_shape)
    }

    fn open(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, OpenError> {
        Clevel::open(pool, setup.settings())
    }

    fn expect_help(&self) {
        Clevel::expect_help(self);
    }

    fn help(&self) {
        Clevel::help(self);
    }
}

/// `Store` on an engine.
pub struct BytesSubject<R> {
    records: R,
    pool: Arc<Pool<Sim>>,
}

/// `Store` on IcebergHT.
pub type StoreSubject = BytesSubject<Items<Iceberg<Sim>, Sim>>;
/// `Store` on Level hashing.
pub type LevelStoreSubject = BytesSubject<Items<LevelHashing<Sim>, Sim>>;
/// `Store` on Clevel hashing, which keeps bytes itself.
pub type ClevelStoreSubject = BytesSubject<Clevel<Sim>>;

/// The bytes that a value stands for.
pub(super) fn bytes_of(setup: &Setup, value: Value) -> Vec<u8> {
    let len = setup.value_bytes[usize::from(value) % setup.value_bytes.len()];
    value.to_le_bytes().into_iter().cycle().take(len.max(2)).collect()
}

/// The value that these bytes stand for.
pub(super) fn value_of(setup: &Setup, bytes: &[u8]) -> Result<Value, String> {
    let value = match bytes {
        [low, high, ..] => Value::from_le_bytes([*low, *high]),
        _ => return Err(format!("found {} bytes, which nobody stored", bytes.len())),
    };
    match bytes_of(setup, value) == bytes {
        true => Ok(value),
        false => Err(format!("found {bytes:x?}, which nobody stored")),
    }
}

impl From<ItemError> for Failed {
    fn from(error: ItemError) -> Self {
        match error {
            ItemError::Space(error) => error.into(),
            error => Failed::Wrong(error.to_string()),
        }
    }
}

impl<R: Keeper> BytesSubject<R> {
    /// How full the store's levels are.
    pub fn occupancy(&self) -> index::Occupancy {
        self.records.occupancy()
    }

    fn on(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, Refusal> {
        let records = R::open(Arc::clone(&pool), setup)?;
        if setup.has_helper {
            records.expect_help();
        }
        Ok(BytesSubject { records, pool })
    }
}

fn found(setup: &Setup, record: Option<Record<'_>>) -> Result<Option<Value>, Failed> {
    let value = record.map(|record| value_of(setup, record.bytes())).transpose();
    value.map_err(Failed::Wrong)
}

impl<R: Keeper> Subject for BytesSubject<R> {
    const NAME: &'static str = R::NAME;
    const SCANS_ARE_EXACT: bool = R::SCANS_ARE_EXACT;

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let words = spec(setup, PoolKind::Store, R::ENGINE_ID, R::params(setup));
        let spec = Spec { key_bytes: 0, value_bytes: 0, ..words };
        BytesSubject::on(Arc::new(Pool::create(medium, &spec, place(0))?), setup)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        BytesSubject::on(Arc::new(Pool::open(medium, place(boot))?), setup)
    }

    fn open_read_only(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        BytesSubject::on(Arc::new(read_only(medium)?), setup)
    }

    fn is_resizing(&self) -> bool {
        self.occupancy().resizing
    }

    fn resizes(&self) -> u64 {
        self.occupancy().resizes
    }

    fn sync(&self) -> Result<(), String> {
        sync(self, &self.pool)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let key = &setup.keys[usize::from(key)].to_le_bytes();
        if action == Action::Get {
            return found(setup, self.records.get(key)?);
        }
        let bytes = |value| bytes_of(setup, value);
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let record = match action {
            Action::Get => self.records.get(key)?,
            Action::Insert(value) => self.records.insert(key, &bytes(value))?,
            Action::Update(value) => self.records.update(key, &bytes(value))?,
            Action::Upsert(value) => self.records.upsert(key, &bytes(value))?,
            Action::Remove => self.records.remove(key)?,
            Action::Exchange(expected, new) => {
                let (old, new) = (expected.map(bytes), new.map(bytes));
                match self.records.compare_exchange(key, old.as_deref(), new.as_deref())? {
                    Ok(()) => return Ok(expected),
                    Err(found) => found,
                }
            }
        };
        found(setup, record)
    }

    fn call_many(
        &self,
        setup: &Setup,
        calls: &[(Key, Action)],
    ) -> Result<Vec<Option<Value>>, Failed> {
        let keys: Vec<[u8; 8]> =
            calls.iter().map(|&(key, _)| setup.keys[usize::from(key)].to_le_bytes()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        // Reading asks for no right to write: a pool that was synced stays clean.
        let is_reading = calls.iter().all(|(_, action)| *action == Action::Get);
        let _write = (!is_reading)
            .then(|| self.pool.write().map_err(|error| Failed::Wrong(error.to_string())))
            .transpose()?;
        let records = match calls.first() {
            Some((_, Action::Upsert(_))) => {
                let values: Vec<Vec<u8>> = calls
                    .iter()
                    .map(|&(_, action)| match action {
                        Action::Upsert(value) => bytes_of(setup, value),
                        _ => Vec::new(),
                    })
                    .collect();
                let pairs: Vec<(&[u8], &[u8])> =
                    keys.into_iter().zip(values.iter().map(|value| &value[..])).collect();
                self.records.upsert_many(&pairs)?
            }
            Some((_, Action::Remove)) => self.records.remove_many(&keys)?,
            Some((_, Action::Get)) => self.records.get_many(&keys)?,
            _ => {
                drop(_write);
                return calls.iter().map(|&(key, action)| self.call(setup, key, action)).collect();
            }
        };
        records.into_iter().map(|record| found(setup, record)).collect()
    }

    fn help(&self) {
        self.records.help();
    }

    fn settle(&self) {
        self.records.settle();
    }

    fn shrink(&self) -> Result<(), Failed> {
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        Ok(self.records.shrink().map(drop)?)
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        let mut wrong = None;
        let visited = self.records.for_each(&mut |key, value| {
            let word = key.try_into().map(u64::from_le_bytes).ok();
            match (word.and_then(|word| setup.key_of(word)), value_of(setup, value)) {
                (Some(key), Ok(value)) => pairs.push((key, value)),
                (None, _) => wrong = Some(format!("the key {key:x?} was never stored")),
                (_, Err(what)) => wrong = Some(what),
            }
        });
        visited.map_err(|error| error.to_string())?;
        wrong.map_or(Ok(pairs), Err)
    }

    fn check(&self) -> Result<(), String> {
        verdict(self.records.check(), self.records.len())
    }
}
