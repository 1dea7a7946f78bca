//! What lies where: slots and the context in the pool.
//!
//! ```text
//! bucket, a line: 8 slots
//!
//! slot
//!    63 … 48      47 … 41   40      39 38    37 … 0
//!   | tag        | 0       | DIRTY | kind | item's offset / 16 |     ITEM, GONE
//!   | turn | descriptor    | 0     | kind | item's offset / 16 |     PENDING: 12 and 11 bits
//!
//! control line
//!   word 0   63      59 … 54         11 … 6    5 … 0
//!          | DIRTY | tenth level | … | second | front level |        the context, in which the
//!                                                                     levels 1, 2 are written as 0
//! ```
//!
//! A level of 2^n buckets is one extent. The context names it by the extent's index.

use index::hash::{h1, h2};
use pmem::sync::{AtomicU64, Ordering};
use pmem::{LINE, Medium, Offset, WORD};

/// Slots of a bucket.
pub(super) const SLOTS: usize = (LINE / WORD) as usize;

/// Owner of the extents of levels.
pub(super) const LEVELS: u8 = 1;
/// Owner of the extent with the context.
pub(super) const CONTROL: u8 = 2;
/// Bytes of that extent.
pub(super) const CONTROL_BYTES: u64 = LINE;

/// Engine parameter: log2 of the buckets of the larger of the first two levels.
const PARAM_LOG2: usize = 0;

/// log2 of the buckets of the largest level: a hash has 32 bits for each choice of a bucket.
pub(super) const LOG2_MAX: u32 = 32;

const OFFSET_BITS: u32 = 38;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Items begin at multiples of this.
const ITEM_ALIGN: u64 = 16;
const KIND_SHIFT: u32 = OFFSET_BITS;
const KIND_MASK: u64 = 3;
const ITEM: u64 = 1;
const PENDING: u64 = 2;
const GONE: u64 = 3;
const DIRTY: u64 = 1 << 40;
const CLAIMANT_SHIFT: u32 = 41;
const TAG_SHIFT: u32 = 48;
/// Bits of a pending word that say who claimed it.
pub(super) const CLAIMANT_BITS: u32 = u64::BITS - CLAIMANT_SHIFT;

/// Items at or beyond this offset cannot be named by a slot.
pub(super) const ITEMS_END: u64 = ITEM_ALIGN << OFFSET_BITS;

/// The content of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// Free to be claimed.
    pub(super) const EMPTY: Word = Word(0);
    /// Free, and never to be claimed.
    pub(super) const FROZEN: Word = Word(GONE << KIND_SHIFT);

    /// Leads to the item at `at`, whose key has this hash.
    pub(super) fn item(hash: u64, at: Offset) -> Word {
        Word(tag(hash) << TAG_SHIFT | ITEM << KIND_SHIFT | (at.0 / ITEM_ALIGN))
    }

    /// Claimed for the item that this word leads to.
    pub(super) fn pending(self, claimant: u64) -> Word {
        Word(claimant << CLAIMANT_SHIFT | PENDING << KIND_SHIFT | self.0 & OFFSET_MASK)
    }

    /// Has lost the item that this word leads to.
    pub(super) fn gone(self) -> Word {
        Word(self.clean().0 | GONE << KIND_SHIFT)
    }

    #[inline(always)]
    fn kind(self) -> u64 {
        self.0 >> KIND_SHIFT & KIND_MASK
    }

    #[inline(always)]
    pub(super) fn is_item(self) -> bool {
        self.kind() == ITEM
    }

    pub(super) fn is_pending(self) -> bool {
        self.kind() == PENDING
    }

    #[inline(always)]
    pub(super) fn is_gone(self) -> bool {
        self.kind() == GONE && self != Word::FROZEN
    }

    /// The item that is there may not be durable there.
    #[inline(always)]
    pub(super) fn is_dirty(self) -> bool {
        self.is_item() && self.0 & DIRTY != 0
    }

    pub(super) fn dirty(self) -> Word {
        Word(self.0 | DIRTY)
    }

    #[inline(always)]
    pub(super) fn clean(self) -> Word {
        if self.is_item() { Word(self.0 & !DIRTY) } else { self }
    }

    /// Whether it leads, or led, to an item whose key may have a hash of this tag.
    #[inline(always)]
    pub(super) fn has_tag(self, tag: u64) -> bool {
        self.tag() == tag && self.0 & ITEM << KIND_SHIFT != 0
    }

    #[inline(always)]
    pub(super) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    /// Whether it leads to an item whose key may have this hash, and is durable.
    #[inline(always)]
    pub(super) fn is_clean_item_of(self, hash: u64) -> bool {
        self.0 >> KIND_SHIFT == Word::item(hash, Offset(0)).0 >> KIND_SHIFT
    }

    /// Where the item begins.
    #[inline(always)]
    pub(super) fn at(self) -> Offset {
        Offset((self.0 & OFFSET_MASK) * ITEM_ALIGN)
    }
}

