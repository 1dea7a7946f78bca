//! moka: W-TinyLFU. Its size and its recency are brought up to date in the background of other calls.

use super::Key;
use crate::pages::GiveBack;
use anyhow::Result;
use bench::{Cache, Contender, Room};
use moka::Expiry;
use moka::sync::Cache as Inner;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes, and how long they live.
#[derive(Clone)]
struct Value {
    bytes: Arc<[u8]>,
    lives: Option<Duration>,
}

struct ByValue;

impl Expiry<Key, Value> for ByValue {
    fn expire_after_create(&self, _: &Key, value: &Value, _: Instant) -> Option<Duration> {
        value.lives
    }

    fn expire_after_update(
        &self,
        _: &Key,
        value: &Value,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        value.lives
    }
}

/// Dropped before its memory is given back.
struct Moka(Inner<Key, Value>, GiveBack);

impl Cache for Moka {
    #[inline]
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        Ok(self.0.get(key).map(|value| is_right(&value.bytes)))
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key.into(), Value { bytes: value.into(), lives: None });
        Ok(())
    }

    #[inline]
    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()> {
        self.0.insert(key.into(), Value { bytes: value.into(), lives: Some(lives) });
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.0.run_pending_tasks();
        Ok(())
    }
}

pub(super) fn contender() -> Box<dyn Contender> {
    super::contender("moka", env!("VERSION_MOKA"), |room: Room| {
        let cache = Inner::builder()
            .max_capacity(room.bytes)
            .weigher(|key: &Key, value: &Value| (key.len() + value.bytes.len()) as u32)
            .expire_after(ByValue)
            .build();
        Moka(cache, GiveBack::default())
    })
}
