//! Rewo-Hash.
//!
//! Li, Huang: *A Read-Efficient and Write-Optimized Hash Table for Intel Optane DC Persistent Memory*.
//!
//! | the paper | here |
//! |---|---|
//! | Persistent Table, data table, bucket, slot | `layout` |
//! | meta: bitmap, lockmap, fingerprints | the first word of a bucket |
//! | directory, owner table, bit set, MSB | `doubling`: the owner is where the first choice lies |
//! | Cached Table, cache_search (algorithm 1), cache_overflow, full-loaded, partial-loaded | `cache` |
//! | submit_cache_insert | `search`: `fill_cache` |
//! | k-cuckoo hashing, persistent_hash() | h1 and h2 of [`index::hash`], `doubling` |
//! | pm_search (algorithm 2) | `search`: `look_for`; `kit::search` |
//! | pm_insert, pm_update, pm_delete (algorithms 3 to 5) | `ops`: `insert`, `slot_for_update`, `erase`; `kit::change` |
//! | cuckoo_move, eviction | `ops`: `evict`, `move_item` |
//! | extend, shrink, rehash_count (section 3.6) | `doubling`: `begin_extension`, `begin_shrink`, then `drain` bucket by bucket; the cursor |
//! | rewo_recover (algorithm 6), refilling the Cached Table (section 3.7) | `recover`, `refill` |
//!
//! Invariants, with those of the kit:
//!
//! 1. A key is in at most one slot that is in use, except while an item is moved. Then both copies are equal, and the
//!    locks of both buckets are held. In an eviction, the slot that the item leaves is locked in the durable meta word.
//!    In a resize, it lies in a bucket that the resize has not emptied.
//! 2. With a cached table, every change of a key happens under its home.
//!
//! Departures from the paper, and why:
//!
//! 1. Readers wait for no lock and use no hardware transactions (algorithms 1 and 2): they read a slot between two
//!    reads of its bucket's version. A negative search is valid only if no bucket that it read has changed, since an
//!    item may move from a bucket not yet searched to one that was.
//! 2. Locks are in the sidecar: one for a bucket, and one for all changes of a key, its home. With locks on slots only,
//!    two insertions of one key into different slots would both succeed. The lockmap in the pool only marks items that
//!    are being evicted.
//! 3. Fingerprints of 8 bits in the sidecar, in addition to those in the pool, which for 15 slots have 2 bits.
//! 4. An insertion goes to the emptier one of two buckets, which fills more of the table, and first to slots in
//!    the line of the meta word, which saves a flush and a fence.
//! 5. A value of one word is overwritten in place: a word is atomic.
//! 6. An update of a longer value in a full bucket from which nothing can be evicted uses a log. Without one it would
//!    fail in a table that may not grow.
//! 7. The bits of a key that determine its owner are those above the bits of its first bucket. So tables need no
//!    directory entries, and there may be as many tables as doublings, without a full migration after 16.
//! 8. An item is updated where it is found, even in an old table. The paper writes the new value to the new table and
//!    then deletes the old one; a crash between the two leaves two different values.
//! 9. A shrink that cannot place an item turns back into an extension.
//! 10. Entries of the cached table change under the lock of their key's home, and are busy while their key changes; the
//!     head of `cache` has the argument. With the paper's locks of entries, a look-up that missed could cache the old
//!     value after a writer has replaced it. No item of the cached table moves to its other bucket. Its buckets have
//!     fingerprints, too. If a look-up could only replace an entry, one in a few does so: pairs that are looked up
//!     often still get cached, and the other look-ups save the work.
//! 11. The cached table starts over when a resize changes its size.
//! 12. No shadowing synchronization (section 3.5): a writer updates the cached table itself, which costs it two lines
//!     of DRAM. With the paper's threads it would have to hand its key over and to take the entry back before its item
//!     can be seen, and insertions were hardly faster.

mod bucket;
mod cache;
mod check;
mod engine;
mod layout;
mod ops;
mod recover;
mod refill;
mod resize;
mod salvage;
mod search;
mod shape;
#[cfg(test)]
mod tests;

pub use engine::{CACHED, Engine, SLOTS};
pub use layout::SLOTS_MAX;
pub use shape::{Cached, Design, Shape};

use crate::Settings;
use crate::engine::Describe;
use crate::kit::buckets::Buckets;
use crate::kit::doubling::{
    Doubles, ENGINE_COUNTS, Form, LOG, LOG2_MAX, Tables, extend, only_extent, upkeep_of_doubling,
};
use crate::kit::helper::Signal;
use crate::kit::log::Log;
use crate::kit::shared::{Shared, no_sidecar};
use crate::kit::table::{Helped, Table, Upkeep, start};
use crate::sizes::check_sizes;
use cache::Cache;
use index::{CacheUse, CheckReport, Error, Fixed, Level, Occupancy, Shrunk};
use layout::{BUCKET_BYTES, Bucket, RECORD_WORDS};
use pmem::sync::{Array, AtomicU64, Ordering};
use pmem::{Medium, OpenError, Pool};
use refill::{Refiller, Refills};
use std::sync::Arc;

/// Words of a thread's counts: look-ups that found the key in the cached table, that were told there that it is
/// absent, and that it could not answer.
const CACHE_HITS: usize = ENGINE_COUNTS;
const CACHE_ABSENT: usize = ENGINE_COUNTS + 1;
const CACHE_MISSES: usize = ENGINE_COUNTS + 2;

