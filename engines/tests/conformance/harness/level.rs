//! Level hashing, as the suite sees it.

use super::{Budget, Engine, SEED};
use engines::Settings;
use engines::level::{self, Design, LevelHashing, Shape};
use index::hash::{Hasher, h1, h2};
use pmem::{Medium, OpenError, Pool};
use std::sync::{Arc, OnceLock};

/// Level hashing.
pub(crate) struct LevelTable;

impl LevelTable {
    /// Slots of a bucket and the design decisions, by variant.
    pub(crate) fn variant(variant: usize) -> (u32, Design) {
        let all = Design::default();
        let moved = Design { in_place_update: false, ..all };
        let logged = Design { log_free_update: false, ..moved };
        let plain = Design { dynamic_search: false, bottom_to_top: false, ..all };
        // First what tables of words are made with.
        let usual = Shape::for_pair_bytes(16).slots;
        [(usual, all), (4, moved), (4, logged), (1, all), (8, plain), (7, moved), (4, all)][variant]
    }
}

impl Engine for LevelTable {
    const ID: u32 = level::ENGINE_ID;
    const VARIANTS: usize = 7;
    const BUDGET: Budget = Budget {
        load_factor: 0.75,
        lines_read_per_hit: 1.02,
        lines_read_per_miss: 0.04,
        writes_per_insertion: 1.12,
        writes_per_update: 1.0,
        fences_per_batch: 2.1,
        bytes_per_pair: 42.0,
        pairs_in_300_kib: 900,
    };

    const AS_LATE_AS_POSSIBLE: f64 = 1.0;

    type Index<M: Medium> = LevelHashing<M>;

    fn params(variant: usize, pairs: u64) -> [u64; 16] {
        let (slots, design) = LevelTable::variant(variant);
        let smallest = Shape { slots, initial_log2: 1, design };
        level::engine_params(&smallest.for_pairs(pairs, 1.0))
    }

    fn open<M: Medium>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Self::Index<M>, OpenError> {
        LevelHashing::open(pool, settings)
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
