use crate::hash::BuildKeyHash;
use crate::pages::GiveBack;
use crate::peer::Peer;
use anyhow::Result;
use bench::Map;
use dashmap::{DashMap, Entry};

/// dashmap: hashbrown tables, each behind a lock; four times as many as there are processors.
pub struct Dash(DashMap<u64, u64, BuildKeyHash>, GiveBack);

impl Peer for Dash {
    const NAME: &'static str = "dashmap";
    const VERSION: &'static str = env!("VERSION_DASHMAP");

    fn open(capacity: u64) -> Result<Self> {
        let map = DashMap::with_capacity_and_hasher(capacity as usize, BuildKeyHash);
        Ok(Dash(map, GiveBack::default()))
    }
}

impl Map for Dash {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|value| *value)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        match self.0.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(value);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.0.get_mut(&key).map(|mut found| *found = value).is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.0.insert(key, value).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.0.remove(&key).is_some()
    }
}
