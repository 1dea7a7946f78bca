//! Variable-length items without a log.
//!
//! An item is first written and persisted, then published by the engine's own 8-byte store. A crash in between leaves a
//! slot to which nothing leads. Allocations are not recorded: when the pool is opened, a walk through the table finds
//! what is reachable ([`Sweep`]). So an allocation writes nothing but the item, and one word when a thread takes a new
//! segment.
//!
//! ```text
//! extent   | segment | segment | ... |      table   | a descriptor word for each segment of a range |
//! small    | slot | slot | ... |            large   | item over one or more segments |
//! ```
//!
//! A slab is a segment of slots, or several segments in a row if the slots are large.
//!
//! A segment is sealed from the opening until the sweep has passed it; until then, allocation takes fresh segments, and
//! the few whose free slots were recorded at the last close. Each thread owns the segments from which it
//! allocates.

mod adopt;
mod ahead;
mod alloc;
mod cache;
pub(crate) mod checksum;
mod class;
mod compact;
mod draft;
mod grow;
mod item;
mod magazine;
mod map;
mod remains;
mod reserve;
mod rest;
mod runs;
pub mod salvage;
mod seen;
mod segment;
mod set_aside;
mod sweep;
mod vacant;
mod victims;
mod wanted;

pub use compact::Mover;
pub use draft::Draft;
pub use item::{GROUP_MAX, Item, KEY_BYTES_MAX, VALUE_BYTES_MAX, prefetch_item};
pub use seen::{Seen, prefetch_value, seen};
pub use sweep::{Audit, Sweep};
pub(crate) use vacant::vacant_ranges;
pub use wanted::{Compacted, Wanted};

use crate::error::OpenError;
use crate::medium::Medium;
use crate::offset::Offset;
use crate::pool::Pool;
use crate::superblock::{HEAP, HEAP_WORDS};
use crate::sync::{Array, AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering, THREADS_MAX};
use adopt::Chunks;
use ahead::Growth;
use class::{CLASSES_MAX, Classes};
use magazine::Magazines;
use map::{Tables, segments_of};
use reserve::{Reserve, ReservedRun};
use runs::FreeRuns;
use segment::{BITMAP_WORDS, Descriptor, Segment, Segments, usage};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// log2 of a segment's size in a heap that is expected to be large.
pub const SEGMENT_LOG2_DEFAULT: u32 = 16;
/// log2 of a segment's size in a heap that may stay small: each size class has a segment that is partly empty.
pub const SEGMENT_LOG2_SMALL: u32 = 13;
/// A heap grows for a wide slab only if no more than this fraction of it is free.
const SCARCE_FRACTION: u64 = 16;
/// A heap has wide slabs if each is at most this fraction of it: each class may have one that is partly empty.
const WIDE_SLAB_FRACTION: u64 = if cfg!(feature = "simulated") { 2 } else { 64 };

/// Impossible content in a pool: what was found, and where.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pool is damaged at {at}: {found}; run `check`, and restore the file from a backup, or copy out what still reads well: `Salvage::open(POOL)`"
)]
pub struct Corrupt {
    /// Where.
    pub at: Offset,
    /// What was found.
    pub found: String,
}

/// As that of the [other errors](crate::Named).
impl std::fmt::Debug for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Corrupt { at, found } = self;
        match f.alternate() {
            true => f.debug_struct("Corrupt").field("at", at).field("found", found).finish(),
            false => write!(f, "{self} [Corrupt]"),
        }
    }
}

impl crate::Named for Corrupt {
    fn write_name(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Corrupt")
    }
}

/// What is known of the slots that were there at the opening.
mod standing {
    /// Which of them are free.
    pub(super) const SWEPT: u8 = 0;
    /// Nothing yet, but for what was [recorded](super::rest).
    pub(super) const UNSWEPT: u8 = 1;
    /// The sweep met something impossible, so it is not certain which of them are taken. None is handed out again, and
    /// nothing is taken back.
    pub(super) const DAMAGED: u8 = 2;
}

/// Space of a heap in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapUse {
    /// Bytes of all extents.
    pub pool_bytes: u64,
    /// Bytes of slots and segments that are taken.
    pub used_bytes: u64,
    /// Bytes of free segments whose space the system has.
    pub vacant_bytes: u64,
}

