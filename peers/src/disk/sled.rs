//! sled: a B-link tree of pages in a log, with any number of writers.
//!
//! A thread of its own writes the log out twice a second. SIGKILL takes what it has not written yet.

use super::{CACHE_BYTES, Mode, contender, fast};
use anyhow::Result;
use bench::{ByteStore, Contender, Pair, See};
use sled::{Config, Db, Mode as Aim};
use std::path::Path;

struct Sled(Db);

impl Sled {
    fn open(directory: &Path) -> Result<Sled> {
        let config = Config::new().path(directory.join("sled")).mode(Aim::HighThroughput);
        Ok(Sled(config.cache_capacity(CACHE_BYTES as u64).open()?))
    }
}

impl ByteStore for Sled {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        for (key, value) in pairs {
            self.0.insert(key, *value)?;
        }
        Ok(())
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            see(place, self.0.get(key)?.as_deref());
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
        self.0.flush()?;
        Ok(())
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let mode: Mode = fast("", None).keeping_some("all but the last 0.5 s");
    vec![contender("sled", env!("VERSION_SLED"), mode, true, Sled::open)]
}
