//! firndex's cache as a contender.

use crate::cache::{Cache, Room};
use crate::caching::Caching;
use crate::contender::Contender;
use anyhow::Result;
use std::time::Duration;

/// What an entry takes in the pool beside its key and its value: other caches do not count what theirs take.
const BESIDE_BYTES: u64 = 36;

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
}

/// It has room for as many bytes of keys and values as the others, and for what it takes beside them.
pub(crate) fn contender() -> Box<dyn Contender> {
    let open = |room: Room| {
        let capacity_bytes = room.bytes + room.pairs as u64 * BESIDE_BYTES;
        Ok(firndex::Cache::in_memory(capacity_bytes.max(256 << 10))?)
    };
    Box::new(Caching { name: "firndex".into(), version: env!("CARGO_PKG_VERSION").into(), open })
}
