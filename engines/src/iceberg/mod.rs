//! IcebergHT: stability and low associativity.
//!
//! Pandey, Bender, Conway, Farach-Colton, Kuszmaul, Tagliavini, Johnson: *IcebergHT: High
//! Performance Hash Tables Through Stability and Low Associativity*, Proc. ACM Manag. Data 1(1),
//! 2023.
//!
//! | the paper | here |
//! |---|---|
//! | front yard, level 1; block of 64 slots | `blocks_1`; [`Shape::level_1_slots`] |
//! | level 2; block of 8 slots, power of two choices | `area_2`; [`Shape::level_2_slots`] |
//! | level 3; linked lists | `level_3::Level3`: nodes in the pool, chains in the sidecar |
//! | metadata, fingerprint (section 3.1) | sidecar: lines of `blocks_1`, `words` (level 2) |
//! | EMPTY | fingerprint 0 |
//! | h0; F, F1, F2 | [`hash`] |
//! | h1, h2 | [`index::hash`] |
//! | Insert (algorithm 1) | `ops`: `mutate_slow`, `lock_home`, `replace_existing`, `insert_lv1`; `fast` where level 1 suffices |
//! | Insert_Lv2 (algorithm 2), Insert_Lv3 | `ops`: `insert_lv2`; `Level3::insert` |
//! | ReplaceExisting, deletion (section 3.2) | `replace_existing`, with what the caller decides |
//! | query (section 3.2) | `search`: `get_slow`, `search_1`, `search_spilled`; `fast` where level 1 suffices |
//! | moved flag: UNMOVED, IN-FLIGHT, MOVED (section 5.3) | flag MOVED and the block's lock |
//! | counter of blocks to be moved | `resize::Progress`: `unmoved_1`, `unmoved_2` |
//! | global reader-writer lock | `layout::Geometry`, rechecked under the block's lock |
//!
//! Invariants:
//!
//! 1. A key is in at most one place, except that a move copies before it erases. Then both copies are equal.
//! 2. A key's slot changes only in a resize. Moves go forward in the order of searches: level-1 source, level-1
//!    destination, level-2 sources, level-2 destinations, level 3. Only a table that is draining moves pairs back, from
//!    level 2 to level 1, and then a search ends with another look at level 1.
//! 3. A thread that changes a key holds the lock of its level-1 block, and that of the level-2 block if the key is in
//!    one. Locks are taken level 1 first, and by index within a level. During a shrink, the key's level-1 block is the
//!    one that remains.
//! 4. A fingerprint other than EMPTY stands only over a slot whose pair is durable, or was durable until a removal that
//!    is under way.
//! 5. A key in level 2 or 3 has its bit of SPILLED set in its level-1 block.
//!
//! Departures from the paper, and why:
//!
//! 1. The value needs no invalid pattern (section 6): it is stored before the key, in the same line, and lines keep the
//!    order of their stores. Any value is legal. Key 0, which stands for an empty slot, lives in level 3.
//! 2. No global reader-writer lock (section 5.3): a writer locks its block and then rechecks the geometry. A thread
//!    that moves a block after a new geometry was published must take the same lock.
//! 3. Level-2 blocks have a lock, in the word of their fingerprints. The paper claims a slot by a compare-and-swap of
//!    its fingerprint, which does not keep a mover from passing by between the choice of the slot and its filling.
//!    Under the lock no RESERVED fingerprint is needed.
//! 4. A reader that meets a change under way makes it durable itself (flush and fence) before it answers. Otherwise a
//!    crash could take back what it reported.
//! 5. Level 3: readers take no lock; a version per chain tells them to look again. Links are volatile, so no crash can
//!    tear a list. Nodes carry a state, written last.
//! 6. SPILLED is a filter of eight bits. A search that finds nothing in level 1 ends there if no key with its bit went
//!    beyond the block since the last doubling, or stayed beyond it then.
//! 7. A pair goes to a line of its block that its hash prefers, if that has room. Its fingerprint has a bit for whether
//!    it is there ([`DISPLACED`](index::fingerprint::DISPLACED)), and seven bits of the hash.
//! 8. The superblock records sizes before a doubling shows them. Recovery finishes an interrupted doubling, block pair
//!    by block pair.
//! 9. The table shrinks, by the reverse of section 4: see `shrink`. Sizes are recorded when a shrink ends. Recovery
//!    takes an interrupted shrink back.
//! 10. A doubling ends by bringing pairs of level 2 back to level 1, where it has made room: see `tidy`.
//! 11. A large table that is at rest is opened at once. Its sidecar is built afterwards, while operations run: see
//!     `building`.

