//! Level hashing.
//!
//! Zuo, Hua, Wu: *Level Hashing: A High-performance and Flexible-resizing Persistent Hashing Index
//! Structure*, ACM Transactions on Storage 15(2), 2019.
//!
//! | the paper | here |
//! |---|---|
//! | top level, bottom level, interim level; N | `Geometry::top`, `bottom`, `interim`: log2 of their buckets |
//! | bucket, slot, token | `layout` |
//! | hash_1(), hash_2() | h1 and h2 of [`index::hash`] |
//! | Search (algorithm 1), Search' | `search`: `look_for`; `kit::search` |
//! | Delete, Insert, Update (algorithms 2 to 4) | `ops`: `erase`, `insert`; `kit::change`: `update` |
//! | TryMovement, bottom-to-top movement | `ops`: `ways`, `move_one` |
//! | Log | `kit::log` |
//! | Expand, Shrink (algorithms 5, 6) | `resize`: `begin_expansion`, `begin_shrink`, then `drain` bucket by bucket |
//! | resize_state | `Resize`, root 1 of the engine |
//!
//! Invariants, with those of the kit (a bucket's state is its word, and what a resize empties is interim):
//!
//! 1. A key is in at most one slot whose token is set, except while an item is moved or rehashed. Then both copies are
//!    equal, and the locks of both buckets are held. The copies may be in any two levels, since a resize may begin
//!    meanwhile; in one level only if the log names the item.
//!
//! Departures from the paper, and why:
//!
//! 1. Readers take no lock (section 3.4 locks each slot): they read a bucket between two reads of its word in the
//!    sidecar. A negative search is valid only if no bucket that it read has changed, since an item may move from a
//!    bucket not yet searched to one that was.
//! 2. A fingerprint per slot in the sidecar: a search reads four words there and one bucket, instead
//!    of four buckets.
//! 3. A home by hash in addition to the bucket's lock: with locks on slots only, two insertions of one key into
//!    different buckets would both succeed.
//! 4. The log has the new value, not the old one: with the old value, a crash would take back what a reader has
//!    reported.
//! 5. A value of one word is overwritten in place with neither log nor slot: a word is atomic.
//! 6. A movement is logged, so recovery knows what may be there twice, and updates need not look for a second copy.
//! 7. Rehashing locks source and destination until the deletion is durable. The items of an interim
//!    bucket are copied with one fence, and deleted with one.
//! 8. A shrink that cannot place an item turns back into an expansion.

mod bucket;
mod check;
mod engine;
mod fast;
mod geometry;
mod layout;
mod ops;
mod recover;
mod resize;
mod salvage;
mod search;
mod shape;
#[cfg(test)]
mod tests;

pub use engine::{Engine, Hot, SLOTS};
pub use layout::SLOTS_MAX;
pub use shape::{Design, Shape};

use crate::Settings;
use crate::engine::Describe;
use crate::kit::buckets::Buckets;
use crate::kit::log::Log;
use crate::kit::progress::Progress;
use crate::kit::shared::{Shared, no_sidecar};
use crate::kit::table::{Table, Upkeep, start};
use crate::sizes::check_sizes;
use geometry::{Geometry, LEVELS_MAX, Published, Resize};
use index::{CheckReport, Error, Fixed, Level, Occupancy, Shrunk};
use layout::{BUCKETS, Bucket, BucketId, LEVEL_MAX, LOG, ROOT_LOWEST, ROOT_RESIZE, ROOT_TOP};
use pmem::sync::{Array, AtomicU64, Mutex, Ordering, PerThread, thread_index};
use pmem::{Medium, OpenError, Pool};
use std::sync::Arc;

/// No base of a level: those are aligned.
const NO_BASE: u64 = u64::MAX;
/// Bases that there is room for: more than levels, and a power of two.
const BASES: usize = 64;
/// Items are counted by level modulo this. Levels share a count only while several are interim; then
/// no more than the sum means anything.
const LEVEL_COUNTS: usize = 4;
/// Word of a thread's counts, after those of levels: its insertions and removals.
const CHANGES: usize = LEVEL_COUNTS;

/// Number of this engine in a pool's superblock.
pub const ENGINE_ID: u32 = <Engine as Describe>::DESCRIPTION.id;

/// The parameters that a pool for a table of this shape is created with.
pub fn engine_params(shape: &Shape) -> [u64; 16] {
    shape.encode()
}

/// An open Level hash table.
pub type LevelHashing<M, K = u64, V = u64> = Table<Core<M, K, V>, K, V>;

