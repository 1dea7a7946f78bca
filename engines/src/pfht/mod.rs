//! PFHT, the PCM-friendly hash table.
//!
//! Debnath, Haghdoost, Kadav, Khatib, Ungureanu: *Revisiting Hash Table Design for Phase Change Memory*.
//!
//! | the paper | here |
//! |---|---|
//! | Main Table (MT), bucket of two cache lines, slot | `layout` |
//! | two hash functions | h1 and h2 of [`index::hash`], `doubling` |
//! | stash, chaining-based (sections 4.1, 4.2) | `stash` |
//! | lookup (section 4.2) | `search`: `look_for`; `kit::search` |
//! | insert: the least loaded bucket, at most one displacement, the stash | `ops`: `insert`, `free_slot`, `insert_into_stash` |
//! | delete, update, in place | `ops`: `erase`, `value_word`; `kit::change` |
//!
//! Invariants, with those of the kit:
//!
//! 1. A key is in at most one slot or node that is in use, except while an item is moved. Then both copies are equal,
//!    and the locks of both buckets are held.
//! 2. A node of the stash belongs to the bucket that is its key's first choice, and changes under that bucket's lock.
//!    It is in a chain as soon as it is durable, and leaves that when its erasure is, with a new version of the bucket.
//! 3. A thread that empties a bucket waits for one that is not being emptied, or that has a higher number. A chain's
//!    lock is held for a few stores, without waiting for anything meanwhile.
//!
//! Departures from the paper, and why:
//!
//! 1. No transactions and no log. For a pair of words the value is stored before the key, in one line, and a nonzero
//!    key marks the slot as used. So key 0 lies in the stash. Other pairs have a bitmap in their bucket, which changes
//!    with one word. Only an update of such a pair in a full bucket, or in the stash, needs a log.
//! 2. A displacement copies the item, fences, and erases it together with the new item that takes its slot: two fences.
//!    A crash in between leaves it twice, equal; recovery looks for that.
//! 3. Any number of threads. Readers take no lock: they read a slot between two reads of its bucket's version. A
//!    negative search is valid only if neither bucket has changed.
//! 4. Fingerprints in the sidecar save reading buckets. A bit of a bucket says that the stash has keys of it, so other
//!    misses skip the stash. ([`Design`] switches both off.)
//! 5. Ties between equally loaded buckets go to the first one: a coin would make runs differ.
//! 6. The table grows: when the stash is full, or at the chosen load factor, it doubles while operations run. The stash
//!    doubles too, and is then emptied into the main table.

mod bucket;
mod check;
mod engine;
mod fast;
mod layout;
mod ops;
mod recover;
mod resize;
mod salvage;
mod search;
mod shape;
mod stash;
#[cfg(test)]
mod tests;

pub use engine::{Engine, SLOTS, STASH};
pub use layout::SLOTS_MAX;
pub use shape::{Design, Shape};

use crate::Settings;
use crate::engine::Describe;
use crate::kit::buckets::Buckets;
use crate::kit::doubling::{Doubles, Form, LOG, Tables, extend, only_extent, upkeep_of_doubling};
use crate::kit::helper::Signal;
use crate::kit::log::Log;
use crate::kit::shared::{Shared, no_sidecar};
use crate::kit::table::{Helped, Table, Upkeep, start};
use crate::sizes::check_sizes;
use index::{CheckReport, Error, Fixed, Level, Occupancy, Shrunk};
use layout::{BUCKET_BYTES, Bucket, LOG2_MAX, RECORD_WORDS, STASH_OWNER};
use pmem::sync::{Array, AtomicU64};
use pmem::{Medium, OpenError, Pool};
use stash::Stash;
use std::sync::Arc;

/// Number of this engine in a pool's superblock.
pub const ENGINE_ID: u32 = <Engine as Describe>::DESCRIPTION.id;

/// The parameters that a pool for a table of this shape is created with.
pub fn engine_params(shape: &Shape) -> [u64; 16] {
    shape.encode()
}

/// An open PFHT table.
pub type Pfht<M, K = u64, V = u64> = Table<Core<M, K, V>, K, V>;

