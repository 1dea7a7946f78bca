use crate::hash::BuildKeyHash;
use crate::pages::GiveBack;
use crate::peer::Peer;
use anyhow::Result;
use bench::{Batched, Map};
use papaya::HashMap;

/// papaya: lock-free, each pair in an allocation of its own. A single call pins the reclamation
/// by itself; a batch of look-ups does so once, which is all it gains.
pub struct Papaya(HashMap<u64, u64, BuildKeyHash>, GiveBack);

impl Peer for Papaya {
    const NAME: &'static str = "papaya";
    const VERSION: &'static str = env!("VERSION_PAPAYA");

    fn open(capacity: u64) -> Result<Self> {
        let map = HashMap::with_capacity_and_hasher(capacity as usize, BuildKeyHash);
        Ok(Papaya(map, GiveBack::default()))
    }
}

impl Map for Papaya {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.pin().get(&key).copied()
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.0.pin().try_insert(key, value).is_ok()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.0.pin().update(key, |_| value).is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.0.pin().insert(key, value).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.0.pin().remove(&key).is_some()
    }

    fn batched(&self) -> Batched {
        Batched::Gets
    }

    #[inline]
    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        let map = self.0.pin();
        for (key, out) in keys.iter().zip(out) {
            *out = map.get(key).copied();
        }
    }
}
