//! What lies where: blocks and nodes in the pool, fingerprints and links in the sidecar.
//!
//! ```text
//! pool, level 1 and 2     block = 64 (or 32) and 8 (or 6, 4) slots
//!   slot     | key | value |                16 bytes; empty if the key is 0
//! pool, level 3           nodes, in no order
//!   node     | key | value | state | - |    32 bytes; in use if the state is 1
//!
//! sidecar, level 1        one line per block: a byte per slot
//!   byte 0.. bit 7: SPILLED    bits 0..7: fingerprint of slots 0 to 7
//!   byte 8   bit 7: LOCK       bits 0..7: fingerprint of slot 8
//!   byte 9   bit 7: MOVED      bits 0..7: fingerprint of slot 9
//!   byte 10..                  fingerprints of slots 10 to 63
//! sidecar, level 2        one word per block
//!   byte 0   bit 7: LOCK       bits 0..7: fingerprint of slot 0
//!   byte 1   bit 7: MOVED      bits 0..7: fingerprint of slot 1
//!   byte 2.. fingerprints of slots 2 to 7
//! sidecar, level 3        per level-1 block a word: version << 32 | first cell + 1
//!                         per node two cells: next cell + 1
//! ```
//!
//! Each level is a sequence of extents. Extent *k* > 0 is as large as all before it, so a doubling adds an extent and
//! moves no block.

use index::fingerprint::GROUP_LANES;
use pmem::slots::SLOT_BYTES;
use pmem::sync::AtomicU64;
use pmem::{Offset, WORD};

/// A line of the pool has the slots of a group of lanes.
const _: () = assert!(pmem::LINE / SLOT_BYTES == GROUP_LANES as u64);
/// The value's word in a slot, or in a node; the key is word 0.
pub(super) const VALUE_WORD: u64 = 1;
/// Bytes of a level-3 node; two in a line, none across lines.
pub(super) const NODE_BYTES: u64 = 4 * WORD;
const _: () =
    assert!(pmem::LINE.is_multiple_of(SLOT_BYTES) && pmem::LINE.is_multiple_of(NODE_BYTES));

/// The word of a level-1 line that holds [`SPILLED`].
pub(super) const SPILLED_WORD: usize = 0;
/// The word of a level-1 line that holds the block's other flags.
pub(super) const FLAGS_WORD: usize = 1;
/// Number of flag lanes in a level-2 word, from lane 0 on.
pub(super) const FLAG_LANES_OF_WORD: usize = 2;
/// A level-1 line or a level-2 word is locked. Bit 7 of byte 0 of the word.
pub(super) const LOCK: u64 = 1 << 7;
/// Set by the keys of this level-1 block that went to level 2 or 3: each has set one of these bits, which its hash
/// selects ([`hash::spilled_bit`](super::hash::spilled_bit)). A doubling clears those that no key needs any more, and
/// a shrink those of a block that it empties. Bit 7 of every byte of the word.
pub(super) const SPILLED: u64 = 0x8080_8080_8080_8080;
/// Tells whether this block has been moved: the parity of log2 of the number of blocks for which it was last moved. Bit
/// 7 of byte 1 of the word.
pub(super) const MOVED_1: u64 = 1 << 15;
/// Like [`MOVED_1`], in a level-2 word.
pub(super) const MOVED_2: u64 = 1 << 15;

/// Owners of the engine's extents.
pub(super) const LEVEL_1: u8 = 1;
pub(super) const LEVEL_2: u8 = 2;
pub(super) const LEVEL_3: u8 = 3;

/// Engine roots: log2 of the number of blocks or nodes of each level.
pub(super) const ROOT_LEVEL_1: usize = 0;
pub(super) const ROOT_LEVEL_2: usize = 1;
pub(super) const ROOT_LEVEL_3: usize = 2;

/// Engine parameters: the slots of a block in levels 1 and 2; log2 of the blocks and of the nodes that a table begins
/// with. Two numbers to a word.
const PARAM_SLOTS: usize = 0;
const PARAM_INITIAL: usize = 1;

/// What a table of this engine is created with, and keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Slots of a level-1 block: 64 or 32.
    pub level_1_slots: u32,
    /// Slots of a level-2 block: 8, 6 or 4.
    pub level_2_slots: u32,
    /// log2 of the number of blocks that level 1 and level 2 begin with.
    pub initial_log2: u32,
    /// log2 of the number of nodes that level 3 begins with.
    pub initial_nodes_log2: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { level_1_slots: 64, level_2_slots: 8, initial_log2: 4, initial_nodes_log2: 5 }
    }
}

