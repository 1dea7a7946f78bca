//! PFHT, the PCM-friendly hash table.
//!
//! Debnath, Haghdoost, Kadav, Khatib, Ungureanu: *Revisiting Hash Table Design for Phase Change Memory*.
//!
//! | the paper | here |
//! |---|---|
//! | Main Table (MT), bucket of two cache lines, slot | `layout` |
//! | two hash functions | h1 and h2 of [`index::hash`], `directory` |
//! | stash, chaining-based (sections 4.1, 4.2) | `stash` |
//! | lookup (section 4.2) | `search`: `find_slow`; `fast`: `find_fast` |
//! | insert: the least loaded bucket, at most one displacement, the stash | `ops`: `insert`, `displace`, `insert_into_stash` |
//! | delete, update, in place | `ops`: `change`, `update` |
//!
//! Invariants:
//!
//! 1. A key is in at most one slot or node that is in use, save while an item is moved: then both copies are equal,
//!    and the locks of both buckets are held.
//! 2. A bucket is changed only under its lock, after a look at the geometry: whoever publishes a new one and
//!    then empties the bucket must take the same lock. A node of the stash belongs to a bucket, a first choice of its
//!    key, and changes under that bucket's lock.
//! 3. A key appears where it was absent only under the lock of its home.
//! 4. A fingerprint is shown when its slot is durable, and taken away when the slot's erasure is; a node is in a
//!    chain likewise. In between the bucket is locked, and who reads it makes durable what it reports. Every change of
//!    what is shown is a new version, and what replaces something is shown in a version before that is hidden.
//! 5. Whoever waits for a lock holds none, or the home of its key, or the lock of a bucket that a resize
//!    empties in the present geometry: then it waits for one that is not, or that has a higher number, and gives up
//!    when the geometry changes. A chain's lock is held for some stores, and nothing is waited for meanwhile.
//!
//! Departures from the paper, and why:
//!
//! 1. No transactions and no log: of a pair of words the value is stored before the key, in one line, and a key that is
//!    not 0 makes the slot used. So key 0 lies in the stash. Other pairs have a bitmap in their bucket, which one word
//!    changes. Only an update of such a pair in a full bucket, or in the stash, takes a log.
//! 2. A displacement copies the item, fences, and erases it together with the new item that takes its slot: two fences.
//!    A crash in between leaves it twice, equal; recovery looks for that.
//! 3. Any number of threads. Readers take no lock: they read a slot between two looks at its bucket's version. A
//!    negative search is valid only if neither bucket has changed.
//! 4. Fingerprints in the sidecar spare reading buckets, and a bit of a bucket tells that the stash has keys of it, so
//!    that other misses spare the stash ([`Design`] switches both off).
//! 5. Ties between equally loaded buckets go to the first one: a coin would make runs differ.
//! 6. The table grows: when the stash is full, or at the load factor that was asked for, it doubles beside operations,
//!    and so does the stash, which is then emptied into the main table.

mod batch;
mod bucket;
mod check;
mod engine;
mod fast;
mod helping;
mod layout;
mod ops;
mod recover;
mod resize;
mod scan;
mod search;
mod shape;
mod stash;
mod table;
#[cfg(test)]
mod tests;

pub use engine::{Engine, SLOTS, STASH};
pub use layout::SLOTS_MAX;
pub use shape::{Design, Shape};

use crate::Settings;
use crate::directory::{Geometry, HOMES, Published, Resize, SPAN_MAX, table_log2};
use crate::engine::Describe;
use crate::helper::{Helpers, Signal};
use crate::log::Log;
use crate::packed::second_of;
use crate::progress::Progress;
use crate::scan::Scans;
use crate::sizes::check_sizes;
use index::hash::Hasher;
use index::{Error, Fixed, Level, Occupancy};
use layout::{
    BUCKET_BYTES, Bucket, CURSOR, CURSOR_BYTES, LOG, LOG2_MAX, RECORD_WORDS, ROOT_LOG2,
    ROOT_LOWEST, ROOT_RESIZE, STASH_OWNER, TABLES, TABLES_MAX,
};
use pmem::sync::{Array, AtomicU64, Mutex, Ordering, PerThread, thread_index};
use pmem::{Medium, Offset, OpenError, Pool};
use stash::Stash;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No base of a table: those are aligned.
const NO_BASE: u64 = u64::MAX;
/// Bases that there is room for: at least as many as tables, and a power of two.
const BASES: usize = TABLES_MAX.next_power_of_two();