mod batch;
mod block;
mod building;
mod check;
mod engine;
mod fast;
pub mod hash;
mod layout;
mod level_3;
mod ops;
mod pass;
mod places;
mod recover;
mod resize;
mod rest;
mod salvage;
mod scan;
mod search;
mod shown;
mod shrink;
mod sight;
mod table;
#[cfg(test)]
mod tests;
mod tidy;

pub use engine::{Changes, Engine, Hot, Reads};
pub use layout::Shape;
pub use sight::Sight;

use crate::Settings;
use crate::engine::Describe;
use crate::kit::built::Built;
use crate::kit::helper::{Background, Helpers, Refused, Signal};
use crate::kit::workers::{Work, Workers};
use crate::sizes::check_sizes;
use building::Building;
use index::{Level, Occupancy};
use layout::{
    BLOCKS_LOG2_MAX, Geometry, LEVEL_1, LEVEL_2, LEVEL_3, NODE_BYTES, NODES_LOG2_MAX, Published,
    ROOT_LEVEL_1, ROOT_LEVEL_2, ROOT_LEVEL_3,
};
use level_3::Level3;
use places::Places;
use pmem::slots::{Area, SLOT_BYTES, SlotBlocks};
use pmem::superblock::PoolKind;
use pmem::sync::{AtomicU64, Mutex, Ordering, PerThread};
use pmem::{Medium, Offset, OpenError, Pool};
use resize::Progress;
use shown::{Arrays, Shown};
use shrink::Scans;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidy::Tidying;

/// Blocks of each level that a helper moves in one turn, under one `Pool::write`.
const BLOCKS_PER_TURN: u64 = 16;
/// Threads that build begin so long after the opening: who only wants one pair has it by then, and would wait for a
/// processor otherwise.
const BUILDING_DELAY: Duration = Duration::from_millis(50);

/// Number of this engine in a pool's superblock.
pub const ENGINE_ID: u32 = <Engine as Describe>::DESCRIPTION.id;

/// Words of a thread's counts: pairs inserted; pairs removed.
const INSERTIONS: usize = 0;
const REMOVALS: usize = 1;

/// The parameters with which a pool for a table of this shape is created.
pub fn engine_params(shape: &Shape) -> [u64; 16] {
    shape.encode()
}

/// An open IcebergHT.
pub struct Iceberg<M: Medium> {
    core: Arc<Core<M>>,
    helpers: Option<Helpers>,
    /// Threads that complete the sidecar after an opening.
    builders: Option<Workers>,
    scan_time: Duration,
}

/// What operations, helpers and recovery share.
///
/// It dereferences to where keys may be, on which its searches go.
struct Core<M: Medium> {
    places: Places<M>,
    settings: Settings,
    level_3: Level3,
    /// What guests see.
    shown: Option<Shown>,
    published: Published,
    progress: Progress,
    tidying: Tidying,
    building: Building,
    /// Who wants to know what the building has found.
    built: Built,
    is_store: bool,
    /// The words [`INSERTIONS`] and [`REMOVALS`] of each thread.
    counts: PerThread,
    /// Pairs found when the pool was opened.
    pairs_at_open: AtomicU64,
    /// Held while a resize or a scan begins.
    beginning: Mutex<()>,
    scans: Scans,
    /// log2 of the level-1 blocks for which space was last prepared ahead.
    prepared_log2: AtomicU64,
    signal: Signal,
}

