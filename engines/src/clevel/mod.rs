//! Clevel hashing.
//!
//! Chen, Hua, Ding, Zuo: *Lock-free Concurrent Level Hashing for Persistent Memory*, USENIX ATC
//! 2020, from the slides.
//!
//! | the slides | here |
//! |---|---|
//! | level list; context: first level, last level, is resizing | [`layout`](self): `Context`; its back, its front, more than two levels |
//! | bucket, slot, summary tag | `layout`: a line, `Word`, `tag` |
//! | b2t search | `search`: `search_slow`; `fast`: `search_fast` |
//! | insertion; update, deletion | `ops`: `insert`; `update_or_delete` |
//! | context-aware insertion | `ops::claim`, and the claims that `resize::drain_bucket` kills |
//! | content-conscious find, redo conditions | not needed: see below |
//! | expansion stage, rehashing stage, rehashing threads | `resize`: `append`; `drain_some`; `helper` |
//!
//! `docs/engines/clevel.md` has the protocol, and the argument for each operation. Invariants:
//!
//! 1. A key has one item. It is in one slot, except while an operation moves it: then in two, the second in a level
//!    further back.
//! 2. Words that lead to items, and those that mark removed ones, change only by the operation that is in force in the
//!    stripe of the key's hash. Any thread may take any step of it, even late.
//! 3. What a slot leads to is durable. A slot that may not be durable yet is marked until it is.
//! 4. Levels are appended at the back of the context and dropped at the front, when all their
//!    slots are frozen. Moves go towards the back.
//! 5. A thread is pinned while it knows a word of a slot, an operation or a context.
//! 6. The fingerprint of a slot that leads to an item, or has just lost one, is its key's.
//!
//! Departures from the slides, and why:
//!
//! 1. Operations of one hash are serialised by a descriptor that anyone completes: two concurrent
//!    insertions of one key would both succeed.
//! 2. So updates and deletions need not look for duplicates.
//! 3. Insertions are not redone for a new context: the drainer kills a claim in its level.
//! 4. The context is one word with the list of levels: nothing to allocate, nothing to reclaim.
//!    It has no cursor, since recovery reads every slot anyway.
//! 5. A removal leaves a mark until it is durable, so that a reader that reports the absence can make it durable.
//! 6. The list may have a smaller level behind a larger one: that is how a table shrinks.
//! 7. Fingerprints of slots in the sidecar: most searches read only the bucket with the key.
//! 8. An insertion whose buckets are full moves an item from the front level to the back one.

mod batch;
mod check;
mod descriptor;
mod engine;
mod fast;
mod fingerprints;
mod layout;
mod operation;
mod ops;
mod records;
mod recover;
mod relocate;
mod resize;
mod salvage;
mod scan;
mod search;
mod table;
#[cfg(test)]
mod tests;

pub use engine::{Engine, Hot};
pub use layout::Shape;
pub use table::ClevelTable;

use crate::Settings;
use crate::engine::Describe;
use crate::kit::helper::{Background, Helpers, Refused, Signal};
use descriptor::Descriptors;
use fingerprints::Fingerprints;
use index::hash::Hasher;
use index::{Error, Level as LevelUse, Occupancy, Shrunk};
use layout::{
    CONTROL, CONTROL_BYTES, Context, LEVEL_MAX, LEVELS, LOG2_MAX, Level, LevelTable, SLOTS,
    capacity, load,
};
use pmem::epoch::{Epochs, Guard};
use pmem::heap::{Compacted, Heap};
use pmem::sync::{Array, AtomicBool, AtomicU64, Line, Mutex, Ordering, PerThread, thread_index};
use pmem::{LINE, Medium, Offset, OpenError, Pool};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Word of a thread's counts: keys inserted less keys removed.
const KEYS: usize = 0;
/// Word of a thread's counts: insertions.
const INSERTIONS: usize = 1;

/// Buckets that a helper drains under one right to write and one guard.
const BUCKETS_PER_TURN: u64 = 16;

/// Number of this engine in a pool's superblock.
pub const ENGINE_ID: u32 = <Engine as Describe>::DESCRIPTION.id;

/// The parameters that a pool for a table of this shape is created with.
pub fn engine_params(shape: &Shape) -> [u64; 16] {
    shape.encode()
}