/// The summary of a hash that slots have. Its bits are those of both halves that choose no bucket
/// of a small level, mixed: in a large one, what chose the bucket by one half says nothing about
/// the other.
#[inline(always)]
pub(super) fn tag(hash: u64) -> u64 {
    (h1(hash) ^ h2(hash)) >> 16
}

/// Bits for a level in the context.
const LEVEL_BITS: u32 = 6;
/// Levels are numbered from 1 to this.
pub(super) const LEVEL_MAX: u32 = (1 << LEVEL_BITS) - 1;
/// Most levels in use at once.
pub(super) const LEVELS_MAX: u32 = 10;
/// The context is not known to be durable.
const CONTEXT_DIRTY: u64 = 1 << 63;

/// The levels in use, in the order in which they are searched: an immutable copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Context(pub(super) u64);

impl Context {
    /// That of a new table.
    pub(super) const FIRST: Context = Context(1 | 2 << LEVEL_BITS);

    /// What a word of the pool says. In a new pool it is 0, which stands for the first context:
    /// nothing has to be written before there are other levels.
    #[inline(always)]
    pub(super) fn of_word(word: u64) -> Context {
        Context(word & !CONTEXT_DIRTY ^ Context::FIRST.0)
    }

    /// The word for a context that is known to be durable.
    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        self.0 ^ Context::FIRST.0
    }

    /// The word for a context that is not.
    pub(super) fn dirty_word(self) -> u64 {
        self.word() | CONTEXT_DIRTY
    }

    #[inline(always)]
    pub(super) fn is_dirty_word(word: u64) -> bool {
        word & CONTEXT_DIRTY != 0
    }

    /// Whether it is a list of levels.
    pub(super) fn is_one(self) -> bool {
        let levels: Vec<u32> = self.levels().collect();
        let is_distinct = (1..levels.len()).all(|index| !levels[..index].contains(&levels[index]));
        let is_whole =
            levels.iter().rev().fold(0, |word, &level| word << LEVEL_BITS | u64::from(level));
        is_distinct && is_whole == self.0 && (2..=LEVELS_MAX as usize).contains(&levels.len())
    }

    /// The levels, from front to back.
    #[inline(always)]
    pub(super) fn levels(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let level = rest as u32 & LEVEL_MAX;
            rest >>= LEVEL_BITS;
            (level != 0).then_some(level)
        })
    }

    /// The two levels of a table that is not resizing, from front to back.
    #[inline(always)]
    pub(super) fn at_rest(self) -> Option<[u32; 2]> {
        (!self.is_resizing()).then(|| [self.nth(0), self.nth(1)])
    }

    #[inline(always)]
    pub(super) fn len(self) -> u32 {
        (u64::BITS - self.0.leading_zeros()).div_ceil(LEVEL_BITS)
    }

    #[inline(always)]
    fn nth(self, index: u32) -> u32 {
        (self.0 >> (index * LEVEL_BITS)) as u32 & LEVEL_MAX
    }

    /// The level that is searched first, and drained if there are more than two.
    pub(super) fn front(self) -> u32 {
        self.nth(0)
    }

    /// The level that is searched last.
    #[inline(always)]
    pub(super) fn back(self) -> u32 {
        self.nth(self.len().saturating_sub(1))
    }

    /// The levels that items are put into, the back one first.
    pub(super) fn open(self) -> [u32; 2] {
        [self.back(), self.nth(self.len().saturating_sub(2))]
    }

    #[inline(always)]
    pub(super) fn is_resizing(self) -> bool {
        self.0 >> (2 * LEVEL_BITS) != 0
    }

    /// With one more level at the back. There are fewer than [`LEVELS_MAX`].
    pub(super) fn pushed(self, level: u32) -> Context {
        Context(self.0 | u64::from(level) << (self.len() * LEVEL_BITS))
    }

    pub(super) fn without_front(self) -> Context {
        Context(self.0 >> LEVEL_BITS)
    }
}

/// A bucket, by the number of its line in the pool: its fingerprints have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket(pub(super) u64);

impl Bucket {
    /// The one that the slot at `slot` is in.
    pub(super) fn of(slot: Offset) -> Bucket {
        Bucket(slot.0 / LINE)
    }

    #[inline(always)]
    pub(super) fn at(self) -> Offset {
        Offset(self.0 * LINE)
    }

    #[inline(always)]
    pub(super) fn slot(self, index: u64) -> Offset {
        self.at().word(index)
    }

