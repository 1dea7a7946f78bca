//! A store of bytes: items in the heap behind an engine, or in an engine that keeps bytes itself.

use super::{
    Failed, HASH_SEED, Refusal, Setup, Subject, place, read_only, sight, spec, sync, verdict,
};
use crate::history::{Action, Key, Value};
use engines::PreferredSight;
use index::hash::Hasher;
use index::{Copied, ItemError, Record, Records, SeenItems};
use pmem::Pool;
use pmem::medium::sim::Sim;
use pmem::pool::Spec;
use pmem::superblock::PoolKind;
use std::sync::Arc;

/// `Store` on an engine.
pub struct StoreSubject {
    records: Box<dyn Records>,
    pool: Arc<Pool<Sim>>,
    /// What a guest sees of it.
    seen: Option<SeenItems<PreferredSight<Sim>, Sim>>,
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
    if bytes_of(setup, value) == bytes {
        Ok(value)
    } else {
        Err(format!("found {bytes:x?}, which nobody stored"))
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
    /// How full the store's levels are.
    pub fn occupancy(&self) -> index::Occupancy {
        self.records.occupancy()
    }

    fn on(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, Refusal> {
        let hasher = Hasher::with_bits(HASH_SEED, setup.hash_bits);
        let opened = setup.engine.open_bytes(Arc::clone(&pool), hasher, setup.settings())?;
        let records = opened.engine;
        if !records.has_found_free_slots() {
            return Err(Refusal::Wrong("free slots that a close recorded are not there".into()));
        }
        if setup.has_helper {
            records.expect_help();
        }
        let seen = records.view().map(|view| sight(&pool, view)).transpose()?;
        let seen = seen.map(|sight| SeenItems::new(sight, Arc::clone(&pool), hasher));
        Ok(StoreSubject { records, pool, seen })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        match self.seen.as_ref().and_then(|seen| seen.get(key)) {
            Some(copied) => Ok(copied.map(Record::copied)),
            None => self.records.get(key),
        }
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Record<'_>>>, ItemError> {
        let Some(seen) = &self.seen else { return self.records.get_many(keys) };
        let all = seen.get_many(keys).into_iter().zip(keys);
        all.map(|(copied, key)| match copied {
            Some(copied) => Ok(copied.map(Record::copied)),
            None => self.records.get(key),
        })
        .collect()
    }
}

fn found(setup: &Setup, record: Option<Record<'_>>) -> Result<Option<Value>, Failed> {
    let value = record.map(|record| value_of(setup, record.bytes())).transpose();
    value.map_err(Failed::Wrong)
}

impl Subject for StoreSubject {
    fn name(setup: &Setup) -> String {
        format!("{} store", setup.engine)
    }

    fn scans_exactly(setup: &Setup) -> bool {
        setup.engine.description().scans_exactly
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let words =
            spec(setup, PoolKind::Store, setup.engine.description().id, setup.engine_params);
        let spec = Spec { key_bytes: 0, value_bytes: 0, ..words };
        StoreSubject::on(Arc::new(Pool::create(medium, &spec, place(0))?), setup)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        StoreSubject::on(Arc::new(Pool::open(medium, place(boot))?), setup)
    }

    fn open_read_only(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        StoreSubject::on(Arc::new(read_only(medium)?), setup)
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
            return found(setup, self.get(key)?);
        }
        let bytes = |value| bytes_of(setup, value);
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let record = match action {
            Action::Get => self.records.get(key)?,
            Action::Insert(value) => self.records.insert(key, &bytes(value))?,
            Action::Update(value) => self.records.update(key, &bytes(value))?,
            Action::Upsert(value) => self.records.upsert(key, &bytes(value))?,
            Action::Remove => self.records.remove(key)?,
            Action::OfCache(_) => return Err(Failed::of_cache(action)),
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
            Some((_, Action::Get)) => self.get_many(&keys)?,
            _ => {
                drop(_write);
                return calls.iter().map(|&(key, action)| self.call(setup, key, action)).collect();
            }
        };
        records.into_iter().map(|record| found(setup, record)).collect()
    }

    fn see(&self, setup: &Setup, keys: &[Key]) -> Result<Vec<Option<Option<Value>>>, Failed> {
        let Some(seen) = &self.seen else { return Ok(vec![None; keys.len()]) };
        let keys: Vec<[u8; 8]> =
            keys.iter().map(|&key| setup.keys[usize::from(key)].to_le_bytes()).collect();
        let all = match &keys[..] {
            [key] => vec![seen.get(key)],
            _ => seen.get_many(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>()),
        };
        let value = |copied: Copied| found(setup, copied.map(Record::copied));
        all.into_iter().map(|copied| copied.map(value).transpose()).collect()
    }

    fn help(&self) {
        self.records.help();
    }

    fn settle(&self) {
        self.records.settle();
    }

    fn close(&self) -> Result<(), String> {
        self.records.prepare_close();
        self.pool.record_pairs(Some(self.records.len()));
        self.pool.close().map_err(|error| error.to_string())
    }

    fn shrink(&self) -> Result<(), Failed> {
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        Ok(self.records.shrink().map(drop)?)
    }

    fn compact(&self) -> Result<(), Failed> {
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        while self.records.compact().freed_bytes > 0 {}
        while self.records.give_back() > 0 {}
        Ok(())
    }

    fn wait_for_writers(&self) {
        self.pool.wait_for_writers();
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
