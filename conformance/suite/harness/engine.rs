//! One engine, as the suite needs it.

use super::SEED;
use engines::Settings;
use index::Index;
use index::hash::{Hasher, h1, h2};
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// What the suite must know of an engine to judge it. Its own file says it: `engines/<name>.rs`.
pub(crate) struct Engine {
    /// The engine in the list of all.
    pub(crate) listed: engines::Engine,
    /// Number of structural variants (block sizes and the like); 0 is the default one.
    pub(crate) variants: usize,
    /// Engine parameters of a table of a variant that begins with room for about so many pairs; 0 for the
    /// smallest there is.
    pub(crate) params: fn(variant: usize, pairs: u64) -> [u64; ENGINE_PARAMS],
    /// What its operations may cost.
    pub(crate) budget: Budget,
    /// A load factor at which it grows only for a key that finds no room: never, if there is room
    /// for any number of keys.
    pub(crate) as_late_as_possible: f64,
    /// Whether an update, in this variant, writes where the pair is. If not, it takes space, and what it
    /// replaced is given back later.
    pub(crate) updates_in_place: fn(variant: usize) -> bool,
    /// Whether an update may move other pairs, and so make room for one that there was none for.
    pub(crate) updates_make_room: bool,
    /// Whether insertions drive a resize also if there is a helper. If not, the table fills on until
    /// the helper comes.
    pub(crate) insertions_end_resizes: bool,
    /// As [`Engine::colliding_keys`].
    pub(crate) colliding: LazyLock<Vec<u64>>,
}

impl Engine {
    /// Opens or makes the table in a pool.
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

    /// Whether a scan beside writers meets every key that is present throughout exactly once.
    pub(crate) fn scans_exactly(&self) -> bool {
        self.listed.description().scans_exactly
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.listed.name())
    }
}

/// Most that the default variant of an engine may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// How full the table is in which costs are counted, and where a table grows whose space is.
    pub(crate) load_factor: f64,
    /// Lines read by a search that finds its key, on average.
    pub(crate) lines_read_per_hit: f64,
    /// Lines read by a search that does not, on average.
    pub(crate) lines_read_per_miss: f64,
    /// Lines written by an insertion, and its flushes, and its fences, on average: 1 is the least.
    pub(crate) writes_per_insertion: f64,
    /// The same of an update that finds its key. A removal writes one line.
    pub(crate) writes_per_update: f64,
    /// Fences of a batch of 32 undisturbed mutations, on average.
    pub(crate) fences_per_batch: f64,
    /// Lines of the pool that one insertion reads and those that it writes, at most, while the table grows. Of the
    /// engines that move pairs by buckets, little more than what is in a few.
    pub(crate) lines_per_insertion_while_growing: u64,
    /// Bytes in pool and sidecar, items included, for each pair just before the table grows.
    pub(crate) bytes_per_pair: f64,
    /// Pairs that a pool of this size holds at least, whatever the variant.
    pub(crate) pairs_in_300_kib: usize,
}

/// Keys other than 0 that share what `shares` asks for, under [`SEED`].
pub(crate) fn colliding(shares: impl Fn(&Hasher, u64) -> bool) -> Vec<u64> {
    let hasher = Hasher::new(SEED);
    (1..).filter(|&key| shares(&hasher, key)).take(120).collect()
}

/// Keys of one bucket, by either of two hashes, until there are 16 buckets.
pub(crate) fn colliding_by_two_hashes() -> Vec<u64> {
    colliding(|hasher, key| {
        let second = hasher.second_u64(key);
        h1(second) & 15 == 5 && h2(second) & 15 == 5
    })
}
