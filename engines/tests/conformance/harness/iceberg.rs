//! IcebergHT, as the suite sees it.

use super::{Budget, Engine, SEED};
use engines::Settings;
use engines::iceberg::hash::{h0, level1_fingerprint};
use engines::iceberg::{self, Iceberg, Shape};
use index::hash::Hasher;
use pmem::{Medium, OpenError, Pool};
use std::sync::{Arc, OnceLock};

/// IcebergHT.
pub(crate) struct IcebergHt;

impl IcebergHt {
    /// Slots of a level-1 and of a level-2 block, by variant.
    pub(crate) const BLOCKS: [(u32, u32); 6] =
        [(64, 8), (32, 4), (32, 6), (64, 4), (64, 6), (32, 8)];
}

impl Engine for IcebergHt {
    const ID: u32 = iceberg::ENGINE_ID;
    const VARIANTS: usize = IcebergHt::BLOCKS.len();
    const BUDGET: Budget = Budget {
        load_factor: 0.85,
        lines_read_per_hit: 1.3,
        lines_read_per_miss: 0.3,
        writes_per_insertion: 1.0,
        writes_per_update: 1.0,
        fences_per_batch: 1.1,
        bytes_per_pair: 20.5,
        pairs_in_300_kib: 3000,
    };

    const AS_LATE_AS_POSSIBLE: f64 = 2.0;
    const SCANS_ARE_EXACT: bool = false;

    type Index<M: Medium> = Iceberg<M>;

    fn params(variant: usize, pairs: u64) -> [u64; 16] {
        let (level_1_slots, level_2_slots) = IcebergHt::BLOCKS[variant];
        let initial_nodes_log2 = if pairs == 0 { 0 } else { 5 };
        let smallest = Shape { level_1_slots, level_2_slots, initial_log2: 0, initial_nodes_log2 };
        iceberg::engine_params(&smallest.for_pairs(pairs, 1.0))
    }

    fn open<M: Medium>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Self::Index<M>, OpenError> {
        Iceberg::open(pool, settings)
    }

    fn colliding_keys() -> &'static [u64] {
        static KEYS: OnceLock<Vec<u64>> = OnceLock::new();
        KEYS.get_or_init(|| {
            let hasher = Hasher::new(SEED);
            // One level-1 block until there are 32, and one fingerprint in it.
            let shares = |&key: &u64| {
                let first = hasher.first_u64(key);
                h0(first) & 31 == 5 && level1_fingerprint(first) == 200
            };
            (1..).filter(shares).take(120).collect()
        })
    }
}