impl<M: Medium> Iceberg<M> {
    /// Opens the table in `pool`, whose engine parameters are those of [`engine_params`]. Creates the table if the pool
    /// is new, otherwise recovers it.
    pub fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        let core = Core::open(pool, settings)?;
        let started = Instant::now();
        core.recover()?;
        let scan_time = started.elapsed();
        let core = Arc::new(core);
        let helpers =
            Helpers::start(Arc::<Core<M>>::clone(&core), &settings, core.pool.is_read_only());
        let builders = Core::start_builders(&core);
        Ok(Iceberg { core, helpers: Some(helpers), builders: Some(builders), scan_time })
    }

    /// The pool that the table is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.core.pool
    }

    /// Completes the sidecar before a check, and ends the helpers' moves. They are no writing of the caller's, but the
    /// check would find a pair twice, or a locked block.
    fn outrun_helpers(&self) {
        self.core.finish_sidecar();
        if self.core.signal.has_helper() {
            self.core.settle();
        }
    }

    /// The table's shape.
    pub fn shape(&self) -> Shape {
        self.core.shape
    }
}

impl<M: Medium> Drop for Iceberg<M> {
    fn drop(&mut self) {
        let core = &self.core;
        if let Some(helpers) = self.helpers.take() {
            helpers.stop(&core.signal, core.pool.is_inherited());
        }
        if let Some(builders) = self.builders.take() {
            builders.stop(&core.building.is_stopped, core.pool.is_inherited());
        }
        if !core.pool.is_inherited() && !core.pool.is_read_only() {
            // So that a closed pool needs no recovery and can be opened read-only.
            core.come_to_rest();
        }
    }
}

impl<M: Medium> Background for Core<M> {
    /// No pause: the faster a resize ends, the fewer operations look in two places.
    fn turns_at_once(&self) -> Option<u32> {
        None
    }

    fn signal(&self) -> &Signal {
        &self.signal
    }

    fn is_resizing(&self) -> bool {
        self.geometry().is_resizing()
    }

    fn take_turn(&self) -> Result<(), Refused> {
        let geometry = self.geometry();
        if !geometry.is_moving() {
            // It writes nothing to the pool, so it needs no right to.
            return if self.tidy_some(geometry) { Ok(()) } else { Err(Refused) };
        }
        let _write = self.pool.write().map_err(|_| Refused)?;
        // Pairs that a shrink had to leave wait for room.
        if self.move_next(BLOCKS_PER_TURN) { Ok(()) } else { Err(Refused) }
    }

    fn prepare(&self) {
        Core::prepare(self);
    }
}

impl<M: Medium> Deref for Core<M> {
    type Target = Places<M>;

    #[inline(always)]
    fn deref(&self) -> &Places<M> {
        &self.places
    }
}

impl<M: Medium> std::fmt::Debug for Iceberg<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iceberg")
            .field("shape", &self.core.shape)
            .field("geometry", &self.core.geometry())
            .finish_non_exhaustive()
    }
}