/// What operations and recovery share.
pub struct Core<M: Medium, K, V> {
    pool: Arc<Pool<M>>,
    shape: Shape,
    settings: Settings,
    bucket: Bucket<K, V>,
    /// Per level, where a bucket would lie whose word has index 0; [`NO_BASE`] if it never was.
    bases: [AtomicU64; BASES],
    /// A word per bucket, as [`layout`] says.
    words: Array<AtomicU64>,
    /// Per bucket, the resize in which it was drained last; used for interim levels only.
    marks: Array<AtomicU64>,
    shared: Shared<K>,
    published: Published,
    progress: Progress,
    /// Per thread: items inserted less items deleted, by [`count_of`] a level; and [`CHANGES`].
    counts: PerThread,
    /// Items found at open, by [`count_of`] a level.
    at_open: [AtomicU64; LEVEL_COUNTS],
    resizes: AtomicU64,
    /// Held while a resize is begun.
    beginning: Mutex<()>,
}

impl<M: Medium, K: Fixed, V: Fixed> LevelHashing<M, K, V> {
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
    pub fn expand(&self) -> Result<(), Error> {
        self.core.finish_resize();
        self.core.begin_expansion(self.core.geometry())?;
        self.core.finish_resize();
        Ok(())
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Upkeep for Core<M, K, V> {
    const NAME: &'static str = "LevelHashing";

    fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    fn recover(&self) -> Result<(), OpenError> {
        self.pool.read_index_ahead();
        self.recover_all()
    }

    fn start(_core: &Arc<Self>, _settings: &Settings) -> Box<dyn Send + Sync> {
        Box::new(())
    }

    fn len(&self) -> u64 {
        // Each thread counts separately; only the sum is a number of pairs. During writes a removal may be seen and its
        // insertion not: the sum may seem negative.
        let counts = 0..LEVEL_COUNTS as u32;
        let sum = counts.map(|level| self.len_of(level)).fold(0, u64::wrapping_add);
        sum.cast_signed().max(0).cast_unsigned()
    }

    fn occupancy(&self) -> Occupancy {
        let geometry = self.geometry();
        let extents = self.pool.extents_of(BUCKETS);
        let in_use = [geometry.top(), geometry.bottom()];
        let interims: Vec<u32> = geometry.interims().collect();
        let level = |name, level: u32| Level {
            name,
            pairs: (0..1 << level)
                .map(|index| self.state(BucketId::new(level, index)).load(Ordering::Relaxed))
                .map(|word| u64::from(self.bucket.count(word)))
                .sum(),
            slots: u64::from(self.bucket.slots) << level,
            pool_bytes: self.bucket.bytes << level,
            sidecar_bytes: 8 << level,
        };
        let mut levels =
            vec![level("top level", geometry.top()), level("bottom level", geometry.bottom())];
        let mut interim =
            Level { name: "interim level", pairs: 0, slots: 0, pool_bytes: 0, sidecar_bytes: 0 };
        for each in interims.into_iter().map(|number| level("interim level", number)) {
            interim.pairs += each.pairs;
            interim.slots += each.slots;
            interim.sidecar_bytes += each.sidecar_bytes;
        }
        // Levels that are kept for when they are wanted again.
        interim.pool_bytes = extents
            .iter()
            .filter(|extent| !in_use.contains(&u32::from(extent.index)))
            .map(|extent| extent.bytes)
            .sum();
        levels.push(interim);
        Occupancy {
            levels,
            capacity: self.capacity(geometry),
            resizing: geometry.resize() != Resize::No,
            resizes: self.resizes.load(Ordering::Relaxed),
            cached: None,
        }
    }

    fn check(&self) -> CheckReport {
        self.check_all()
    }

    fn settle(&self) {
        if self.is_resizing()
            && let Ok(_write) = self.pool.write()
        {
            loop {
                self.finish_resize();
                // An item that finds no room in the levels above needs another one.
                let geometry = self.geometry();
                let may_grow = self.settings.resize_at <= 1.0;
                if geometry.resize() == Resize::No
                    || !may_grow
                    || self.refuse_crowd(geometry).is_err()
                    || self.begin_expansion(geometry).is_err()
                {
                    break;
                }
            }
        }
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        self.finish_resize();
        let geometry = self.geometry();
        if !self.begin_shrink(geometry)? {
            return Ok(Shrunk::Kept);
        }
        self.finish_resize();
        let has_halved = self.geometry().top() < geometry.top();
        Ok(if has_halved { Shrunk::Halved } else { Shrunk::Kept })
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        let superblock = pool.superblock();
        check_sizes::<K, V>(&superblock)?;
        let corrupt = |found: String| OpenError::Corrupt { found };
        let shape = Shape::decode(&superblock.engine_params).map_err(corrupt)?;
        let bucket = Bucket::<K, V>::new(shape.slots).map_err(corrupt)?;
        let [top, resize, lowest] = if pool.extents_of(BUCKETS).is_empty() {
            initialize(&pool, &shape, bucket.bytes, Log::bytes::<V>())?
        } else {
            [ROOT_TOP, ROOT_RESIZE, ROOT_LOWEST].map(|root| superblock.engine_roots[root])
        };
        let Some(resize) = Resize::of_root(resize) else {
            return Err(corrupt(format!("resize state {resize}, expected 0 to 2")));
        };
        if top < shape.initial_log2.into() || top > LEVEL_MAX.into() {
            let initial = shape.initial_log2;
            return Err(corrupt(format!("top level {top}, expected {initial} to {LEVEL_MAX}")));
        }
        let is_lowest = match resize {
            Resize::Expand => lowest < top - 1 && top - lowest < LEVELS_MAX.into(),
            _ => lowest == top - 1,
        };
        if !is_lowest {
            let state = resize as u64;
            return Err(corrupt(format!("levels {lowest} to {top} in resize state {state}")));
        }
        let is_one_by_one = shape.design.is_one_by_one();
        let geometry = Geometry::first(top as u32, lowest as u32, resize, is_one_by_one);
        let bases: [AtomicU64; BASES] = std::array::from_fn(|_| AtomicU64::new(NO_BASE));
        for extent in pool.extents_of(BUCKETS) {
            let level = u32::from(extent.index);
            if level > LEVEL_MAX || extent.bytes != bucket.bytes << level {
                return Err(corrupt(format!(
                    "the extent of level {level} has {} bytes, expected {} for each of 2^level",
                    extent.bytes, bucket.bytes
                )));
            }
            bases[level as usize].store(bucket.base(level, extent.start), Ordering::Relaxed);
        }
        for level in geometry.levels() {
            if bases[level as usize].load(Ordering::Relaxed) == NO_BASE {
                return Err(corrupt(format!("level {level} has no extent")));
            }
        }
        let log = match pool.extents_of(LOG).as_slice() {
            [extent] if extent.bytes == Log::bytes::<V>() => extent.start,
            other => return Err(corrupt(format!("extents of the log: {other:?}, expected one"))),
        };
        let buckets_max = (pool.medium().limit() / bucket.bytes).clamp(1, 1 << LEVEL_MAX) as usize;
        // The words of level l begin at index 1 << l, and a shrink leaves the interim level above.
        let words = 2 * buckets_max.next_power_of_two().max(2 << geometry.top());
        Ok(Core {
            shared: Shared::new::<V>(superblock.hash_seed, log)?,
            settings,
            bucket,
            bases,
            words: Array::reserve(words, 4 << geometry.top()).map_err(no_sidecar)?,
            marks: Array::reserve(words, 4 << geometry.top()).map_err(no_sidecar)?,
            published: Published::new(geometry),
            progress: Progress::default(),
            counts: PerThread::new().map_err(no_sidecar)?,
            at_open: std::array::from_fn(|_| AtomicU64::new(0)),
            resizes: AtomicU64::new(0),
            beginning: Mutex::new(()),
            shape,
            pool,
        })
    }

    /// Adds to the calling thread's count of a level.
    #[inline(always)]
    fn count_at(&self, level: u32, difference: i64) {
        self.counts.add(thread_index(), count_of(level), difference.cast_unsigned());
    }

    fn len_of(&self, level: u32) -> u64 {
        let word = count_of(level);
        let counted = self.counts.used().map(|line| line.0[word].load(Ordering::Acquire));
        counted.fold(self.at_open[word].load(Ordering::Acquire), u64::wrapping_add)
    }

    /// Slots that the load factor is relative to.
    fn capacity(&self, geometry: Geometry) -> u64 {
        u64::from(self.bucket.slots) * (3 << geometry.bottom())
    }
}

/// Which count is a level's.
#[inline(always)]
fn count_of(level: u32) -> usize {
    level as usize % LEVEL_COUNTS
}

/// Takes the first extents and writes the roots, in one step; returns the roots.
fn initialize<M: Medium>(
    pool: &Pool<M>,
    shape: &Shape,
    bucket_bytes: u64,
    log_bytes: u64,
) -> Result<[u64; 3], OpenError> {
    if pool.is_read_only() {
        return Err(OpenError::NeedsRecovery);
    }
    let top = shape.initial_log2;
    pool.extend(|draft| {
        draft.take_extent(LOG, 0, log_bytes)?;
        for level in [top - 1, top] {
            draft.take_extent(BUCKETS, level as u8, bucket_bytes << level)?;
        }
        draft.engine_roots()[ROOT_TOP] = top.into();
        draft.engine_roots()[ROOT_RESIZE] = Resize::No as u64;
        draft.engine_roots()[ROOT_LOWEST] = u64::from(top) - 1;
        Ok(())
    })?;
    Ok([top.into(), Resize::No as u64, u64::from(top) - 1])
}
