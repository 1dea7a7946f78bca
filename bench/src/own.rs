//! firndex's own pools as stores of byte strings.

use crate::byte_store::{AfterKill, ByteStore, Pair, See};
use crate::choices::{Kind, Logging};
use anyhow::Result;
use firndex::{Engine, Medium, Options, Store, Table};
use std::path::{Path, PathBuf};

/// What SIGKILL leaves.
pub(crate) const AFTER_KILL: AfterKill = AfterKill { text: "every put", is_all: true };

/// Where a pool and its companions are.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) pool: PathBuf,
    /// The directory of its log and checkpoints.
    pub(crate) logs: PathBuf,
}

impl Place {
    /// With the pool in `pools` if it is not beside its log.
    pub(crate) fn new(directory: &Path, pools: Option<&Path>) -> Place {
        let pool = pools.unwrap_or(directory).join("bench.firn");
        Place { pool, logs: directory.to_owned() }
    }
}

/// Options of a pool with a log or without.
pub(crate) fn options(engine: Engine, logging: Logging, place: &Place, seed: u64) -> Options {
    let options = Options::new().engine(engine).medium(Medium::Mapped).hash_seed(seed);
    let options = options.durability(logging.durability());
    if logging == Logging::Process { options } else { options.log_directory(&place.logs) }
}

/// The pool at a place, opened or created. Tables are made large enough for so many pairs; stores are not told.
pub(crate) fn open(
    options: &Options,
    kind: Kind,
    place: &Place,
    pairs: u64,
) -> Result<Box<dyn ByteStore>> {
    Ok(match kind {
        Kind::Store => Box::new(Own(options.open_or_create_store(&place.pool)?)),
        Kind::Table => {
            let options = options.clone().capacity(pairs);
            Box::new(Words(options.open_or_create_table(&place.pool)?))
        }
    })
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

    fn wait_until_built(&self) -> Result<()> {
        self.0.stats()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<u64> {
        self.0.close()?;
        Ok(0)
    }
}

/// A table of words, each a string of 8 bytes.
struct Words(Table);

fn word(bytes: &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes.try_into()?))
}

impl ByteStore for Words {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        for (key, value) in pairs {
            self.0.put(word(key)?, word(value)?)?;
        }
        Ok(())
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            let found = self.0.get(word(key)?)?.map(u64::to_le_bytes);
            see(place, found.as_ref().map(|found| &found[..]));
        }
        Ok(())
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut removed = 0;
        for key in keys {
            removed += usize::from(self.0.remove(word(key)?)?.is_some());
        }
        Ok(Some(removed))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.0.sync()?)
    }

    fn wait_until_built(&self) -> Result<()> {
        self.0.stats()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<u64> {
        self.0.close()?;
        Ok(0)
    }
}