/// log2 of the most blocks that level 1 and 2 can have: h1 and h2 have 32 bits.
pub(super) const BLOCKS_LOG2_MAX: u32 = 32;
/// log2 of the most nodes that level 3 can have: a cell number has 32 bits.
pub(super) const NODES_LOG2_MAX: u32 = 30;

impl Shape {
    /// The shape that holds `pairs` at `resize_at` without growing.
    #[must_use]
    pub fn for_pairs(self, pairs: u64, resize_at: f64) -> Shape {
        let mut shape = self;
        let fits = |shape: &Shape| {
            let slots = u64::from(shape.level_1_slots + shape.level_2_slots) << shape.initial_log2;
            slots as f64 * resize_at.min(1.0) > pairs as f64
        };
        while !fits(&shape) && shape.initial_log2 < BLOCKS_LOG2_MAX {
            shape.initial_log2 += 1;
        }
        shape
    }

    /// As engine parameters of the superblock.
    pub(super) fn encode(&self) -> [u64; 16] {
        let mut params = [0; 16];
        params[PARAM_SLOTS] = u64::from(self.level_1_slots) | u64::from(self.level_2_slots) << 32;
        params[PARAM_INITIAL] =
            u64::from(self.initial_log2) | u64::from(self.initial_nodes_log2) << 32;
        params
    }

    pub(super) fn decode(params: &[u64; 16]) -> Result<Shape, String> {
        let shape = Shape {
            level_1_slots: params[PARAM_SLOTS] as u32,
            level_2_slots: (params[PARAM_SLOTS] >> 32) as u32,
            initial_log2: params[PARAM_INITIAL] as u32,
            initial_nodes_log2: (params[PARAM_INITIAL] >> 32) as u32,
        };
        shape.validate().map(|()| shape)
    }

    /// Says what is wrong with a shape that no table can have.
    pub fn validate(&self) -> Result<(), String> {
        let sizes_fit = matches!(self.level_1_slots, 32 | 64)
            && matches!(self.level_2_slots, 4 | 6 | 8)
            && self.initial_log2 <= BLOCKS_LOG2_MAX
            && self.initial_nodes_log2 <= NODES_LOG2_MAX;
        if sizes_fit {
            return Ok(());
        }
        Err(format!(
            "{self:?}: blocks have 64 or 32 slots in level 1 and 8, 6 or 4 in level 2, a level \
             at most 2^{BLOCKS_LOG2_MAX} of them"
        ))
    }
}

/// The sizes of levels 1 and 2, which of them is being resized, and the generation. All are in one word, so a reader
/// gets them at one instant and notices any change by one comparison.
///
/// ```text
///  63     62 … 45      44       43       42       41, 40           39, 38           37 … 32           31 … 0
/// | busy | generation | builds | clears | drains | shrinking 2, 1 | resizing 2, 1 | log2 of level 2 | blocks of level 1 - 1 |
/// ```
///
/// The sizes are those that a resize leads to. A resize joins blocks in families of two: the *lower* block, and the
/// *upper* one, whose number has one bit more. A doubling moves pairs from the lower block to the upper one, a shrink
/// from the upper one to the lower one. The lower block's flag says whether that has been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry(pub(super) u64);

const LEVEL_2_SHIFT: u32 = 32;
const RESIZING_1: u64 = 1 << 38;
const RESIZING_2: u64 = 1 << 39;
/// Set together with the bits above if the resize halves the level.
const SHRINKING_1: u64 = 1 << 40;
const SHRINKING_2: u64 = 1 << 41;
/// When both levels have been moved, pairs of level 2 go home, and then SPILLED bits are cleared: see
/// [`tidy`](super::tidy).
const DRAINS: u64 = 1 << 42;
const CLEARS: u64 = 1 << 43;
/// Set after an opening until every block's fingerprints have been built: see [`building`](super::building). Then
/// SPILLED bits are cleared.
const BUILDS: u64 = 1 << 44;
pub(super) const GENERATION: u64 = 1 << 45;
/// A resize is under way, or one of the above. A test of this bit takes one instruction.
const RESIZING: u64 = 1 << 63;

/// What the fast path is given while a resize is under way: no geometry, as that has a flag of what is left to do. By
/// it all keys are in block 0.
pub(super) const NO_AIM: u64 = RESIZING;