/// Where an item can be.
#[derive(Debug, Clone, Copy)]
enum Room {
    Slot {
        /// The first one of its slab.
        segment: u64,
        class: usize,
        /// Its number in the slab.
        slot: u64,
    },
    /// Whole segments, of which this is the first.
    Run { segment: u64, segments: u64 },
}

/// The heap of a pool.
pub struct Heap<M: Medium> {
    pool: Arc<Pool<M>>,
    segment_log2: u32,
    incarnation: u64,
    classes: Classes,
    segments: Segments,
    tables: Tables,
    chunks: Chunks,
    /// Slabs of each class with free slots and no owner.
    partial: Vec<Mutex<Vec<u64>>>,
    /// Slots of each class that only replacements get.
    reserves: Vec<Reserve>,
    reserved_run: ReservedRun,
    free_runs: Mutex<FreeRuns>,
    /// Runs of free segments whose space the system has.
    vacant_runs: Mutex<FreeRuns>,
    /// Number of segments in them.
    segments_vacant: AtomicU64,
    /// Whether the system takes no space back.
    keeps_space: AtomicBool,
    /// Number of segments in all extents.
    segments_taken: AtomicU64,
    /// Number of segments in free runs.
    segments_free: AtomicU64,
    growth: Growth,
    /// Held by a thread that empties segments.
    compacting: Mutex<()>,
    /// Serialises growth, so that threads in need at the same time add one extent and not several.
    growing: Mutex<()>,
    /// The number of segments with which the heap had no room for a wide slab, and could not grow.
    wide_refused_at: AtomicU64,
    /// A bit for each class that has had a slab: no thread has slots of others.
    classes_used: [AtomicU64; CLASSES_MAX / 64],
    /// The two words of a [`cache`], for each thread and class.
    caches: Array<AtomicU64>,
    magazines: Magazines,
    /// Held by the thread without a number that uses the cache of all such threads.
    shared_cache: Mutex<()>,
    /// See [`standing`].
    standing: AtomicU8,
    /// What is about to be unlinked, or was, in sealed segments: bits of each one's slots. Also held by who unseals a
    /// segment, or gives back a slot of a sealed one.
    unlinked: Mutex<HashMap<u64, [u64; BITMAP_WORDS]>>,
}

impl<M: Medium> Heap<M> {
    /// The heap of `pool`. All of it is sealed until a [`Sweep`] has passed.
    #[inline(never)]
    pub fn open(pool: Arc<Pool<M>>) -> Result<Heap<M>, OpenError> {
        let superblock = pool.superblock();
        let segment_log2 = superblock.segment_log2;
        let classes = Classes::new(1 << segment_log2);
        let reserve = |source| OpenError::Io {
            action: "reserving memory for",
            path: "the heap's state".into(),
            source,
        };
        let segments_max = (pool.medium().limit() >> segment_log2) as usize + 1;
        let segments_now = (superblock.end >> segment_log2) as usize + 1;
        let mut heap = Heap {
            segment_log2,
            incarnation: superblock.incarnation,
            segments: Segments::reserve(1 << segment_log2, segments_max, segments_now)
                .map_err(reserve)?,
            tables: Tables::new(segment_log2),
            chunks: Chunks::default(),
            partial: (0..classes.count()).map(|_| Mutex::default()).collect(),
            reserves: classes
                .sizes()
                .enumerate()
                .map(|(class, size)| Reserve::new(classes.slots(class), size))
                .collect(),
            reserved_run: ReservedRun::new(1 << segment_log2),
            magazines: Magazines::new(classes.sizes()).map_err(reserve)?,
            classes,
            free_runs: Mutex::default(),
            vacant_runs: Mutex::default(),
            segments_vacant: AtomicU64::new(0),
            keeps_space: AtomicBool::new(false),
            segments_taken: AtomicU64::new(0),
            segments_free: AtomicU64::new(0),
            growth: Growth::default(),
            compacting: Mutex::default(),
            growing: Mutex::default(),
            wide_refused_at: AtomicU64::new(0),
            classes_used: Default::default(),
            caches: Array::reserve(
                (THREADS_MAX + 1) * CLASSES_MAX * 2,
                (THREADS_MAX + 1) * CLASSES_MAX * 2,
            )
            .map_err(reserve)?,
            shared_cache: Mutex::default(),
            standing: AtomicU8::new(standing::UNSWEPT),
            unlinked: Mutex::default(),
            pool,
        };
        heap.adopt_recorded().map_err(|found| OpenError::Corrupt { found })?;
        Ok(heap)
    }

