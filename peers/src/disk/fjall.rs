//! fjall: a log-structured merge tree with a journal.

use super::{EVERY_PUT, Mode, contender};
use anyhow::Result;
use bench::{Contender, DurableMap};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

struct Fjall {
    database: Database,
    pairs: Keyspace,
    is_durable: bool,
}

impl Fjall {
    fn open(directory: &Path, is_durable: bool) -> Result<Fjall> {
        let database = Database::builder(directory.join("fjall")).open()?;
        let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, pairs, is_durable })
    }
}

impl DurableMap for Fjall {
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.pairs.insert(key.to_be_bytes(), value.to_be_bytes())?;
        if self.is_durable { self.sync() } else { Ok(()) }
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        let mode = if self.is_durable { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for (key, value) in pairs {
            batch.insert(&self.pairs, key.to_be_bytes(), value.to_be_bytes());
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let found = self.pairs.get(key.to_be_bytes())?;
        let value = |bytes: &[u8]| Ok(u64::from_be_bytes(bytes.try_into()?));
        found.map(|bytes| value(&bytes)).transpose()
    }

    fn sync(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let durable = Mode { name: "", promise: EVERY_PUT };
    let fast = Mode { name: "buffer", promise: "a prefix, but for some s" };
    let of = |mode: Mode, is_durable: bool| {
        let open = move |directory: &Path| Fjall::open(directory, is_durable);
        contender("fjall", env!("VERSION_FJALL"), &mode, true, open)
    };
    vec![of(durable, true), of(fast, false)]
}