/// An open Clevel hash table of byte strings.
///
/// Every operation is lock-free: it ends within a bounded number of its own steps unless others
/// end meanwhile, wherever other threads are held up. Only levels, segments of the heap and extents
/// of the pool are taken under locks, and items retired under some that few threads share.
pub struct Clevel<M: Medium> {
    core: Arc<Core<M>>,
    helpers: Option<Helpers>,
    scan_time: Duration,
}

/// What operations, recovery and the helper share.
struct Core<M: Medium> {
    pool: Arc<Pool<M>>,
    heap: Heap<M>,
    epochs: Epochs,
    hasher: Hasher,
    shape: Shape,
    settings: Settings,
    /// Where the context is.
    control: Offset,
    levels: LevelTable,
    fingerprints: Fingerprints,
    descriptors: Descriptors,
    /// How far each level is drained: words that `resize` names.
    progress: Array<Line>,
    /// Levels that nobody knows any more, a bit for each.
    free_levels: AtomicU64,
    /// Those of them that a helper has made ready: empty, memory touched.
    ready_levels: AtomicU64,
    /// Held while levels are taken, until they are in the context.
    taking: Mutex<()>,
    /// Per thread: [`KEYS`] and [`INSERTIONS`].
    counts: PerThread,
    /// Keys found at open.
    at_open: AtomicU64,
    resizes: AtomicU64,
    /// Insertions help to drain.
    is_helper_late: AtomicBool,
    signal: Signal,
}

/// What is retired until nobody can know it any more.
#[derive(Debug, Clone, Copy)]
enum Retired {
    /// An item, and the bytes of its key and value.
    Item(Offset, u64),
    /// A level of the context before.
    Level(u32),
}

/// Among retired items, the number of a level. No offset has this bit.
const RETIRED_LEVEL: u64 = 1 << 63;

impl<M: Medium> Clevel<M> {
    /// Opens the table in `pool`, whose engine parameters are those of [`engine_params`]: makes
    /// it if the pool is new, and else recovers it.
    pub fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        let hasher = Hasher::new(pool.superblock().hash_seed);
        Clevel::open_hashed(pool, hasher, settings)
    }

    /// As [`Clevel::open`], with the hasher of the pool's seed, which tests cut to few bits.
    #[inline(never)]
    pub fn open_hashed(
        pool: Arc<Pool<M>>,
        hasher: Hasher,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let core = Arc::new(Core::open(pool, hasher, settings)?);
        let started = Instant::now();
        core.recover()?;
        let scan_time = started.elapsed();
        let helpers =
            Helpers::start(Arc::<Core<M>>::clone(&core), &settings, core.pool.is_read_only());
        Ok(Clevel { core, helpers: Some(helpers), scan_time })
    }

    /// The table's shape.
    pub fn shape(&self) -> Shape {
        self.core.shape
    }

    /// Doubles the table while other operations run, in the calling thread, whatever the settings say of growth. The
    /// caller holds the pool's right to write.
    pub fn expand(&self) -> Result<(), Error> {
        self.core.finish_resize()?;
        self.core.collect_levels();
        {
            let _guard = self.core.epochs.pin();
            let context = self.core.context();
            self.core.grow(context)?;
        }
        self.core.finish_resize()
    }
}

impl<M: Medium> Drop for Clevel<M> {
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

impl<M: Medium> Background for Core<M> {
    /// Some 150 us of work.
    fn turns_at_once(&self) -> Option<u32> {
        Some(4)
    }

    fn signal(&self) -> &Signal {
        &self.signal
    }

    fn is_resizing(&self) -> bool {
        Core::is_resizing(self)
    }

    fn take_turn(&self) -> Result<(), Refused> {
        let _write = self.pool.write().map_err(|_| Refused)?;
        self.drain_some(BUCKETS_PER_TURN, &self.epochs.pin()).map_err(|_| Refused)
    }

    fn prepare(&self) {
        Core::prepare(self);
    }

    fn take_space(&self) -> Result<(), Refused> {
        Core::take_space(self)
    }

    fn tidy(&self) -> bool {
        // A pool that was synced stays clean.
        if self.epochs.is_overdue()
            && let Some(_write) = self.pool.gate().enter()
        {
            self.reclaim_retired();
        }
        self.epochs.is_overdue()
    }
}

impl<M: Medium> std::fmt::Debug for Clevel<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clevel").field("shape", &self.core.shape).finish_non_exhaustive()
    }
}