/// Words of a thread's counts: items inserted less items deleted; its insertions and removals.
const PAIRS: usize = 0;
const CHANGES: usize = 1;

/// Number of this engine in a pool's superblock.
pub const ENGINE_ID: u32 = <Engine as Describe>::DESCRIPTION.id;

/// The parameters that a pool for a table of this shape is created with.
pub fn engine_params(shape: &Shape) -> [u64; 16] {
    shape.encode()
}

/// An open PFHT table.
pub struct Pfht<M: Medium, K: Fixed = u64, V: Fixed = u64> {
    core: Arc<Core<M, K, V>>,
    helpers: Option<Helpers>,
    scan_time: Duration,
}

/// What operations and recovery share.
struct Core<M: Medium, K, V> {
    pool: Arc<Pool<M>>,
    hasher: Hasher,
    shape: Shape,
    settings: Settings,
    bucket: Bucket<K, V>,
    stash: Stash<K, V>,
    /// Per data table, where the bucket numbered 0 would lie; [`NO_BASE`] if it never was.
    bases: [AtomicU64; BASES],
    /// A record per bucket, as [`layout`] says.
    records: Array<AtomicU64>,
    homes: Array<AtomicU64>,
    signal: Signal,
    /// log2 of the buckets for which a helper was asked last to have memory at hand.
    prepared_log2: AtomicU64,
    /// Buckets that helpers have visited since one could be emptied.
    visited_in_vain: AtomicU64,
    log: Log,
    /// Where the cursor of a resize is.
    cursor: Offset,
    /// Held by who advances it.
    advancing: Mutex<()>,
    published: Published,
    progress: Progress,
    /// Per thread: [`PAIRS`] and [`CHANGES`].
    counts: PerThread,
    /// Items found at open.
    at_open: AtomicU64,
    resizes: AtomicU64,
    /// Held while a resize is begun.
    beginning: Mutex<()>,
    scans: Scans<K>,
}

