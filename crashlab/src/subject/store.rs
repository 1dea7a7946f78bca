//! A store of bytes: items in the heap behind an engine.

use super::{Failed, HASH_SEED, Refusal, Setup, Subject, place, table, verdict};
use crate::history::{Action, Key, Value};
use engines::iceberg::Iceberg;
use index::hash::Hasher;
use index::{ItemError, Items, Record, Records};
use pmem::Pool;
use pmem::medium::sim::Sim;
use pmem::superblock::PoolKind;
use std::sync::Arc;

/// `Store` on IcebergHT.
pub struct StoreSubject {
    items: Items<Iceberg<Sim>, Sim>,
    pool: Arc<Pool<Sim>>,
}

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

impl StoreSubject {
    fn on(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, Refusal> {
        let index = Iceberg::open(Arc::clone(&pool), setup.settings())?;
        let hasher = Hasher::with_bits(HASH_SEED, setup.hash_bits);
        let items = Items::open(index, Arc::clone(&pool), hasher, 1)?;
        Ok(StoreSubject { items, pool })
    }
}

fn found(setup: &Setup, record: Option<Record<'_>>) -> Result<Option<Value>, Failed> {
    let value = record.map(|record| value_of(setup, record.bytes())).transpose();
    value.map_err(Failed::Wrong)
}

impl Subject for StoreSubject {
    const NAME: &'static str = "store";

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        StoreSubject::on(
            table::create_pool::<u64, u64, Iceberg<Sim>>(medium, setup, PoolKind::Store)?,
            setup,
        )
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        StoreSubject::on(Arc::new(Pool::open(medium, place(boot))?), setup)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let key = &setup.keys[usize::from(key)].to_le_bytes();
        if action == Action::Get {
            return found(setup, self.items.get(key)?);
        }
        let bytes = |value| bytes_of(setup, value);
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let record = match action {
            Action::Get => self.items.get(key)?,
            Action::Insert(value) => self.items.insert(key, &bytes(value))?,
            Action::Update(value) => self.items.update(key, &bytes(value))?,
            Action::Upsert(value) => self.items.upsert(key, &bytes(value))?,
            Action::Remove => self.items.remove(key)?,
            Action::Exchange(expected, new) => {
                let (old, new) = (expected.map(bytes), new.map(bytes));
                match self.items.compare_exchange(key, old.as_deref(), new.as_deref())? {
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
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
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
                self.items.upsert_many(&pairs)?
            }
            Some((_, Action::Remove)) => self.items.remove_many(&keys)?,
            Some((_, Action::Get)) => self.items.get_many(&keys)?,
            _ => {
                drop(_write);
                return calls.iter().map(|&(key, action)| self.call(setup, key, action)).collect();
            }
        };
        records.into_iter().map(|record| found(setup, record)).collect()
    }

    fn settle(&self) {
        self.items.settle();
    }

    fn resizes(&self) -> (bool, u64) {
        let occupancy = self.items.occupancy();
        (occupancy.resizing, occupancy.resizes)
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        let mut wrong = None;
        let visited = self.items.for_each(&mut |key, value| {
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
        verdict(self.items.check(), self.items.len())
    }
}