impl<M: Medium> Core<M> {
    fn open(pool: Arc<Pool<M>>, hasher: Hasher, settings: Settings) -> Result<Self, OpenError> {
        let superblock = pool.superblock();
        let corrupt = |found: String| OpenError::Corrupt { found };
        let shape = Shape::decode(&superblock.engine_params).map_err(corrupt)?;
        if pool.extents_of(CONTROL).is_empty() {
            initialize(&pool, &shape)?;
        }
        let control = match pool.extents_of(CONTROL).as_slice() {
            [extent] if extent.bytes == CONTROL_BYTES => extent.start,
            other => {
                return Err(corrupt(format!("extents of the context: {other:?}, expected one")));
            }
        };
        let levels = LevelTable::new();
        let mut free_levels = 0;
        for extent in pool.extents_of(LEVELS) {
            let level = u32::from(extent.index);
            let log2 = extent
                .bytes
                .checked_ilog2()
                .map_or(LOG2_MAX + 1, |log2| log2.saturating_sub(LINE.ilog2()));
            if !(1..=LEVEL_MAX).contains(&level)
                || log2 > LOG2_MAX
                || extent.bytes != Level::bytes(log2)
                || levels.has(level)
            {
                return Err(corrupt(format!(
                    "an extent of level {level} of {} bytes",
                    extent.bytes
                )));
            }
            levels.set(level, Level::new(extent.start, log2));
            free_levels |= 1 << level;
        }
        let word = pool.medium().load(control);
        let context = Context::of_word(word);
        if !(context.is_one() && context.levels().all(|level| levels.has(level))) {
            return Err(corrupt(format!("the context {word:#x} names no list of levels")));
        }
        for level in context.levels() {
            free_levels &= !(1 << level);
        }
        let reserve = |source| OpenError::Io {
            action: "reserving memory for",
            path: "the table's sidecar".into(),
            source,
        };
        let progress = LEVEL_MAX as usize + 1;
        let (size, limit) = (pool.medium().size(), pool.medium().limit());
        let fingerprints = Fingerprints::reserve(size, limit).map_err(reserve)?;
        for level in context.levels() {
            fingerprints.advise(levels.get(level), false);
        }
        Ok(Core {
            fingerprints,
            heap: Heap::open(Arc::clone(&pool))?,
            epochs: Epochs::new().map_err(reserve)?,
            hasher,
            shape,
            settings,
            control,
            levels,
            descriptors: Descriptors::new().map_err(reserve)?,
            progress: Array::reserve(progress, progress).map_err(reserve)?,
            free_levels: AtomicU64::new(free_levels),
            ready_levels: AtomicU64::new(0),
            taking: Mutex::new(()),
            counts: PerThread::new().map_err(reserve)?,
            at_open: AtomicU64::new(0),
            resizes: AtomicU64::new(0),
            is_helper_late: AtomicBool::new(false),
            signal: Signal::default(),
            pool,
        })
    }

