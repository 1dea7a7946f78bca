//! quick_cache: CLOCK-Pro. It wants to know how many pairs to expect.

use super::{Ending, Key};
use crate::pages::GiveBack;
use anyhow::Result;
use bench::{Cache, Contender, Room};
use quick_cache::Weighter;
use quick_cache::sync::Cache as Inner;
use std::sync::Arc;
use std::time::Duration;

type Value = Ending<Arc<[u8]>>;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Value> for ByBytes {
    fn weight(&self, key: &Key, value: &Value) -> u64 {
        (key.len() + value.bytes.len()) as u64
    }
}

/// Dropped before its memory is given back.
struct Quick(Inner<Key, Value, ByBytes>, GiveBack);

impl Cache for Quick {
    #[inline]
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        let found = self.0.get(key).filter(Value::is_there);
        Ok(found.map(|value| is_right(&value.bytes)))
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
    super::contender("quick-cache", env!("VERSION_QUICK_CACHE"), |room: Room| {
        let cache = Inner::with_weighter(room.pairs, room.bytes, ByBytes);
        Quick(cache, GiveBack::default())
    })
}
