//! foyer's cache in memory, with S3-FIFO.

use super::{Ending, Key};
use crate::pages::GiveBack;
use anyhow::Result;
use bench::{Cache, Contender, Room};
use foyer_memory::{Cache as Inner, CacheBuilder, S3FifoConfig};
use std::time::Duration;

type Value = Ending<Box<[u8]>>;

/// Dropped before its memory is given back.
struct Foyer(Inner<Key, Value>, GiveBack);

impl Cache for Foyer {
    #[inline]
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        let found = self.0.get(key).filter(|entry| entry.value().is_there());
        Ok(found.map(|entry| is_right(&entry.value().bytes)))
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key.into(), Value::new(value, None));
        Ok(())
    }

    #[inline]
    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()> {
        self.0.insert(key.into(), Value::new(value, Some(lives)));
        Ok(())
    }
}

pub(super) fn contender() -> Box<dyn Contender> {
    super::contender("foyer-s3fifo", env!("VERSION_FOYER_MEMORY"), |room: Room| {
        let cache = CacheBuilder::new(room.bytes as usize)
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(|key: &Key, value: &Value| key.len() + value.bytes.len())
            .build();
        Foyer(cache, GiveBack::default())
    })
}
