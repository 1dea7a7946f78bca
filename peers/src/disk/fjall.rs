//! fjall: a log-structured merge tree with a journal.

use super::{CACHE_BYTES, Mode, contender, fast};
use anyhow::Result;
use bench::{ByteStore, Contender, Pair, See};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use std::path::Path;

struct Fjall {
    database: Database,
    pairs: Keyspace,
    is_durable: bool,
}

impl Fjall {
    fn open(directory: &Path, is_durable: bool) -> Result<Fjall> {
        let builder = Database::builder(directory.join("fjall"));
        let database = builder.cache_size(CACHE_BYTES as u64).open()?;
        let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, pairs, is_durable })
    }

    fn batch(&self) -> OwnedWriteBatch {
        let mode = if self.is_durable { PersistMode::SyncData } else { PersistMode::Buffer };
        self.database.batch().durability(Some(mode))
    }
}

impl ByteStore for Fjall {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        if let [(key, value)] = pairs {
            self.pairs.insert(*key, *value)?;
            return if self.is_durable { self.sync() } else { Ok(()) };
        }
        let mut batch = self.batch();
        for (key, value) in pairs {
            batch.insert(&self.pairs, *key, *value);
        }
        Ok(batch.commit()?)
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            see(place, self.pairs.get(key)?.as_deref());
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut batch = self.batch();
        for key in keys {
            batch.remove(&self.pairs, *key);
        }
        batch.commit()?;
        Ok(None)
    }

    fn sync(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let buffer = fast("buffer", Some("a prefix, but for some s")).keeping("every batch");
    let of = |mode: Mode, is_durable: bool| {
        let open = move |directory: &Path| Fjall::open(directory, is_durable);
        contender("fjall", env!("VERSION_FJALL"), mode, true, open)
    };
    vec![of(Mode::DURABLE, true), of(buffer, false)]
}
