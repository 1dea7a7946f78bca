//! Clevel hashing, as the suite sees it.

use super::{Budget, Engine, SEED};
use engines::Settings;
use engines::clevel::{self, ClevelTable, Shape};
use index::hash::{Hasher, h1, h2};
use pmem::{Medium, OpenError, Pool};
use std::sync::{Arc, OnceLock};

/// Clevel hashing.
pub(crate) struct ClevelHashing;

impl Engine for ClevelHashing {
    const ID: u32 = clevel::ENGINE_ID;
    const VARIANTS: usize = 1;
    const BUDGET: Budget = Budget {
        load_factor: 0.75,
        lines_read_per_hit: 3.2,
        lines_read_per_miss: 1.2,
        writes_per_insertion: 2.001,
        writes_per_update: 2.001,
        fences_per_batch: 64.1,
        bytes_per_pair: 48.2,
        pairs_in_300_kib: 900,
    };

    const AS_LATE_AS_POSSIBLE: f64 = 1.0;
    const UPDATES_IN_PLACE: bool = false;
    const INSERTIONS_END_RESIZES: bool = false;

    type Index<M: Medium> = ClevelTable<M>;

    fn params(_: usize, pairs: u64) -> [u64; 16] {
        clevel::engine_params(&Shape { initial_log2: 1 }.for_pairs(pairs, 1.0))
    }

    fn open<M: Medium>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Self::Index<M>, OpenError> {
        ClevelTable::open(pool, settings)
    }

    fn colliding_keys() -> &'static [u64] {
        static KEYS: OnceLock<Vec<u64>> = OnceLock::new();
        KEYS.get_or_init(|| {
            let hasher = Hasher::new(SEED);
            // One bucket, by either hash, until there are 16.
            let shares = |&key: &u64| {
                let second = hasher.second_u64(key);
                h1(second) & 15 == 5 && h2(second) & 15 == 5
            };
            (1..).filter(shares).take(120).collect()
        })
    }
}