    /// The pool that the heap is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    fn medium(&self) -> &M {
        self.pool.medium()
    }

    fn is_damaged(&self) -> bool {
        self.standing.load(Ordering::Acquire) == standing::DAMAGED
    }

    fn is_unswept(&self) -> bool {
        self.standing.load(Ordering::Acquire) == standing::UNSWEPT
    }

    fn segment_bytes(&self) -> u64 {
        1 << self.segment_log2
    }

    fn start_of(&self, segment: u64) -> Offset {
        Offset(segment << self.segment_log2)
    }

    #[inline(always)]
    fn state(&self, segment: u64) -> Segment<'_> {
        self.segments.get(segment)
    }

    /// The segments on record, in order; runs that nothing interrupts are one range.
    fn recorded(&self) -> Result<Vec<Range<u64>>, String> {
        segments_of(self.pool.extents_of(HEAP), self.segment_log2)
    }

    /// All segments.
    fn all_segments(&self) -> impl Iterator<Item = u64> {
        self.adopt_all();
        // What an opening has found whole, growth keeps so.
        self.recorded().unwrap_or_default().into_iter().flatten()
    }

    /// Takes in what the superblock has on record.
    fn adopt_recorded(&mut self) -> Result<(), String> {
        for table in self.pool.extents_of(HEAP_WORDS) {
            self.tables.adopt(&table)?;
        }
        self.recorded()?.into_iter().try_for_each(|segments| self.find_segments(segments))
    }

    /// Where a segment's surviving word is. `None` for what is no segment of the heap.
    fn descriptor_at(&self, segment: u64) -> Option<Offset> {
        self.tables.word_of(segment)
    }

    /// Adds a run of segments, marked free, to the free runs.
    fn release_run(&self, first: u64, count: u64) {
        let mut runs = self.free_runs.lock();
        self.segments_free.fetch_add(count, Ordering::Relaxed);
        runs.add(first, count);
    }

    /// Takes a run of `count` free segments, if there is one.
    fn take_run(&self, count: u64) -> Option<u64> {
        let first = self.free_runs.lock().take(count)?;
        self.segments_free.fetch_sub(count, Ordering::Relaxed);
        self.look_ahead();
        Some(first)
    }

    /// Writes a segment's descriptor word and starts writing it back.
    fn describe(&self, segment: u64, descriptor: Descriptor) {
        // An opening, or growth, has found that each segment has one.
        if let Some(at) = self.descriptor_at(segment) {
            self.medium().store(at, descriptor.encode());
            self.medium().flush(at);
        }
    }

    /// The classes of which threads may have slots.
    fn classes_used(&self) -> Vec<usize> {
        let is_used = |&class: &usize| {
            self.classes_used[class / 64].load(Ordering::Acquire) & 1 << (class % 64) != 0
        };
        (0..self.classes.count()).filter(is_used).collect()
    }

    /// Notes that a class has a slab.
    fn note_class(&self, class: usize) {
        self.classes_used[class / 64].fetch_or(1 << (class % 64), Ordering::AcqRel);
    }

    /// Makes segments a slab, and says how many slots it has.
    fn mark_slab(&self, first: u64, class: usize) {
        self.note_class(class);
        for behind in 1..self.classes.segments(class) {
            let part = self.state(first + behind);
            part.count.store(behind as u32, Ordering::Relaxed);
            part.usage.store(usage::PART, Ordering::Release);
        }
        let state = self.state(first);
        state.count.store(self.classes.slots(class) as u32, Ordering::Relaxed);
        state.usage.store(usage::SMALL + class as u32, Ordering::Release);
    }

    /// Makes segments a large item's.
    fn mark_large(&self, first: u64, count: u32) {
        let state = self.state(first);
        state.count.store(count, Ordering::Relaxed);
        for tail in 1..u64::from(count) {
            self.state(first + tail).usage.store(usage::TAIL, Ordering::Relaxed);
        }
        state.usage.store(usage::LARGE, Ordering::Release);
    }

    /// The first segment of the slab that `segment` is part of, or else `segment`.
    #[inline]
    fn first_of_slab(&self, segment: u64) -> u64 {
        if segment >= self.segments.len() as u64 {
            return segment;
        }
        match self.usage_of(segment) {
            usage::PART => {
                let behind = self.state(segment).count.load(Ordering::Relaxed);
                let first = segment.saturating_sub(behind.into());
                // Another thread may be setting up the slab, whose first segment comes last.
                self.usage_of(first);
                first
            }
            _ => segment,
        }
    }

    /// The slab, or else the segment, in which `at` lies.
    fn slab_of(&self, at: Offset) -> u64 {
        self.first_of_slab(at.0 >> self.segment_log2)
    }

    /// What begins at `at`, if an item can begin there.
    #[inline]
    fn room_at(&self, at: Offset) -> Option<Room> {
        let segment = self.slab_of(at);
        if segment >= self.segments.len() as u64 {
            return None;
        }
        let state = self.state(segment);
        let within = at.0 - self.start_of(segment).0;
        match state.usage.load(Ordering::Acquire) {
            usage::LARGE if within == 0 => Some(Room::Run { segment, segments: state.slots() }),
            small if small >= usage::SMALL => {
                let class = (small - usage::SMALL) as usize;
                let slot = self.classes.slot_at(class, within)?;
                (slot < state.slots()).then_some(Room::Slot { segment, class, slot })
            }
            _ => None,
        }
    }

    /// Slab and class of the slot that begins at `at`, if one does.
    #[inline]
    fn slot_at(&self, at: Offset) -> Option<(u64, usize)> {
        match self.room_at(at)? {
            Room::Slot { segment, class, .. } => Some((segment, class)),
            Room::Run { .. } => None,
        }
    }

    /// Bytes of the slot or segments that begin at `at`, if an item can begin there.
    fn capacity_at(&self, at: Offset) -> Option<u64> {
        match self.room_at(at)? {
            Room::Slot { class, .. } => self.classes.size(class),
            Room::Run { segments, .. } => Some(segments << self.segment_log2),
        }
    }

    /// How much space the heap has and how much of it is taken.
    #[inline(never)]
    pub fn usage(&self) -> HeapUse {
        let mut total = HeapUse::default();
        let extents = [HEAP, HEAP_WORDS].map(|owner| self.pool.extents_of(owner));
        total.pool_bytes = extents.iter().flatten().map(|extent| extent.bytes).sum();
        for segment in self.all_segments() {
            let state = self.state(segment);
            match state.usage.load(Ordering::Acquire) {
                usage::NONE | usage::FREE | usage::PART => {}
                usage::VACANT => total.vacant_bytes += self.segment_bytes(),
                usage::LARGE | usage::TAIL => total.used_bytes += self.segment_bytes(),
                small => {
                    let size = self.classes.size((small - usage::SMALL) as usize);
                    // What is free of a sealed one is not known.
                    let free = if self.is_sealed(segment) { 0 } else { state.free() };
                    let taken = state.slots().saturating_sub(free);
                    total.used_bytes += size.unwrap_or(0) * taken;
                }
            }
        }
        // What is in caches and magazines, or set aside, holds no item.
        let size_of =
            |segment| self.class_of_segment(segment).and_then(|class| self.classes.size(class));
        let cached = self.cached().into_iter().map(|(place, bits)| {
            size_of(place.segment).unwrap_or(0) * u64::from(bits.count_ones())
        });
        let set_aside = self.classes.sizes().zip(&self.reserves);
        let set_aside = set_aside.map(|(size, reserve)| size * reserve.slots().len() as u64);
        let kept = self
            .magazines
            .slots(&self.classes_used())
            .into_iter()
            .filter_map(|at| self.capacity_at(at));
        let unused: u64 = cached.chain(set_aside).chain(kept).sum();
        // What moves from one segment to another meanwhile may be counted in both.
        total.used_bytes = total.used_bytes.saturating_sub(unused).min(total.pool_bytes);
        total
    }
}

impl<M: Medium> std::fmt::Debug for Heap<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
