use crate::hash::BuildKeyHash;
use crate::pages::GiveBack;
use crate::peer::Peer;
use anyhow::Result;
use bench::Map;
use scc::HashMap;

/// scc's HashMap: buckets of 32 pairs with a lock each.
pub struct Scc(HashMap<u64, u64, BuildKeyHash>, GiveBack);

impl Peer for Scc {
    const NAME: &'static str = "scc";
    const VERSION: &'static str = env!("VERSION_SCC");

    fn open(capacity: u64) -> Result<Self> {
        let map = HashMap::with_capacity_and_hasher(capacity as usize, BuildKeyHash);
        Ok(Scc(map, GiveBack::default()))
    }
}

impl Map for Scc {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read_sync(&key, |_, value| *value)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.0.insert_sync(key, value).is_ok()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.0.update_sync(&key, |_, found| *found = value).is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.0.upsert_sync(key, value).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.0.remove_sync(&key).is_some()
    }
}