impl<M: Medium> Core<M> {
    fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        let superblock = pool.superblock();
        check_sizes::<u64, u64>(&superblock)?;
        let corrupt = |found: String| OpenError::Corrupt { found };
        let shape = Shape::decode(&superblock.engine_params).map_err(corrupt)?;
        let units = [
            u64::from(shape.level_1_slots) * SLOT_BYTES,
            u64::from(shape.level_2_slots) * SLOT_BYTES,
            NODE_BYTES,
        ];
        let [area_1, area_2] = [0, 1].map(|level| Area::new(units[level], shape.initial_log2));
        let area_3 = Area::new(units[2], shape.initial_nodes_log2);
        let mut roots = [
            superblock.engine_roots[ROOT_LEVEL_1],
            superblock.engine_roots[ROOT_LEVEL_2],
            superblock.engine_roots[ROOT_LEVEL_3],
        ];
        if pool.extents_of(LEVEL_1).is_empty() {
            roots = initialize(&pool, &shape, [&area_1, &area_2, &area_3])?;
        }
        for (owner, area, root) in [
            (LEVEL_1, &area_1, roots[0]),
            (LEVEL_2, &area_2, roots[1]),
            (LEVEL_3, &area_3, roots[2]),
        ] {
            check_root(owner, area, root).map_err(corrupt)?;
        }
        let limit = pool.medium().limit();
        let units_now = roots.map(|log2| 1usize << log2);
        let starts = |owner, area, root| starts_of(&pool, owner, area, root).map_err(corrupt);
        let starts_1 = starts(LEVEL_1, &area_1, roots[0])?;
        let starts_2 = starts(LEVEL_2, &area_2, roots[1])?;
        let starts_3 = starts(LEVEL_3, &area_3, roots[2])?;
        let most = |unit_bytes: u64, area: &Area, starts: &[Offset]| {
            let units = (limit / unit_bytes).clamp(1, 1 << BLOCKS_LOG2_MAX) as usize;
            // A shrink leaves extents that the size does not need.
            units.next_power_of_two().max(area.units_in(starts.len()))
        };
        let most_1 = most(units[0], &area_1, &starts_1);
        let most_2 = most(units[1], &area_2, &starts_2);
        let most_3 = most(units[2], &area_3, &starts_3);
        let reserve = |source| OpenError::Io {
            action: "reserving memory for",
            path: "the table's sidecar".into(),
            source,
        };
        let arrays = Arrays::of(&settings, [most_1, most_2], [units_now[0], units_now[1]]);
        let Arrays { lines, words, heads, view } = arrays.map_err(reserve)?;
        if let Some(view) = &view {
            pool.show_by(view);
        }
        let blocks_1 = SlotBlocks::new(Arc::clone(&pool), area_1, lines, &starts_1)
            .map_err(|wrong| corrupt(wrong_in(LEVEL_1, wrong)))?;
        for (area, starts) in [(&area_2, starts_2), (&area_3, starts_3)] {
            (0..).zip(starts).for_each(|(index, start)| area.add_extent(index, start));
        }
        Ok(Core {
            settings,
            level_3: Level3::new(area_3, roots[2] as u32, heads, most_3).map_err(reserve)?,
            shown: view.map(Shown::by),
            published: Published::new(Geometry::new(roots[0] as u32, roots[1] as u32)),
            progress: Progress::default(),
            tidying: Tidying::new(most_1, units_now[0]).map_err(reserve)?,
            building: Building::new(units_now[1]).map_err(reserve)?,
            built: Built::default(),
            is_store: superblock.kind == PoolKind::Store,
            counts: PerThread::new().map_err(reserve)?,
            pairs_at_open: AtomicU64::new(0),
            beginning: Mutex::new(()),
            scans: Scans::default(),
            prepared_log2: AtomicU64::new(0),
            signal: Signal::default(),
            places: Places::new(pool, &superblock, shape, blocks_1, area_2, words),
        })
    }

    /// As many threads as recovery may have, if there is anything to build and threads are wanted. They end at once
    /// when they are unparked and told to.
    fn start_builders(core: &Arc<Self>) -> Workers {
        let is_needed = !core.is_built() && core.settings.helpers > 0;
        let count = if is_needed { core.settings.recovery_threads() } else { 0 };
        Workers::start(count, "firndex-builder", &|_| {
            let core = Arc::clone(core);
            Box::new(move || {
                std::thread::park_timeout(BUILDING_DELAY);
                core.build_until_stopped();
            }) as Work
        })
    }

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        Geometry(self.published.geometry.load(Ordering::Acquire))
    }

    /// Completes the sidecar, and ends a resize that is under way. If the pool cannot be written, a later opening ends
    /// it.
    fn settle(&self) {
        self.finish_sidecar();
        self.come_to_rest();
    }

    fn len(&self) -> u64 {
        if self.is_uncounted() {
            self.finish_building();
        }
        let counted = self.counts.used().map(|line| {
            let word = |word: usize| line.0[word].load(Ordering::Acquire);
            word(INSERTIONS).wrapping_sub(word(REMOVALS))
        });
        // Each thread counts for itself; only the sum is a number of pairs. While others write, a removal may be seen
        // without its insertion, and the sum may seem negative.
        let sum = counted.fold(self.pairs_at_open.load(Ordering::Acquire), u64::wrapping_add);
        sum.cast_signed().max(0).cast_unsigned()
    }

    /// Slots that the load factor is relative to.
    fn capacity(&self, geometry: Geometry) -> u64 {
        geometry.blocks_1() * u64::from(self.shape.level_1_slots)
            + geometry.blocks_2() * u64::from(self.shape.level_2_slots)
    }

    fn occupancy(&self) -> Occupancy {
        self.finish_building();
        let geometry = self.geometry();
        let shape = &self.shape;
        let pairs_2 = (0..geometry.span_2()).map(|block| u64::from(self.taken_2(block))).sum();
        let pairs_3 = self.level_3.len();
        let bytes_of = |owner| self.pool.extents_of(owner).iter().map(|extent| extent.bytes).sum();
        let level = |name, pairs, slots, owner, sidecar_bytes| Level {
            name,
            pairs,
            slots,
            pool_bytes: bytes_of(owner),
            sidecar_bytes,
        };
        let (blocks_1, blocks_2) = (geometry.blocks_1(), geometry.blocks_2());
        let resizes = self.progress.resizes.load(Ordering::Relaxed);
        let pairs_1 =
            (0..geometry.span_1()).map(|block| u64::from(self.taken_1(block).count_ones())).sum();
        let nodes = self.level_3.nodes();
        Occupancy {
            levels: vec![
                level(
                    "level 1",
                    pairs_1,
                    blocks_1 * u64::from(shape.level_1_slots),
                    LEVEL_1,
                    blocks_1 * 64 + Tidying::bytes_for(blocks_1),
                ),
                level(
                    "level 2",
                    pairs_2,
                    blocks_2 * u64::from(shape.level_2_slots),
                    LEVEL_2,
                    blocks_2 * 8,
                ),
                level("level 3", pairs_3, nodes, LEVEL_3, blocks_1 * 8 + nodes * 16),
            ],
            capacity: self.capacity(geometry),
            // An opening ends by clearing, too, and is no resize.
            resizing: geometry.is_moving() || geometry.is_clearing() && resizes > 0,
            resizes,
            cached: None,
        }
    }
}

