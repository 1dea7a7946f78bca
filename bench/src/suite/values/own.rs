//! firndex's own store.

use crate::byte_store::{AfterKill, ByteStore, Pair, See};
use anyhow::Result;
use firndex::{Durability, Engine, Medium, Options, Store};
use std::path::Path;

/// What SIGKILL leaves.
pub(crate) const AFTER_KILL: AfterKill = AfterKill { text: "every put", is_all: true };

/// A pool of durability `process` in a directory, opened or created. It is not told how many pairs will come.
pub(crate) fn open_own(engine: Engine, directory: &Path, seed: u64) -> Result<Box<dyn ByteStore>> {
    let options = Options::new()
        .engine(engine)
        .medium(Medium::Mapped)
        .durability(Durability::Process)
        .hash_seed(seed);
    Ok(Box::new(Own(options.open_or_create_store(directory.join("bench.firn"))?)))
}

struct Own(Store);

impl ByteStore for Own {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        for (key, value) in pairs {
            self.0.put(key, value)?;
        }
        Ok(())
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            see(place, self.0.get(key)?.as_deref());
        }
        Ok(())
    }

    fn has_get_many(&self) -> bool {
        true
    }

    fn get_many(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        for (place, found) in self.0.get_many(keys)?.iter().enumerate() {
            see(place, found.as_deref());
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut removed = 0;
        for key in keys {
            removed += usize::from(self.0.remove(key)?.is_some());
        }
        Ok(Some(removed))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.0.sync()?)
    }
}
