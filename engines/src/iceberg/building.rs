//! Building the sidecar after an opening, block by block, while operations run.
//!
//! A table [at rest](pmem::superblock::Superblock::is_at_rest) has each pair in its place, once. So what the sidecar
//! has of a block follows from the block alone, and an opening need not wait for it: the geometry says that the table
//! *builds*. As with a resize, the fast path then leaves everything to the slow one.
//!
//! * A writer, or a scan, that is about to use a block first builds it, under the block's lock.
//! * A query waits for nobody. It looks into the slots of a block that is not built, as recovery would. Nobody writes
//!   to them until the block is built: a query that finds it built afterwards looks once more, by its fingerprints.
//! * Threads of the opening build all blocks. So do writers, in small steps, where there is no helper.
//!
//! Which keys of a level-1 block spilled only level 2 and 3 can tell. So a block is built with all of SPILLED set, by
//! which it is also known to be built, and the bits of what is found beyond level 1 are collected. When every block is
//! built the table *clears*, as after a doubling (see `tidy`): then the bits are exact.
//!
//! Building writes nothing to the pool, so a pool that is open for reading is built, too, and one that was synced stays
//! clean. What a crash interrupts is done anew. A table that was not at rest is recovered whole before anything else
//! (see `recover`).
//!
//! A pair that lies where its key does not lead is damage. Recovery refuses the pool for it; found later, it is refused
//! from then on.

use super::Core;
use super::block::Locked;
use super::hash::{h0, spilled_bit};
use super::layout::{FLAGS_WORD, Geometry, LOCK, MOVED_1, MOVED_2, SPILLED, SPILLED_WORD};
use super::pass::Pass;
use super::recover::astray;
use index::{Found, Lead, lead_of};
use pmem::sync::{Array, AtomicBool, AtomicU64, Ordering, fence, spin};
use pmem::{Damage, Medium, Offset, OpenError};
use std::io;

/// Blocks that are built in one step: a few microseconds of work.
const BLOCKS_PER_PART: u64 = if cfg!(feature = "simulated") { 1 } else { 64 };
/// Slots of so many parts in a row are read ahead at once.
const PARTS_READ_AHEAD: u64 = 16;
/// The pass of an opening comes before the first resize.
const RESIZE: u64 = 0;

/// How far the building is.
#[derive(Debug)]
pub(super) struct Building {
    pass: Pass,
    /// A bit per level-2 block that is built.
    built_2: Array<AtomicU64>,
    /// Pairs found so far.
    pairs: AtomicU64,
    /// Those of them that lead to a group of items, in a store.
    groups: AtomicU64,
    /// Whether nobody has counted the pairs yet.
    is_uncounted: AtomicBool,
    /// Whether the threads of the opening are to end.
    pub(super) is_stopped: AtomicBool,
}

impl Building {
    /// For so many level-2 blocks.
    pub(super) fn new(blocks_2: usize) -> io::Result<Building> {
        let words = blocks_2.div_ceil(64);
        Ok(Building {
            pass: Pass::default(),
            built_2: Array::reserve(words, words)?,
            pairs: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            is_uncounted: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        })
    }

    fn count(&self, pairs: u64, groups: u64) {
        self.pairs.fetch_add(pairs, Ordering::Relaxed);
        if groups != 0 {
            self.groups.fetch_add(groups, Ordering::Relaxed);
        }
    }

    fn is_built_2(&self, block: u64) -> bool {
        self.built_2.get((block / 64) as usize).load(Ordering::Acquire) & 1 << (block % 64) != 0
    }
}

fn parts_1(geometry: Geometry) -> u64 {
    geometry.blocks_1().div_ceil(BLOCKS_PER_PART)
}

fn parts(geometry: Geometry) -> u64 {
    parts_1(geometry) + geometry.blocks_2().div_ceil(BLOCKS_PER_PART)
}

impl<M: Medium> Core<M> {
    /// Makes level 3, and publishes that nothing else is built. The table has `pairs`, if that is known.
    pub(super) fn begin_building(&self, pairs: Option<u64>) -> Result<(), OpenError> {
        let next = self.geometry().begin_building();
        self.level_3.rebuild(self.medium(), |node, key| {
            let (_, value) = self.medium().load_pair(node);
            self.building.count(1, self.groups_in(value));
            Ok(Some(next.home(h0(self.hasher.first_u64(key)))))
        })?;
        self.building.pass.begin(parts(next), RESIZE);
        self.building.is_uncounted.store(pairs.is_none(), Ordering::Relaxed);
        self.pairs_at_open.store(pairs.unwrap_or(0), Ordering::Relaxed);
        self.tidying.begin(next, RESIZE);
        self.publish_look_mask(next);
        self.published.geometry.store(next.0, Ordering::Release);
        self.publish_aim();
        Ok(())
    }