/// Takes the first extents and records the sizes, in one step.
fn initialize<M: Medium>(
    pool: &Pool<M>,
    shape: &Shape,
    areas: [&Area; 3],
) -> Result<[u64; 3], OpenError> {
    let log2 = u64::from(shape.initial_log2);
    let roots = [log2, log2, u64::from(shape.initial_nodes_log2)];
    if pool.is_read_only() {
        return Err(OpenError::NeedsRecovery);
    }
    pool.extend(|draft| {
        for (owner, area) in [LEVEL_1, LEVEL_2, LEVEL_3].into_iter().zip(areas) {
            draft.take_extent(owner, 0, area.extent_bytes(0))?;
        }
        draft.set_at_rest(true);
        draft.engine_roots()[ROOT_LEVEL_1] = roots[0];
        draft.engine_roots()[ROOT_LEVEL_2] = roots[1];
        draft.engine_roots()[ROOT_LEVEL_3] = roots[2];
        Ok(())
    })?;
    Ok(roots)
}

/// Whether a level can have `1 << root` units.
fn check_root(owner: u8, area: &Area, root: u64) -> Result<(), String> {
    let initial = area.initial_log2();
    let most = if owner == LEVEL_3 { NODES_LOG2_MAX } else { BLOCKS_LOG2_MAX };
    if (u64::from(initial)..=u64::from(most)).contains(&root) {
        return Ok(());
    }
    Err(wrong_in(owner, format!("2^{root} units, expected 2^{initial} to 2^{most}")))
}

fn wrong_in(owner: u8, what: String) -> String {
    format!("level {owner} of the table: {what}")
}

/// Where the extents of a level begin, if they fit its size, which was [checked](check_root).
fn starts_of<M: Medium>(
    pool: &Pool<M>,
    owner: u8,
    area: &Area,
    root: u64,
) -> Result<Vec<Offset>, String> {
    let extents = pool.extents_of(owner);
    let wrong = |what: String| Err(wrong_in(owner, what));
    let expected = area.extents_for(root as u32) as usize;
    // A shrink leaves extents that the size does not need; level 3 does not shrink.
    let most = if owner == LEVEL_3 { expected } else { area.extents_for(BLOCKS_LOG2_MAX) as usize };
    if !(expected..=most).contains(&extents.len()) {
        return wrong(format!("{} extents, expected {expected} to {most}", extents.len()));
    }
    for (index, extent) in (0..).zip(&extents) {
        let bytes = area.extent_bytes(index);
        if u32::from(extent.index) != index || extent.bytes != bytes {
            return wrong(format!(
                "extent {} has {} bytes, expected extent {index} of {bytes}",
                extent.index, extent.bytes
            ));
        }
    }
    Ok(extents.iter().map(|extent| extent.start).collect())
}