impl Geometry {
    pub(super) fn new(level_1_log2: u32, level_2_log2: u32) -> Geometry {
        Geometry(((1 << level_1_log2) - 1) | u64::from(level_2_log2) << LEVEL_2_SHIFT)
    }

    #[inline(always)]
    pub(super) fn level_1_log2(self) -> u32 {
        (self.0 as u32).trailing_ones()
    }

    #[inline(always)]
    pub(super) fn level_2_log2(self) -> u32 {
        (self.0 >> LEVEL_2_SHIFT) as u32 & 63
    }

    #[inline(always)]
    pub(super) fn blocks_1(self) -> u64 {
        u64::from(self.0 as u32) + 1
    }

    #[inline(always)]
    pub(super) fn blocks_2(self) -> u64 {
        1 << self.level_2_log2()
    }

    #[inline(always)]
    pub(super) fn resizing_1(self) -> bool {
        self.0 & RESIZING_1 != 0
    }

    #[inline(always)]
    pub(super) fn resizing_2(self) -> bool {
        self.0 & RESIZING_2 != 0
    }

    #[inline(always)]
    pub(super) fn is_resizing(self) -> bool {
        self.0 & RESIZING != 0
    }

    /// Whether SPILLED bits are collected, to take the place of those that there are.
    pub(super) fn collects_spilled(self) -> bool {
        self.0 & CLEARS != 0
    }

    /// Whether pairs of level 2 are being brought home.
    #[inline(always)]
    pub(super) fn is_draining(self) -> bool {
        self.flags() == DRAINS | CLEARS
    }

    /// Whether blocks without fingerprints may be left.
    #[inline(always)]
    pub(super) fn is_building(self) -> bool {
        self.0 & BUILDS != 0
    }

    /// Whether pairs may be on their way from one place to another.
    pub(super) fn is_moving(self) -> bool {
        self.flags() & !(BUILDS | CLEARS) != 0
    }

    /// Whether all that is left of a resize, or after an opening, is to clear SPILLED bits.
    pub(super) fn is_clearing(self) -> bool {
        self.flags() == CLEARS
    }

    #[inline(always)]
    pub(super) fn shrinking_1(self) -> bool {
        self.0 & SHRINKING_1 != 0
    }

    #[inline(always)]
    pub(super) fn shrinking_2(self) -> bool {
        self.0 & SHRINKING_2 != 0
    }

    /// Number of level-1 blocks that may hold pairs, those that a shrink empties included.
    pub(super) fn span_1(self) -> u64 {
        self.blocks_1() << u32::from(self.shrinking_1())
    }

    /// Like [`Geometry::span_1`], for level 2.
    pub(super) fn span_2(self) -> u64 {
        self.blocks_2() << u32::from(self.shrinking_2())
    }

    /// Number of families in a resize of level 1.
    pub(super) fn families_1(self) -> u64 {
        self.span_1() / 2
    }

    /// Like [`Geometry::families_1`], for level 2.
    pub(super) fn families_2(self) -> u64 {
        self.span_2() / 2
    }

    /// These sizes and flags, in the next generation.
    fn next(self, level_1_log2: u32, level_2_log2: u32, flags: u64) -> Geometry {
        let sizes = Geometry::new(level_1_log2, level_2_log2).0;
        let generation = self.0.wrapping_add(GENERATION) & (RESIZING - GENERATION);
        let any = if flags == 0 { 0 } else { RESIZING };
        Geometry(sizes | flags | generation | any)
    }

    fn flags(self) -> u64 {
        const FLAGS: u64 =
            RESIZING_1 | RESIZING_2 | SHRINKING_1 | SHRINKING_2 | DRAINS | CLEARS | BUILDS;
        self.0 & FLAGS
    }

    /// The geometry in which the chosen levels have doubled and their blocks are still to be moved.
    pub(super) fn begin(self, level_1: bool, level_2: bool) -> Geometry {
        let flag = |level: bool, flag: u64| if level { flag } else { 0 };
        self.next(
            self.level_1_log2() + u32::from(level_1),
            self.level_2_log2() + u32::from(level_2),
            DRAINS | CLEARS | flag(level_1, RESIZING_1) | flag(level_2, RESIZING_2),
        )
    }

