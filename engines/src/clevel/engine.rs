//! How Clevel hashing describes itself.

use super::{Clevel, ClevelTable, Core, Shape};
use crate::Settings;
use crate::engine::{Describe, Description, HotPath, PairSizes, Parameters, Wanted};
use crate::sizes::{check_sizes, not_kept};
use crate::wreck::{Found, Wreck};
use index::hash::Hasher;
use index::{Fixed, Index, Record};
use pmem::heap::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::sync::Arc;

/// Clevel hashing in the list of engines.
#[derive(Debug)]
pub enum Engine {}

impl Describe for Engine {
    const DESCRIPTION: Description = Description {
        id: 3,
        name: "clevel",
        title: "Clevel hashing",
        paper: "Chen, Hua, Ding, Zuo: Lock-free Concurrent Level Hashing for Persistent Memory. \
                USENIX ATC 2020",
        summary: "No thread ever waits for another, not even during a resize. Every pair is an item in the heap.",
        pair_sizes: "keys of 1 byte to 64 KiB and values of at most 256 MiB",
        pair_bytes_max: (KEY_BYTES_MAX + VALUE_BYTES_MAX) as u64,
        parameters: &[],
        shrinks_by_itself: false,
        scans_exactly: true,
        is_lock_free: true,
        has_helpers: true,
        opens_at_once: false,
    };

    type Words<M: Medium> = ClevelTable<M, u64, u64>;
    type Bytes<M: Medium> = Clevel<M>;
    type HotPath<M: Medium> = Hot<M>;

    fn takes(sizes: PairSizes, parameters: &Parameters) -> bool {
        parameters.iter().next().is_none()
            && (1..=KEY_BYTES_MAX).contains(&(sizes.key_bytes as usize))
            && sizes.value_bytes as usize <= VALUE_BYTES_MAX
    }

    fn engine_params(wanted: &Wanted<'_>) -> [u64; ENGINE_PARAMS] {
        Shape::default().for_pairs(wanted.pairs, wanted.resize_at).encode()
    }

    fn open_words<M: Medium>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Self::Words<M>, OpenError> {
        ClevelTable::open(pool, settings)
    }

    fn open_pairs<M: Medium, K: Fixed, V: Fixed>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Box<dyn Index<K, V>>, OpenError> {
        // It is not compiled for pairs that no item holds.
        if const { K::BYTES > 0 && K::BYTES <= KEY_BYTES_MAX && V::BYTES <= VALUE_BYTES_MAX } {
            Ok(Box::new(ClevelTable::<M, K, V>::open(pool, settings)?))
        } else {
            check_sizes::<K, V>(&pool.superblock())?;
            Err(not_kept::<K, V>(Self::DESCRIPTION.pair_sizes))
        }
    }

    fn salvage<K: Fixed, V: Fixed>(wreck: &mut Wreck<'_>, visit: &mut dyn FnMut(Found<'_, K, V>)) {
        super::salvage::salvage(wreck, visit);
    }

    fn open_bytes<M: Medium>(
        pool: Arc<Pool<M>>,
        hasher: Hasher,
        settings: Settings,
    ) -> Result<Clevel<M>, OpenError> {
        Clevel::open_hashed(pool, hasher, settings)
    }

    fn hot_path_of_bytes<M: Medium>(store: &Clevel<M>) -> Option<Hot<M>> {
        Some(Hot(Arc::clone(&store.core)))
    }
}

/// Look-ups in a store: what they return need not pass through memory.
pub struct Hot<M: Medium>(Arc<Core<M>>);

impl<M: Medium> HotPath for Hot<M> {
    #[inline(always)]
    fn get_bytes<'a>(&'a self, key: &[u8]) -> Option<Option<Record<'a>>> {
        self.0.get_here(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_fits_an_item() {
        for (key_bytes, value_bytes, is_taken) in [
            (8, 8, true),
            (1, 0, true),
            (100, 100, true),
            (64 << 10, 256 << 20, true),
            ((64 << 10) + 1, 0, false),
            (1, (256 << 20) + 1, false),
            (0, 8, false),
            (u32::MAX, u32::MAX, false),
        ] {
            let sizes = PairSizes { key_bytes, value_bytes };
            assert_eq!(Engine::takes(sizes, &Parameters::default()), is_taken, "{sizes:?}");
        }
        let mut parameters = Parameters::default();
        parameters.set("slots", 4);
        assert!(!Engine::takes(PairSizes::WORDS, &parameters));
    }
}