/// What operations and recovery share.
pub struct Core<M: Medium, K, V> {
    tables: Tables<M>,
    shape: Shape,
    bucket: Bucket<K, V>,
    stash: Stash<K, V>,
    /// A record per bucket, as [`layout`] says.
    records: Array<AtomicU64>,
    shared: Shared<K>,
}

impl<M: Medium, K: Fixed, V: Fixed> Pfht<M, K, V> {
    /// Opens the table in `pool`, whose engine parameters are those of [`engine_params`]: makes
    /// it if the pool is new, and else recovers it.
    pub fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        start(Core::open(pool, settings)?, &settings)
    }

    /// The table's shape.
    pub fn shape(&self) -> Shape {
        self.core.shape
    }

    /// Doubles the table while other operations run, in the calling thread, whatever the settings say of growth. The
    /// caller holds the pool's right to write.
    pub fn extend(&self) -> Result<(), Error> {
        extend(&*self.core)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Upkeep for Core<M, K, V> {
    const NAME: &'static str = "Pfht";

    upkeep_of_doubling!();

    fn recover(&self) -> Result<(), OpenError> {
        self.pool().read_index_ahead();
        self.recover_all()
    }

    fn start(core: &Arc<Self>, settings: &Settings) -> Box<dyn Send + Sync> {
        Box::new(Helped::start(core, settings))
    }

    #[cfg(feature = "simulated")]
    fn take_one_round(&self) {
        self.tables.signal.take_one_round(self);
    }

    fn check(&self) -> CheckReport {
        self.check_all()
    }

    fn occupancy(&self) -> Occupancy {
        let geometry = self.geometry();
        let mut level = Level {
            name: "main table",
            pairs: 0,
            slots: u64::from(self.bucket.slots) * geometry.buckets(),
            pool_bytes: self.tables.pool_bytes(),
            sidecar_bytes: geometry.buckets() * (RECORD_WORDS * size_of::<u64>()) as u64,
        };
        let stash = Level {
            name: "stash",
            pairs: self.stash.len(),
            slots: self.stash.nodes(),
            pool_bytes: self
                .tables
                .pool
                .extents_of(STASH_OWNER)
                .iter()
                .map(|extent| extent.bytes)
                .sum(),
            sidecar_bytes: self.stash.sidecar_bytes(geometry.buckets()),
        };
        level.pairs = self.tables.len().saturating_sub(stash.pairs);
        Occupancy {
            levels: vec![level, stash],
            capacity: self.capacity(geometry),
            resizing: geometry.is_resizing(),
            resizes: self.tables.resizes(),
            cached: None,
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
        let stash_bytes = Stash::<K, V>::first_bytes(&shape);
        let tables = Tables::open(Arc::clone(&pool), settings, form, &|draft| {
            draft.take_extent(LOG, 0, log_bytes)?;
            draft.take_extent(STASH_OWNER, 0, stash_bytes).map(drop)
        })?;
        let log = only_extent(&pool, LOG, log_bytes, "log")?;
        let used_log2 = tables.geometry().used_log2();
        let (buckets, used_words) = (tables.buckets_max(), RECORD_WORDS << used_log2);
        let stash =
            Stash::new(&shape, buckets.ilog2(), tables.present_log2()).map_err(no_sidecar)?;
        for extent in pool.extents_of(STASH_OWNER) {
            let table = usize::from(extent.index);
            let is_next = table == stash.tables() && table < tables.count_of_tables();
            if !is_next || extent.bytes != stash.bytes_of(table) {
                return Err(corrupt(format!(
                    "the stash's extent {table} has {} bytes, expected {}, and one for each data table",
                    extent.bytes,
                    stash.bytes_of(stash.tables())
                )));
            }
            stash.add(table, extent.start);
        }
        // With fewer, a resize would later leave a gap among the nodes.
        if stash.tables() < tables.count_of_tables() {
            return Err(corrupt(format!(
                "the stash has {} extents, expected one for each of {} data tables",
                stash.tables(),
                tables.count_of_tables()
            )));
        }
        Ok(Core {
            shared: Shared::new::<V>(superblock.hash_seed, log)?,
            bucket,
            records: Array::reserve(RECORD_WORDS * buckets, 2 * used_words).map_err(no_sidecar)?,
            stash,
            shape,
            tables,
        })
    }
}