/// Number of this engine in a pool's superblock.
pub const ENGINE_ID: u32 = <Engine as Describe>::DESCRIPTION.id;

/// The parameters that a pool for a table of this shape is created with.
pub fn engine_params(shape: &Shape) -> [u64; 16] {
    shape.encode()
}

/// An open Rewo-Hash table.
pub type RewoHash<M, K = u64, V = u64> = Table<Core<M, K, V>, K, V>;

/// What operations and recovery share.
pub struct Core<M: Medium, K, V> {
    tables: Tables<M>,
    shape: Shape,
    bucket: Bucket<K, V>,
    /// A record per bucket, as [`layout`] says.
    records: Array<AtomicU64>,
    /// The cached table, if there is one.
    cache: Option<Cache<K, V>>,
    refills: Refills,
    shared: Shared<K>,
}

impl<M: Medium, K: Fixed, V: Fixed> RewoHash<M, K, V> {
    /// Opens the table in `pool`, whose engine parameters are those of [`engine_params`]: makes
    /// it if the pool is new, and else recovers it.
    pub fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        start(Core::open(pool, settings)?, &settings)
    }

    /// The table's shape.
    pub fn shape(&self) -> Shape {
        self.core.shape
    }

    /// Caches as many pairs as there is room for, while other operations run. Returns whether the cached table is then
    /// full-loaded: it has every pair, and a look-up of a key that is absent does not touch the pool. Of refills at
    /// once all say no but one.
    pub fn refill(&self) -> bool {
        self.core.refill()
    }

    /// Whether the cached table has every pair.
    pub fn is_full_loaded(&self) -> bool {
        self.core.cache.as_ref().is_some_and(|cache| cache.state().is_full_loaded())
    }

    /// Doubles the table while other operations run, in the calling thread, whatever the settings say of growth. The
    /// caller holds the pool's right to write.
    pub fn extend(&self) -> Result<(), Error> {
        extend(&*self.core)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Upkeep for Core<M, K, V> {
    const NAME: &'static str = "RewoHash";

    upkeep_of_doubling!();

    fn recover(&self) -> Result<(), OpenError> {
        self.pool().read_index_ahead();
        self.recover_all()
    }

    fn start(core: &Arc<Self>, settings: &Settings) -> Box<dyn Send + Sync> {
        let helped = Helped::start(core, settings);
        // In this order they are stopped.
        Box::new((Refiller::start(core), helped))
    }

    #[cfg(feature = "simulated")]
    fn take_one_round(&self) {
        self.tables.signal.take_one_round(self);
        if self.tables.settings.refills_cache {
            self.refill();
        }
    }

    fn check(&self) -> CheckReport {
        self.check_all()
    }

    fn occupancy(&self) -> Occupancy {
        let geometry = self.geometry();
        let mut level = Level {
            name: "data tables",
            pairs: 0,
            slots: u64::from(self.bucket.slots) * geometry.buckets(),
            pool_bytes: self.tables.pool_bytes(),
            sidecar_bytes: geometry.buckets() * (RECORD_WORDS * size_of::<u64>()) as u64,
        };
        level.pairs = self.tables.len();
        // Of which it is a part: there is no other place to tell of it.
        let cached = self.cache.as_ref().map(|cache| self.cache_use(cache));
        level.sidecar_bytes += cached.map_or(0, |cached| cached.bytes);
        Occupancy {
            levels: vec![level],
            capacity: self.capacity(geometry),
            resizing: geometry.is_resizing(),
            resizes: self.tables.resizes(),
            cached,
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        let superblock = pool.superblock();
        check_sizes::<K, V>(&superblock)?;
        let corrupt = |found: String| OpenError::Corrupt { found };
        let shape = Shape::decode(&superblock.engine_params).map_err(corrupt)?;
        let bucket = Bucket::<K, V>::new(shape.slots).map_err(corrupt)?;
        let form = Form {
            bucket_bytes: BUCKET_BYTES,
            initial_log2: shape.initial_log2,
            log2_max: LOG2_MAX,
        };
        let log_bytes = Log::bytes::<V>();
        let tables = Tables::open(Arc::clone(&pool), settings, form, &|draft| {
            draft.take_extent(LOG, 0, log_bytes).map(drop)
        })?;
        let log = only_extent(&pool, LOG, log_bytes, "log")?;
        let used_log2 = tables.geometry().used_log2();
        let (buckets, used_words) = (tables.buckets_max(), RECORD_WORDS << used_log2);
        let cached = settings.cached.map_or(shape.cached, Cached::part);
        let cache = match cached.smaller_log2(pool.medium().reads_slowly()) {
            None => None,
            Some(smaller) => Cache::new(smaller, buckets, used_log2).map_err(no_sidecar)?,
        };
        Ok(Core {
            shared: Shared::new::<V>(superblock.hash_seed, log)?,
            bucket,
            records: Array::reserve(RECORD_WORDS * buckets, 2 * used_words).map_err(no_sidecar)?,
            cache,
            refills: Refills::default(),
            shape,
            tables,
        })
    }

    fn cache_use(&self, cache: &Cache<K, V>) -> CacheUse {
        let sum = |word: usize| {
            self.tables.counts.used().map(|line| line.0[word].load(Ordering::Relaxed)).sum()
        };
        CacheUse {
            bytes: cache.bytes(),
            is_full_loaded: cache.state().is_full_loaded(),
            hits: sum(CACHE_HITS),
            absences: sum(CACHE_ABSENT),
            misses: sum(CACHE_MISSES),
        }
    }
}
