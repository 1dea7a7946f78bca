//! Places of keys in a damaged pool.

use super::geometry::pair_among;
use super::tables::TABLES;
use crate::kit::hash::Hash;
use crate::wreck::{Wreck, units_log2};
use pmem::superblock::Extent;

/// The buckets that a key can be in, if that can be determined.
pub(crate) struct Homes {
    /// The data tables.
    pub(crate) tables: Vec<Extent>,
    /// log2 of the buckets of the first one, and of all.
    logs2: Option<(u32, u32)>,
}

/// Those of the pool's data tables, whose buckets have this many bytes.
pub(crate) fn homes_in(wreck: &Wreck<'_>, bucket_bytes: u64) -> Homes {
    let tables = wreck.extents(TABLES);
    let first = tables.first().map(|first| first.bytes / bucket_bytes);
    let first = first.filter(|first| first.is_power_of_two()).map(u64::ilog2);
    let logs2 = first.zip(units_log2(&tables, bucket_bytes));
    Homes { tables, logs2 }
}

impl Homes {
    /// Whether a bucket is one that a key with this hash has, or had before tables were added or taken away.
    pub(crate) fn are_of(&self, bucket: u64, hash: u64) -> bool {
        let Some((first_log2, last_log2)) = self.logs2 else { return true };
        (first_log2..=last_log2)
            .any(|log2| pair_among(log2, first_log2, Hash(hash)).contains(&bucket))
    }
}