impl<M: Medium, K: Fixed, V: Fixed> Pfht<M, K, V> {
    /// Opens the table in `pool`, whose engine parameters are those of [`engine_params`]: makes
    /// it if the pool is new, and else recovers it.
    pub fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        let core = Arc::new(Core::open(pool, settings)?);
        let started = Instant::now();
        core.recover()?;
        let scan_time = started.elapsed();
        let is_read_only = core.pool.is_read_only();
        let mut table = Pfht { core, helpers: None, scan_time };
        // Dropped, it ends those that were started.
        table.helpers = Some(Helpers::start(&table.core, &settings, is_read_only)?);
        Ok(table)
    }

    /// The table's shape.
    pub fn shape(&self) -> Shape {
        self.core.shape
    }

    /// Doubles the table beside other operations, in the calling thread, whatever the settings say
    /// of growth. The caller holds the pool's right to write.
    pub fn extend(&self) -> Result<(), Error> {
        self.core.finish_resize();
        self.core.begin_extension(self.core.geometry())?;
        self.core.finish_resize();
        Ok(())
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Drop for Pfht<M, K, V> {
    fn drop(&mut self) {
        let is_inherited = self.core.pool.is_inherited();
        if let Some(helpers) = self.helpers.take() {
            helpers.stop(&self.core.signal, is_inherited);
        }
        if !is_inherited {
            // So that a closed pool needs no recovery and can be opened read-only.
            self.core.settle();
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> std::fmt::Debug for Pfht<M, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pfht")
            .field("shape", &self.core.shape)
            .field("geometry", &self.core.geometry())
            .finish_non_exhaustive()
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        let superblock = pool.superblock();
        check_sizes::<K, V>(&superblock)?;
        let corrupt = |found: String| OpenError::Corrupt { found };
        let shape = Shape::decode(&superblock.engine_params).map_err(corrupt)?;
        let bucket = Bucket::<K, V>::new(shape.slots).map_err(corrupt)?;
        let [log2, resize, lowest] = if pool.extents_of(TABLES).is_empty() {
            initialize(&pool, &shape, Log::bytes::<V>(), Stash::<K, V>::first_bytes(&shape))?
        } else {
            [ROOT_LOG2, ROOT_RESIZE, ROOT_LOWEST].map(|root| superblock.engine_roots[root])
        };
        let Some(resize) = Resize::of_root(resize) else {
            return Err(corrupt(format!("resize state {resize}, expected 0 to 2")));
        };
        let first = u64::from(shape.initial_log2);
        let is_possible = match resize {
            Resize::No => lowest == log2,
            Resize::Extend => lowest >= first && lowest < log2 && log2 - lowest <= SPAN_MAX.into(),
            Resize::Shrink => lowest == log2 && log2 < LOG2_MAX.into(),
        };
        if log2 < first || log2 > LOG2_MAX.into() || !is_possible {
            return Err(corrupt(format!(
                "2^{lowest} to 2^{log2} buckets in resize state {}, expected 2^{first} to 2^{LOG2_MAX}",
                resize as u64
            )));
        }
        let geometry = Geometry::new(log2 as u32, lowest as u32, resize, 1);
        let bases: [AtomicU64; BASES] = std::array::from_fn(|_| AtomicU64::new(NO_BASE));
        for extent in pool.extents_of(TABLES) {
            let table = usize::from(extent.index);
            let log2 = table_log2(table, shape.initial_log2);
            if table >= TABLES_MAX || log2 >= LOG2_MAX || extent.bytes != BUCKET_BYTES << log2 {
                return Err(corrupt(format!(
                    "the extent of data table {table} has {} bytes, expected {BUCKET_BYTES} for each of \
                     2^{log2} buckets",
                    extent.bytes
                )));
            }
            bases[table].store(base_of(table, &shape, extent.start), Ordering::Relaxed);
        }
        let used = 1 + (geometry.used_log2() - shape.initial_log2) as usize;
        let has_base = |base: &AtomicU64| base.load(Ordering::Relaxed) != NO_BASE;
        let tables = bases.iter().filter(|base| has_base(base)).count();
        if let Some(table) = bases[..used.max(tables)].iter().position(|base| !has_base(base)) {
            return Err(corrupt(format!("data table {table} has no extent")));
        }
        let only = |owner, bytes, what| match pool.extents_of(owner).as_slice() {
            [extent] if extent.bytes == bytes => Ok(extent.start),
            other => Err(corrupt(format!("extents of the {what}: {other:?}, expected one"))),
        };
        let log = only(LOG, Log::bytes::<V>(), "log")?;
        let cursor = only(CURSOR, CURSOR_BYTES, "cursor")?;
        let hasher = Hasher::new(superblock.hash_seed);
        let reserve = |source| OpenError::Io {
            action: "reserving memory for",
            path: "the table's sidecar".into(),
            source,
        };
        let buckets_max = (pool.medium().limit() / BUCKET_BYTES).clamp(1, 1 << LOG2_MAX) as usize;
        let buckets = buckets_max.next_power_of_two().max(1 << geometry.used_log2());
        let used_words = RECORD_WORDS << geometry.used_log2();
        let log2_max = buckets.ilog2();
        let stash = Stash::new(&shape, log2_max, geometry.used_log2()).map_err(reserve)?;
        for extent in pool.extents_of(STASH_OWNER) {
            let table = usize::from(extent.index);
            let is_next = table == stash.tables() && table < tables;
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
        if stash.tables() < tables {
            return Err(corrupt(format!(
                "the stash has {} extents, expected one for each of {tables} data tables",
                stash.tables()
            )));
        }
        Ok(Core {
            log: Log::new::<V>(log, hasher),
            cursor,
            advancing: Mutex::new(()),
            hasher,
            settings,
            bucket,
            bases,
            records: Array::reserve(RECORD_WORDS * buckets, 2 * used_words).map_err(reserve)?,
            homes: Array::reserve(HOMES, HOMES).map_err(reserve)?,
            stash,
            signal: Signal::default(),
            prepared_log2: AtomicU64::new(0),
            visited_in_vain: AtomicU64::new(0),
            published: Published::new(geometry),
            progress: Progress::default(),
            counts: PerThread::new().map_err(reserve)?,
            at_open: AtomicU64::new(0),
            resizes: AtomicU64::new(0),
            beginning: Mutex::new(()),
            scans: Scans::default(),
            shape,
            pool,
        })
    }

    fn medium(&self) -> &M {
        self.pool.medium()
    }

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.published.geometry()
    }

    /// The second output of the hash functions: h1 and h2.
    #[inline(always)]
    fn hashed(&self, key: K) -> u64 {
        second_of(&self.hasher, key)
    }

    /// Ends a resize that is under way. What cannot be written, a later opening ends.
    fn settle(&self) {
        if self.geometry().is_resizing()
            && let Ok(_write) = self.pool.write()
        {
            loop {
                self.finish_resize();
                // An item that finds no room in its table needs another one.
                let geometry = self.geometry();
                let may_grow = self.settings.resize_at <= 1.0;
                if !geometry.is_resizing() || !may_grow || self.begin_extension(geometry).is_err() {
                    break;
                }
            }
        }
        // A helper in its turn may be about to write, though nothing is left to be moved.
        self.signal.rest();
    }

    /// Adds to the calling thread's count of pairs.
    #[inline(always)]
    fn count(&self, difference: u64) {
        if difference != 0 {
            self.counts.add(thread_index(), PAIRS, difference);
        }
    }

    fn len(&self) -> u64 {
        let counted = self.counts.used().map(|line| line.0[PAIRS].load(Ordering::Acquire));
        // Beside writers a removal may be seen and its insertion not: the sum may seem negative.
        let sum = counted.fold(self.at_open.load(Ordering::Acquire), u64::wrapping_add);
        sum.cast_signed().max(0).cast_unsigned()
    }

    /// Slots that the load factor is relative to.
    fn capacity(&self, geometry: Geometry) -> u64 {
        let doublings = geometry.log2() - self.shape.initial_log2;
        (u64::from(self.bucket.slots) << geometry.log2()) + (self.shape.first_nodes() << doublings)
    }

    fn occupancy(&self) -> Occupancy {
        let geometry = self.geometry();
        let used = 1 + (geometry.used_log2() - self.shape.initial_log2) as usize;
        let buckets_of = |table: usize| {
            let buckets = 1 << table_log2(table, self.shape.initial_log2);
            let first = if table == 0 { 0 } else { buckets };
            first..first + buckets
        };
        let mut level = Level {
            name: "main table",
            pairs: 0,
            slots: 0,
            pool_bytes: self.pool.extents_of(TABLES).iter().map(|extent| extent.bytes).sum(),
            sidecar_bytes: 0,
        };
        for buckets in (0..used).map(buckets_of) {
            let count = buckets.end - buckets.start;
            level.slots += u64::from(self.bucket.slots) * count;
            level.sidecar_bytes += count * (RECORD_WORDS * size_of::<u64>()) as u64;
        }
        let stash = Level {
            name: "stash",
            pairs: self.stash.len(),
            slots: self.stash.nodes(),
            pool_bytes: self.pool.extents_of(STASH_OWNER).iter().map(|extent| extent.bytes).sum(),
            sidecar_bytes: self.stash.sidecar_bytes(geometry.buckets()),
        };
        level.pairs = self.len().saturating_sub(stash.pairs);
        Occupancy {
            levels: vec![level, stash],
            capacity: self.capacity(geometry),
            resizing: geometry.is_resizing(),
            resizes: self.resizes.load(Ordering::Relaxed),
            cached: None,
        }
    }
}

/// Where the bucket numbered 0 would lie, were it in this table, whose extent begins at `start`.
fn base_of(table: usize, shape: &Shape, start: Offset) -> u64 {
    let first = if table == 0 { 0 } else { 1 << table_log2(table, shape.initial_log2) };
    start.0.wrapping_sub(BUCKET_BYTES * first)
}

/// Takes the first extents and writes the roots, in one step; returns the roots.
fn initialize<M: Medium>(
    pool: &Pool<M>,
    shape: &Shape,
    log_bytes: u64,
    stash_bytes: u64,
) -> Result<[u64; 3], OpenError> {
    if pool.is_read_only() {
        return Err(OpenError::NeedsRecovery);
    }
    let log2 = u64::from(shape.initial_log2);
    pool.extend(|draft| {
        draft.take_extent(LOG, 0, log_bytes)?;
        draft.take_extent(CURSOR, 0, CURSOR_BYTES)?;
        draft.take_extent(TABLES, 0, BUCKET_BYTES << log2)?;
        draft.take_extent(STASH_OWNER, 0, stash_bytes)?;
        let roots = draft.engine_roots();
        roots[ROOT_LOG2] = log2;
        roots[ROOT_RESIZE] = Resize::No as u64;
        roots[ROOT_LOWEST] = log2;
        Ok(())
    })?;
    Ok([log2, Resize::No as u64, log2])
}
