//! firndex's cache as a contender, and its store, with which the cache's look-ups are compared.

use crate::cache::{Cache, Room};
use crate::caching::Caching;
use crate::contender::Contender;
use crate::measured::{End, Rows};
use anyhow::{Result, bail};
use std::path::Path;
use std::time::Duration;

/// The cache's name.
pub(crate) const CACHE: &str = "firndex";
/// The store's.
pub(crate) const STORE: &str = "firndex-store";
/// The smallest capacity that a cache can have.
const CAPACITY_MIN: u64 = 256 << 10;

impl Cache for firndex::Cache {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        Ok(firndex::Cache::get(self, key)?.map(|found| is_right(&found)))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(firndex::Cache::put(self, key, value)?)
    }

    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()> {
        Ok(firndex::Cache::put_for(self, key, value, lives)?)
    }

    fn bytes(&self) -> Result<Option<u64>> {
        let stats = self.stats()?;
        Ok(Some(stats.pool_bytes + stats.volatile_bytes))
    }

    fn pairs(&self) -> Result<Option<u64>> {
        Ok(Some(self.stats()?.entries))
    }

    fn close(self) -> Result<()> {
        Ok(firndex::Cache::close(self)?)
    }
}

/// It has room for as many bytes of keys and values as the others, and for what it takes beside them.
fn capacity(room: Room) -> u64 {
    room.bytes_with_all().max(CAPACITY_MIN)
}

pub(crate) fn contender() -> Box<dyn Contender> {
    let make = |room: Room| Ok(firndex::Cache::in_memory(capacity(room))?);
    let open = |directory: &Path, room: Room| {
        Ok(firndex::Cache::open_or_create(directory.join("cache.firn"), capacity(room))?)
    };
    let cache = Caching::new(CACHE, env!("CARGO_PKG_VERSION"), make);
    Box::new(cache.reopening(&[End::Killed], open))
}

/// A store: it drops nothing, and its values have no ends.
struct Unbounded(firndex::Store);

impl Cache for Unbounded {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        Ok(self.0.get(key)?.map(|found| is_right(&found)))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value)?;
        Ok(())
    }

    fn put_for(&self, _: &[u8], _: &[u8], _: Duration) -> Result<()> {
        bail!("values of a store live without end")
    }
}

pub(crate) fn store() -> Box<dyn Contender> {
    let make = |_: Room| Ok(Unbounded(firndex::Options::new().in_memory_store()?));
    Box::new(Caching::new(STORE, env!("CARGO_PKG_VERSION"), make).only(Rows::GetHit))
}
