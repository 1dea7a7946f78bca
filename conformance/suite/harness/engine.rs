//! One engine, as the suite needs it.

use super::SEED;
use engines::Settings;
use index::Index;
use index::hash::{Hasher, h1, h2};
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// What the suite must know of an engine to judge it, as stated in `engines/<name>.rs`.
pub(crate) struct Engine {
    /// The engine in the list of all.
    pub(crate) listed: engines::Engine,
    /// Number of structural variants (block sizes and the like); 0 is the default one.
    pub(crate) variants: usize,
    /// Engine parameters of a table of a variant that begins with room for about `pairs` pairs; 0 for the smallest
    /// table.
    pub(crate) params: fn(variant: usize, pairs: u64) -> [u64; ENGINE_PARAMS],
    /// What its operations may cost.
    pub(crate) budget: Budget,
    /// A load factor at which the table grows only for a key that finds no room; if there is room for any number of
    /// keys, it never grows.
    pub(crate) as_late_as_possible: f64,
    /// Whether an update in this variant writes in place. If not, it takes space, and the space of the replaced pair is
    /// given back later.
    pub(crate) updates_in_place: fn(variant: usize) -> bool,
    /// Whether an update may move other pairs, and so make room for a pair that found none.
    pub(crate) updates_make_room: bool,
    /// Whether insertions drive a resize even if there is a helper. If not, the table fills up until the helper comes.
    pub(crate) insertions_end_resizes: bool,
    /// See [`Engine::colliding_keys`].
    pub(crate) colliding: LazyLock<Vec<u64>>,
}

impl Engine {
    /// Opens or creates the table in a pool.
    pub(crate) fn open<M: Medium>(
        &self,
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Box<dyn Index<u64, u64>>, OpenError> {
        Ok(self.listed.open_words(pool, settings)?.engine)
    }

    /// Keys other than 0 that share bucket and fingerprint in small tables under [`SEED`].
    pub(crate) fn colliding_keys(&self) -> &[u64] {
        &self.colliding
    }

    /// Whether a scan while others write meets every key that is present throughout exactly once.
    pub(crate) fn scans_exactly(&self) -> bool {
        self.listed.description().scans_exactly
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.listed.name())
    }
}

/// The most that the default variant of an engine may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// How full the table is when costs are counted, and at which load factor a table grows whose space is measured.
    pub(crate) load_factor: f64,
    /// Lines read by a search that finds its key, on average.
    pub(crate) lines_read_per_hit: f64,
    /// Lines read by a search that does not find its key, on average.
    pub(crate) lines_read_per_miss: f64,
    /// Lines written, flushes and fences of an insertion, each on average: 1 is the least.
    pub(crate) writes_per_insertion: f64,
    /// The same for an update that finds its key. A removal writes one line.
    pub(crate) writes_per_update: f64,
    /// Fences of a batch of 32 undisturbed mutations, on average.
    pub(crate) fences_per_batch: f64,
    /// Most lines of the pool that one insertion reads, and that it writes, while the table grows. For the engines that
    /// move pairs by buckets, little more than a few buckets have.
    pub(crate) lines_per_insertion_while_growing: u64,
    /// Bytes in pool and sidecar, items included, for each pair just before the table grows.
    pub(crate) bytes_per_pair: f64,
    /// Least number of pairs that a pool of this size holds, in any variant.
    pub(crate) pairs_in_300_kib: usize,
}

/// Keys other than 0 for which `shares` holds, under [`SEED`].
pub(crate) fn colliding(shares: impl Fn(&Hasher, u64) -> bool) -> Vec<u64> {
    let hasher = Hasher::new(SEED);
    (1..).filter(|&key| shares(&hasher, key)).take(120).collect()
}

/// Keys that share one bucket by either of two hashes, until there are 16 buckets.
pub(crate) fn colliding_by_two_hashes() -> Vec<u64> {
    colliding(|hasher, key| {
        let second = hasher.second_u64(key);
        h1(second) & 15 == 5 && h2(second) & 15 == 5
    })
}