    /// Whether the number of pairs is not known until all is built.
    pub(super) fn is_uncounted(&self) -> bool {
        self.building.is_uncounted.load(Ordering::Acquire)
    }

    /// Whether the fingerprints of every block are there.
    pub(super) fn is_built(&self) -> bool {
        !self.geometry().is_building()
    }

    /// Builds every block that is left, in the calling thread, beside others that do.
    pub(super) fn finish_building(&self) {
        self.tidy_while(Geometry::is_building);
    }

    /// As [`Core::finish_building`]; then clears what says of keys that they spilled.
    pub(super) fn finish_sidecar(&self) {
        self.tidy_while(|geometry| geometry.is_building() || geometry.is_clearing());
    }

    fn tidy_while(&self, is_due: impl Fn(Geometry) -> bool) {
        let mut spins = 0;
        loop {
            let geometry = self.geometry();
            // In a forked child there is nobody to wait for.
            if !is_due(geometry) || self.pool.is_inherited() {
                return;
            }
            if !self.tidy_some(geometry) {
                spin(&mut spins);
            }
        }
    }

    /// What a thread of the opening does.
    pub(super) fn build_until_stopped(&self) {
        let is_stopped = || self.building.is_stopped.load(Ordering::Relaxed);
        let is_due = |geometry: Geometry| geometry.is_building() || geometry.is_clearing();
        while !is_stopped() && is_due(self.geometry()) && self.tidy_some(self.geometry()) {}
    }

    /// Builds some blocks; returns whether any were left.
    pub(super) fn build_some(&self, geometry: Geometry) -> bool {
        let pass = &self.building.pass;
        let Some(part) = pass.take(parts(geometry), || self.geometry() == geometry) else {
            return false;
        };
        let blocks_of = |part: u64, blocks: u64| {
            part * BLOCKS_PER_PART..blocks.min((part + 1) * BLOCKS_PER_PART)
        };
        if part == 0 {
            self.advise_sidecar();
        }
        if part.is_multiple_of(PARTS_READ_AHEAD) {
            self.read_ahead(geometry, part);
        }
        match part.checked_sub(parts_1(geometry)) {
            None => blocks_of(part, geometry.blocks_1()).for_each(|b| self.build_1(geometry, b)),
            Some(part) => {
                blocks_of(part, geometry.blocks_2()).for_each(|b| self.build_2(geometry, b));
            }
        }
        if pass.finish_part() {
            self.end_building();
        }
        true
    }

    /// Reads the slots of this part and the next ones ahead: an opening goes through all of them, where the kernel
    /// expects single accesses.
    fn read_ahead(&self, geometry: Geometry, part: u64) {
        let places = |level_part: u64, blocks: u64, at: &dyn Fn(u64) -> Offset| {
            let first = level_part * BLOCKS_PER_PART;
            let end = blocks.min(first + PARTS_READ_AHEAD * BLOCKS_PER_PART);
            // Blocks of a table that has grown lie in several places.
            for block in (first..end).step_by(BLOCKS_PER_PART as usize) {
                let last = end.min(block + BLOCKS_PER_PART) - 1;
                let (from, to) = (at(block).0, at(last).0);
                if from <= to {
                    self.medium().read_ahead(from..to + pmem::LINE);
                }
            }
        };
        match part.checked_sub(parts_1(geometry)) {
            None => places(part, geometry.blocks_1(), &|block| self.slot_1(block, 0)),
            Some(part) => places(part, geometry.blocks_2(), &|block| self.slot_2(block, 0)),
        }
    }

    fn end_building(&self) {
        let [slots, groups] = [&self.building.pairs, &self.building.groups]
            .map(|counted| counted.load(Ordering::Acquire));
        // Whatever the record says: whoever compares the two may come after this.
        self.pairs_at_open.store(slots, Ordering::Release);
        self.building.is_uncounted.store(false, Ordering::Release);
        // First: who waits for the end is to know what this has led to.
        self.built.tell(Found { slots, groups });
        self.publish_end(Geometry::end_building);
    }

    /// Groups of items to which a slot with this value leads: one or none.
    fn groups_in(&self, value: u64) -> u64 {
        u64::from(self.is_store && matches!(lead_of(value), Lead::Group(_)))
    }

    /// Whether a level-1 block of a table that builds has its fingerprints.
    #[inline]
    fn is_built_1(&self, block: u64) -> bool {
        self.line_1(block)[SPILLED_WORD].load(Ordering::Acquire) & SPILLED != 0
    }

