use super::Map;
use crate::hash::BuildKeyHash;
use scc::HashMap;

/// scc's HashMap: buckets of 32 pairs with a lock each.
pub struct Scc(HashMap<u64, u64, BuildKeyHash>);

impl Scc {
    /// With room for `pairs`.
    pub fn open(pairs: u64, _threads: usize) -> Self {
        Scc(HashMap::with_capacity_and_hasher(pairs as usize, BuildKeyHash))
    }
}

impl Map for Scc {
    fn name(&self) -> &'static str {
        "scc"
    }

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
