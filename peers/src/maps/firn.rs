use super::{Batched, Map};
use crate::hash::SEED;
use firndex::{Options, Table};

/// firndex itself: a table in anonymous memory, through the facade that its users have.
pub struct Firn(Table<u64, u64>);

/// The pool has no limit and memory no file: an error here is a machine out of memory, which
/// ends the comparison.
const OUT_OF_MEMORY: &str = "firndex needs more memory than there is";

impl Firn {
    /// With room for `pairs`.
    pub fn open(pairs: u64, _threads: usize) -> Self {
        let options = Options::new().capacity(pairs).hash_seed(SEED);
        Firn(options.in_memory_table().expect(OUT_OF_MEMORY))
    }
}

impl Map for Firn {
    fn name(&self) -> &'static str {
        "firndex"
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key).expect(OUT_OF_MEMORY)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.0.insert(key, value).expect(OUT_OF_MEMORY).is_none()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) -> bool {
        self.0.update(key, value).expect(OUT_OF_MEMORY).is_some()
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> bool {
        self.0.put(key, value).expect(OUT_OF_MEMORY).is_some()
    }

    #[inline]
    fn remove(&self, key: u64) -> bool {
        self.0.remove(key).expect(OUT_OF_MEMORY).is_some()
    }

    fn batched(&self) -> Batched {
        Batched::Everything
    }

    #[inline]
    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        self.0.get_many_into(keys, out).expect(OUT_OF_MEMORY);
    }

    #[inline]
    fn upsert_many(&self, pairs: &[(u64, u64)], out: &mut [bool]) {
        let replaced = self.0.put_many(pairs).expect(OUT_OF_MEMORY);
        for (replaced, out) in replaced.iter().zip(out) {
            *out = replaced.is_some();
        }
    }

    #[inline]
    fn remove_many(&self, keys: &[u64], out: &mut [bool]) {
        let removed = self.0.remove_many(keys).expect(OUT_OF_MEMORY);
        for (removed, out) in removed.iter().zip(out) {
            *out = removed.is_some();
        }
    }
}