    /// Builds a level-1 block of a table that builds under this geometry, unless that is done. The caller holds the
    /// lock of no block. If the geometry is no longer that one, every block is built.
    #[inline(never)]
    pub(super) fn build_1(&self, geometry: Geometry, block: u64) {
        if self.is_built_1(block) {
            return;
        }
        let flags = self.flags_1(block);
        let _locked = Locked::wait(flags);
        // While a block is not built the table does not stop building.
        if self.geometry() != geometry || self.is_built_1(block) {
            return;
        }
        let mut words = [0; 8];
        let (mut pairs, mut groups) = (0, 0);
        for lane in 0..self.shape.level_1_slots as usize {
            let slot = self.slot_1(block, lane);
            let (key, value) = self.medium().load_pair(slot);
            if key == 0 {
                continue;
            }
            let first = self.hasher.first_u64(key);
            if geometry.home(h0(first)) != block {
                self.refuse_astray(slot, block);
            }
            groups += self.groups_in(value);
            words[lane / 8] |=
                u64::from(self.sought_1(first).fingerprint_in(lane)) << (lane % 8 * 8);
            pairs += 1;
        }
        self.building.count(pairs, groups);
        let line = self.line_1(block);
        for (index, word) in words.iter().enumerate().skip(FLAGS_WORD + 1) {
            line[index].store(*word, Ordering::Relaxed);
        }
        let prints = words[FLAGS_WORD] & !(LOCK | MOVED_1);
        flags.store(prints | geometry.moved_1() | LOCK, Ordering::Relaxed);
        // Last: this says that the block is built.
        line[SPILLED_WORD].store(words[SPILLED_WORD] | SPILLED, Ordering::Release);
    }

    /// As [`Core::build_1`], of level 2. The caller may hold the lock of a level-1 block.
    #[inline(never)]
    pub(super) fn build_2(&self, geometry: Geometry, block: u64) {
        if self.building.is_built_2(block) {
            return;
        }
        let word = self.word_2(block);
        let _locked = Locked::wait(word);
        if self.geometry() != geometry || self.building.is_built_2(block) {
            return;
        }
        let (mut prints, mut pairs, mut groups) = (0, 0, 0);
        for lane in 0..self.shape.level_2_slots as usize {
            let slot = self.slot_2(block, lane);
            let (key, value) = self.medium().load_pair(slot);
            if key == 0 {
                continue;
            }
            let first = self.hasher.first_u64(key);
            groups += self.groups_in(value);
            let choices = self.choices(geometry, key, first);
            let print = match choices.distinct().find(|&(choice, _)| choice == block) {
                Some((_, print)) => print,
                None => {
                    self.refuse_astray(slot, block);
                    // Not to be taken for empty.
                    choices.fingerprints[0]
                }
            };
            prints |= u64::from(print) << (8 * lane);
            pairs += 1;
            self.tidying.collect(geometry.home(h0(first)), spilled_bit(first));
        }
        self.building.count(pairs, groups);
        word.store(prints & !MOVED_2 | geometry.moved_2() | LOCK, Ordering::Relaxed);
        let built = self.building.built_2.get((block / 64) as usize);
        built.fetch_or(1 << (block % 64), Ordering::Release);
    }

    #[cold]
    fn refuse_astray(&self, slot: Offset, block: u64) {
        self.pool.refuse(Damage::Corrupt(astray(slot, block)));
    }

    /// [`Core::search`] in a table that builds.
    #[inline(never)]
    pub(super) fn search_unbuilt(&self, geometry: Geometry, key: u64, first: u64) -> Option<u64> {
        let home = geometry.home(h0(first));
        if key != 0 {
            let in_level_1 = self.search_slots(
                self.shape.level_1_slots,
                key,
                |lane| self.slot_1(home, lane),
                || self.is_built_1(home),
            );
            let in_level_1 =
                in_level_1.unwrap_or_else(|| self.search_1(home, first, key, [home; 2]));
            if in_level_1.is_some() {
                return in_level_1;
            }
            for (block, print) in self.choices(geometry, key, first).both() {
                let in_level_2 = self.search_slots(
                    self.shape.level_2_slots,
                    key,
                    |lane| self.slot_2(block, lane),
                    || self.building.is_built_2(block),
                );
                let in_level_2 =
                    in_level_2.unwrap_or_else(|| self.search_2(block, print, key, [home; 2]));
                if in_level_2.is_some() {
                    return in_level_2;
                }
            }
        }
        self.search_3(key, [home; 2])
    }

    /// The value of `key` in the slots of a block, if nobody may have written to them: it is not built. `None` if it
    /// is.
    fn search_slots(
        &self,
        slots: u32,
        key: u64,
        slot: impl Fn(usize) -> Offset,
        is_built: impl Fn() -> bool,
    ) -> Option<Option<u64>> {
        if is_built() {
            return None;
        }
        let found = (0..slots as usize).find_map(|lane| {
            let (found, value) = self.medium().load_pair(slot(lane));
            (found == key).then_some(value)
        });
        // Whoever wrote what was read above had seen that the block is built. A removal is a relaxed store, so for it
        // the language does not say that this thread sees so as well. Processors do on which a store that one other
        // thread sees is seen by all: x86-64 and AArch64 are such.
        fence(Ordering::Acquire);
        (!is_built()).then_some(found)
    }
}
