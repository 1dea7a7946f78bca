//! Where keys may be: what a search goes by, in the owner of a pool and in its guests.

use super::block::{Choices, Probe};
use super::hash::{
    LEVEL1_LINE_SHIFT, level1_byte, level2_fingerprint_1, level2_fingerprint_2, spilled_lane,
};
use super::layout::{FLAGS_WORD, Geometry, Shape, slot_of};
use index::fingerprint::{Isa, Near, Sought, Tables, has_flag, lane_masks_for};
use index::hash::{Hasher, h1, h2};
use pmem::slots::{Aim, Area, SlotBlocks};
use pmem::superblock::Superblock;
use pmem::sync::{Array, AtomicU64};
use pmem::{Medium, Offset, Pool};
use std::sync::Arc;

pub(super) struct Places<M: Medium> {
    pub(super) pool: Arc<Pool<M>>,
    pub(super) hasher: Hasher,
    pub(super) isa: Isa,
    pub(super) shape: Shape,
    /// The lanes of a level-1 line that stand for slots.
    pub(super) lanes_1: u64,
    /// For searches of level-1 lines.
    pub(super) tables: Tables,
    /// Level 1. Each block's line holds its fingerprints and flags.
    pub(super) blocks_1: SlotBlocks<M>,
    pub(super) area_2: Area,
    /// Level-2 fingerprints, a word per block.
    pub(super) words: Array<AtomicU64>,
}

impl<M: Medium> Places<M> {
    pub(super) fn new(
        pool: Arc<Pool<M>>,
        superblock: &Superblock,
        shape: Shape,
        blocks_1: SlotBlocks<M>,
        area_2: Area,
        words: Array<AtomicU64>,
    ) -> Places<M> {
        Places {
            hasher: Hasher::new(superblock.hash_seed),
            isa: Isa::detect(),
            lanes_1: lane_masks_for(shape.level_1_slots as usize),
            tables: Tables::for_slots(shape.level_1_slots as usize),
            shape,
            blocks_1,
            area_2,
            words,
            pool,
        }
    }

    #[inline(always)]
    pub(super) fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// What the fast path finds blocks by, and the geometry that it then finds them in: [`NO_AIM`], if that was not at
    /// rest. Whoever goes by it holds the geometry against the one in effect after what was read, or under a lock.
    ///
    /// [`NO_AIM`]: super::layout::NO_AIM
    #[inline(always)]
    pub(super) fn aim(&self) -> (Aim<'_, M>, Geometry) {
        let aim = self.blocks_1.aim();
        (aim, Geometry(aim.word()))
    }

    /// Points at the block of a key with this hash. Does not read its fingerprints yet.
    #[inline(always)]
    pub(super) fn probe<'a>(&self, aim: Aim<'a, M>, first: u64) -> Probe<'a, M> {
        let (home, line, slots) = aim.block(first);
        Probe { first, home: home as u32, near: self.near_1(first), line, slots }
    }

    /// What a search looks for in the line of a probe.
    #[inline(always)]
    pub(super) fn sought(&self, probe: &Probe<'_, M>) -> Sought<'_> {
        self.tables.sought(level1_byte(probe.first), probe.near)
    }

    /// Fingerprints and flags of a level-1 block.
    #[inline(always)]
    pub(super) fn line_1(&self, block: u64) -> &[AtomicU64; 8] {
        self.blocks_1.line(block)
    }

    /// The word of a level-1 line that has the block's flags.
    #[inline(always)]
    pub(super) fn flags_1(&self, block: u64) -> &AtomicU64 {
        &self.line_1(block)[FLAGS_WORD]
    }

    /// Whether a key with this hash may be in level 2 or 3; its level-1 block is one of `homes`. Ask after reading the
    /// fingerprints: a writer that brings a key there sets the flag before the key can be found.
    #[inline(always)]
    pub(super) fn may_have_spilled(&self, homes: [u64; 2], first: u64) -> bool {
        homes.into_iter().any(|home| has_flag(self.line_1(home), spilled_lane(first)))
    }

    /// Fingerprints and flags of a level-2 block.
    #[inline(always)]
    pub(super) fn word_2(&self, block: u64) -> &AtomicU64 {
        self.words.get(block as usize)
    }

    #[inline(always)]
    pub(super) fn slot_1(&self, block: u64, lane: usize) -> Offset {
        slot_of(self.blocks_1.area().at(block), lane)
    }

    #[inline(always)]
    pub(super) fn slot_2(&self, block: u64, lane: usize) -> Offset {
        slot_of(self.area_2.at(block), lane)
    }

    /// The choices of a key if level 2 has `blocks_2` blocks.
    pub(super) fn choices_among(&self, blocks_2: u64, key: u64, first: u64) -> Choices {
        let second = self.hasher.second_u64(key);
        let mask = blocks_2 - 1;
        Choices {
            blocks: [h1(second) & mask, h2(second) & mask],
            fingerprints: [level2_fingerprint_1(first), level2_fingerprint_2(first)],
        }
    }

    /// The first lane of the line that has a key's slot in its level-1 block, if the line had room. It is known without
    /// reading anything, so the slot can be fetched along with the fingerprints. At a load factor of 0.85 it is right
    /// for five of six pairs that were inserted without removals in between, and for fewer after many replacements.
    #[inline(always)]
    pub(super) fn preferred_1(&self, first: u64) -> usize {
        self.near_1(first).lane()
    }

    /// The line of [`Places::preferred_1`].
    #[inline(always)]
    fn near_1(&self, first: u64) -> Near {
        self.tables.near(first >> (LEVEL1_LINE_SHIFT - Near::HASH_BIT))
    }

    /// What a search for a key with this hash looks for in its level-1 block.
    #[inline(always)]
    pub(super) fn sought_1(&self, first: u64) -> Sought<'_> {
        self.tables.sought(level1_byte(first), self.near_1(first))
    }
}