    #[inline(always)]
    fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// h1, h2 and the tag.
    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        match key.try_into() {
            Ok(word) => self.hasher.second_u64(u64::from_le_bytes(word)),
            Err(_) => self.hasher.second_bytes(key),
        }
    }

    /// Retires what nothing leads to any more, durably so.
    fn retire(&self, guard: &Guard<'_>, retired: Retired) {
        let (word, bytes) = match retired {
            Retired::Item(at, bytes) => (at.0, bytes),
            Retired::Level(level) => {
                (RETIRED_LEVEL | u64::from(level), Level::bytes(self.levels.get(level).log2()))
            }
        };
        if guard.retire_and(word, bytes, |ready| self.reclaim_pinned(&ready, guard)) {
            self.signal.wake();
        }
    }

    /// Frees retired things that nobody can know any more. Returns whether something is left. The caller is not pinned.
    #[inline(never)]
    fn reclaim_retired(&self) -> bool {
        self.epochs.collect(|retired| self.reclaim(retired))
    }

    fn reclaim(&self, word: u64) {
        match word & RETIRED_LEVEL {
            0 => self.heap.reclaim(Offset(word)),
            _ => self.reclaim_level((word & !RETIRED_LEVEL) as u32),
        }
    }

    /// As [`Core::reclaim`], for a thread that is pinned.
    fn reclaim_pinned(&self, words: &[u64], guard: &Guard<'_>) {
        let is_level = |word: &&u64| **word & RETIRED_LEVEL != 0;
        words.iter().filter(is_level).for_each(|&word| self.reclaim(word));
        let items = words.iter().filter(|word| !is_level(word)).map(|&word| Offset(word));
        self.heap.reclaim_many(items, guard);
    }

    fn reclaim_level(&self, level: u32) {
        self.free_levels.fetch_or(1 << level, Ordering::AcqRel);
    }

    /// Adds to the calling thread's count of keys.
    #[inline(always)]
    fn count(&self, difference: i64) {
        if difference != 0 {
            self.counts.add(thread_index(), KEYS, difference.cast_unsigned());
        }
    }

    /// Adds to the calling thread's insertions; returns their number.
    #[inline(always)]
    fn count_insertion(&self, thread: usize) -> u64 {
        self.counts.add(thread, INSERTIONS, 1)
    }

    fn len(&self) -> u64 {
        let counted = self.counts.used().map(|line| line.0[KEYS].load(Ordering::Acquire));
        let sum = counted.fold(self.at_open.load(Ordering::Acquire), u64::wrapping_add);
        // Each thread counts separately. During writes a removal may be seen and its insertion not: the sum may seem
        // negative.
        sum.cast_signed().max(0).cast_unsigned()
    }

    #[inline(never)]
    fn occupancy(&self) -> Occupancy {
        let _guard = self.epochs.pin();
        let context = self.context();
        let mut levels: Vec<LevelUse> = context
            .levels()
            .map(|number| {
                let level = self.levels.get(number);
                let slots = level.slots();
                let open = context.open();
                LevelUse {
                    name: match open.iter().position(|&other| other == number) {
                        Some(0) => "first level",
                        Some(_) => "second level",
                        None => "level being drained",
                    },
                    pairs: slots.filter(|&slot| load(self.medium(), slot).is_item()).count() as u64,
                    slots: (SLOTS as u64) << level.log2(),
                    pool_bytes: Level::bytes(level.log2()),
                    sidecar_bytes: Fingerprints::bytes(Level::bytes(level.log2())),
                }
            })
            .collect();
        levels.push(LevelUse {
            name: "levels kept",
            pairs: 0,
            slots: 0,
            pool_bytes: self.unused_bytes(context),
            sidecar_bytes: Fingerprints::bytes(self.unused_bytes(context)),
        });
        Occupancy {
            levels,
            capacity: capacity(self.levels.get(context.back()).log2()),
            resizing: context.is_resizing(),
            resizes: self.resizes.load(Ordering::Relaxed),
            cached: None,
        }
    }

    #[inline(never)]
    fn compact(&self) -> Compacted {
        // A helper's guard would keep what is moved.
        let _held = self.signal.try_hold();
        self.heap.compact(&self.epochs, self)
    }

    #[inline(never)]
    fn shrink(&self) -> Result<Shrunk, Error> {
        self.finish_resize()?;
        self.collect_levels();
        let Some(before) = self.begin_shrink()? else { return Ok(Shrunk::Kept) };
        self.finish_resize()?;
        // What did not fit has made it grow again. Called a success, it might be tried for ever.
        let _guard = self.epochs.pin();
        let has_halved = self.levels.get(self.context().back()).log2() < before;
        Ok(if has_halved { Shrunk::Halved } else { Shrunk::Kept })
    }
}

/// Takes the first extents, in one step. The context is not written: 0 stands for the first one.
fn initialize<M: Medium>(pool: &Pool<M>, shape: &Shape) -> Result<(), OpenError> {
    if pool.is_read_only() {
        return Err(OpenError::NeedsRecovery);
    }
    pool.extend(|draft| {
        draft.take_extent(CONTROL, 0, CONTROL_BYTES)?;
        for (level, log2) in Context::FIRST.levels().zip(shape.initial_log2 - 1..) {
            draft.take_extent(LEVELS, level as u8, Level::bytes(log2))?;
        }
        Ok(())
    })?;
    Ok(())
}