    /// The geometry in which the chosen levels have half as many blocks, which take in the others.
    pub(super) fn begin_shrink(self, level_1: bool, level_2: bool) -> Geometry {
        let flag = |level: bool, flag: u64| if level { flag } else { 0 };
        self.next(
            self.level_1_log2() - u32::from(level_1),
            self.level_2_log2() - u32::from(level_2),
            flag(level_1, RESIZING_1 | SHRINKING_1) | flag(level_2, RESIZING_2 | SHRINKING_2),
        )
    }

    pub(super) fn end_1(self) -> Geometry {
        let flags = self.flags() & !(RESIZING_1 | SHRINKING_1);
        self.next(self.level_1_log2(), self.level_2_log2(), flags)
    }

    pub(super) fn end_2(self) -> Geometry {
        let flags = self.flags() & !(RESIZING_2 | SHRINKING_2);
        self.next(self.level_1_log2(), self.level_2_log2(), flags)
    }

    /// The geometry of a table that has just been opened, with no block built.
    pub(super) fn begin_building(self) -> Geometry {
        self.next(self.level_1_log2(), self.level_2_log2(), BUILDS | CLEARS)
    }

    pub(super) fn end_building(self) -> Geometry {
        self.next(self.level_1_log2(), self.level_2_log2(), self.flags() & !BUILDS)
    }

    pub(super) fn end_draining(self) -> Geometry {
        self.next(self.level_1_log2(), self.level_2_log2(), self.flags() & !DRAINS)
    }

    pub(super) fn end_clearing(self) -> Geometry {
        self.next(self.level_1_log2(), self.level_2_log2(), self.flags() & !CLEARS)
    }

    /// The level-1 block of a key. `h0` may be any word whose low bits are the key's h0.
    #[inline(always)]
    pub(super) fn home(self, h0: u64) -> u64 {
        h0 & u64::from(self.0 as u32)
    }

    /// The level-1 block that a key with this h0 had before the current resize, or its home if there is no resize.
    #[inline(always)]
    pub(super) fn source_1(self, h0: u64) -> u64 {
        if self.resizing_1() {
            h0 & (source_blocks(self.blocks_1(), self.shrinking_1()) - 1)
        } else {
            self.home(h0)
        }
    }

    /// The number of level-2 blocks before the current resize.
    #[inline(always)]
    pub(super) fn source_blocks_2(self) -> u64 {
        source_blocks(self.blocks_2(), self.shrinking_2())
    }

    /// The lower block of a level-1 block's family in a resize.
    #[inline(always)]
    pub(super) fn family_1(self, block: u64) -> u64 {
        block & (self.families_1() - 1)
    }

    /// Like [`Geometry::family_1`], for level 2.
    #[inline(always)]
    pub(super) fn family_2(self, block: u64) -> u64 {
        block & (self.families_2() - 1)
    }

    /// The lower block of a level-1 block's family in the doubling that led to this size.
    #[inline(always)]
    pub(super) fn lower_1(self, block: u64) -> u64 {
        block & ((self.blocks_1() - 1) >> 1)
    }

    /// Like [`Geometry::lower_1`], for level 2.
    #[inline(always)]
    pub(super) fn lower_2(self, block: u64) -> u64 {
        block & ((self.blocks_2() - 1) >> 1)
    }

    /// [`MOVED_1`] as it is in a moved block.
    #[inline(always)]
    pub(super) fn moved_1(self) -> u64 {
        if self.level_1_log2() & 1 == 1 { MOVED_1 } else { 0 }
    }

    /// [`MOVED_2`] as it is in a moved block.
    #[inline(always)]
    pub(super) fn moved_2(self) -> u64 {
        if self.level_2_log2() & 1 == 1 { MOVED_2 } else { 0 }
    }
}

/// The number of blocks before a resize to `blocks`.
#[inline(always)]
fn source_blocks(blocks: u64, is_shrinking: bool) -> u64 {
    if is_shrinking { 2 * blocks } else { blocks / 2 }
}

/// Words that all operations read and few write, in a separate line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Published {
    /// The [`Geometry`].
    pub(super) geometry: AtomicU64,
    /// How often an insertion or a removal looks around.
    pub(super) look_mask: AtomicU64,
}

impl Published {
    pub(super) fn new(geometry: Geometry) -> Published {
        Published { geometry: AtomicU64::new(geometry.0), look_mask: AtomicU64::new(0) }
    }
}

/// The slot of a lane, in the block (of either level) that begins at `block`.
#[inline(always)]
pub(super) fn slot_of(block: Offset, lane: usize) -> Offset {
    block.add(lane as u64 * SLOT_BYTES)
}