    #[inline(always)]
    pub(super) fn slots(self) -> impl Iterator<Item = Offset> {
        (0..SLOTS as u64).map(move |index| self.slot(index))
    }
}

/// Where a level is and how large.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    first: u64,
    /// Of the buckets of a level, counted from 0: also the bits by which a hash chooses one.
    last: u64,
}

impl Level {
    /// That of `1 << log2` buckets from `base` on.
    pub(super) fn new(base: Offset, log2: u32) -> Level {
        Level { first: base.0 / LINE, last: (1 << log2) - 1 }
    }

    pub(super) fn base(self) -> Offset {
        Bucket(self.first).at()
    }

    pub(super) fn log2(self) -> u32 {
        self.last.count_ones()
    }

    #[inline(always)]
    pub(super) fn bucket(self, index: u64) -> Bucket {
        Bucket(self.first + (index & self.last))
    }

    pub(super) fn buckets(self) -> u64 {
        self.last + 1
    }

    /// The two buckets of a key with this hash; they may be one.
    #[inline(always)]
    pub(super) fn candidates(self, hash: u64) -> [Bucket; 2] {
        [self.bucket(h1(hash)), self.bucket(h2(hash))]
    }

    /// All slots.
    pub(super) fn slots(self) -> impl Iterator<Item = Offset> {
        (0..self.buckets()).flat_map(move |index| self.bucket(index).slots())
    }

    /// Where it ends.
    pub(super) fn end(self) -> Offset {
        self.base().add(Level::bytes(self.log2()))
    }

    pub(super) fn bytes(log2: u32) -> u64 {
        LINE << log2
    }
}

/// The levels that have an extent, by number. A number is given once: so its two words, each ready for
/// use by a search, always belong together.
#[derive(Debug)]
pub(super) struct LevelTable {
    firsts: [AtomicU64; LEVEL_MAX as usize + 1],
    lasts: [AtomicU64; LEVEL_MAX as usize + 1],
}

impl LevelTable {
    pub(super) fn new() -> LevelTable {
        let words = || std::array::from_fn(|_| AtomicU64::new(0));
        LevelTable { firsts: words(), lasts: words() }
    }

    pub(super) fn set(&self, number: u32, level: Level) {
        self.lasts[number as usize].store(level.last, Ordering::Relaxed);
        // After the other one: a first line says that there is a level.
        self.firsts[number as usize].store(level.first, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn get(&self, level: u32) -> Level {
        let number = (level & LEVEL_MAX) as usize;
        let first = self.firsts[number].load(Ordering::Acquire);
        Level { first, last: self.lasts[number].load(Ordering::Relaxed) }
    }

    pub(super) fn has(&self, level: u32) -> bool {
        self.get(level).first != 0
    }
}

/// The content of the slot at `slot`.
#[inline(always)]
pub(super) fn load<M: Medium>(medium: &M, slot: Offset) -> Word {
    Word(medium.load(slot))
}

/// Replaces the word in a slot, if it is `before`; whether it was.
#[track_caller]
pub(super) fn compare_and_swap<M: Medium>(
    medium: &M,
    slot: Offset,
    before: Word,
    after: Word,
) -> bool {
    medium.compare_exchange(slot, before.0, after.0).is_ok()
}

/// What a table of this engine is fixed to at creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// log2 of the number of buckets that the larger of the first two levels has, at least 1. The
    /// table never gets smaller.
    pub initial_log2: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { initial_log2: 4 }
    }
}

impl Shape {
    /// The shape that holds `pairs` at `resize_at` without growing.
    #[must_use]
    pub fn for_pairs(self, pairs: u64, resize_at: f64) -> Shape {
        let mut shape = self;
        // It fills to some 0.94 before an insertion finds no room.
        let fill = resize_at.min(0.9);
        while capacity(shape.initial_log2) as f64 * fill <= pairs as f64
            && shape.initial_log2 < LOG2_MAX
        {
            shape.initial_log2 += 1;
        }
        shape
    }

    /// As engine parameters of the superblock.
    pub(super) fn encode(&self) -> [u64; 16] {
        let mut params = [0; 16];
        params[PARAM_LOG2] = self.initial_log2.into();
        params
    }

    pub(super) fn decode(params: &[u64; 16]) -> Result<Shape, String> {
        match params[PARAM_LOG2] {
            log2 if (1..=LOG2_MAX.into()).contains(&log2) => {
                Ok(Shape { initial_log2: log2 as u32 })
            }
            other => {
                Err(format!("a first level of 2^{other} buckets, expected 2^1 to 2^{LOG2_MAX}"))
            }
        }
    }
}

/// Slots of a table whose back level has `1 << log2` buckets, the one before it half as many.
pub(super) fn capacity(log2: u32) -> u64 {
    ((SLOTS as u64) << log2) * 3 / 2
}
