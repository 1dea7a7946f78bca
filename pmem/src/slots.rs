//! Blocks of slots in a pool, each with a line in DRAM beside it: found by number in a few instructions.
//!
//! A hash table on this layout looks at a line of fingerprints and then at one of the block's slots. What lies
//! between costs as much as the accesses themselves if each one is held against the end of the pool. So a block is
//! held against the number of blocks once, and every slot of it is then in place: extents are checked when they are
//! added.

use crate::medium::{GUARD_BYTES, Medium};
use crate::offset::{Offset, WORD};
use crate::pool::Pool;
use crate::sync::{Array, AtomicU64, Line, Ordering};
use std::marker::PhantomData;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64 as Bound};

/// Bytes of a slot: a pair of words.
pub const SLOT_BYTES: u64 = 2 * WORD;
/// Most slots of a block: as many as a line has bytes.
pub const SLOTS_MAX: usize = 64;
const SLOTS_MAX_BYTES: u64 = SLOTS_MAX as u64 * SLOT_BYTES;
const _: () = assert!(SLOTS_MAX_BYTES <= GUARD_BYTES);

/// Where the units (blocks, or nodes) of a level are: a sequence of extents, of which each but the first doubles what
/// the extents before it hold, so that doubling adds an extent and moves nothing.
#[derive(Debug)]
pub struct Area {
    unit_bytes: u64,
    initial_log2: u32,
    /// All ones up to the bit of extent 0.
    initial_mask: NonZero<u64>,
    /// By the highest bit of a unit's number, the first extent's units having the bit below all others: the extent's
    /// start less the bytes of all units before it.
    bases: [AtomicU64; 64],
}

impl Area {
    /// Units of `unit_bytes`, of which the first extent has `1 << initial_log2`.
    ///
    /// # Panics
    ///
    /// If the first extent would have no bytes, or 2^62 and more.
    pub fn new(unit_bytes: u64, initial_log2: u32) -> Area {
        let units_max = (1 << 62) / unit_bytes;
        assert!(
            initial_log2 < 62 && 1 << initial_log2 <= units_max,
            "an extent that no pool holds"
        );
        Area {
            unit_bytes,
            initial_log2,
            initial_mask: NonZero::<u64>::MIN | ((2 << initial_log2) - 1),
            bases: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// log2 of the units of the first extent.
    pub fn initial_log2(&self) -> u32 {
        self.initial_log2
    }

    /// Number of extents when there are `1 << log2` units.
    pub fn extents_for(&self, log2: u32) -> u32 {
        log2 - self.initial_log2 + 1
    }

    /// Number of units in this many extents, of which there is at least one.
    pub fn units_in(&self, extents: usize) -> usize {
        1 << (self.initial_log2 as usize + extents.saturating_sub(1))
    }

    /// First unit of extent `index`.
    pub fn first_of(&self, index: u32) -> u64 {
        match index {
            0 => 0,
            _ => 1 << (self.initial_log2 + index - 1),
        }
    }

    /// Units of extent `index`, which doubles those before it.
    fn units_of(&self, index: u32) -> u64 {
        self.first_of(index).max(1 << self.initial_log2)
    }

    /// Bytes of extent `index`.
    pub fn extent_bytes(&self, index: u32) -> u64 {
        self.unit_bytes * self.units_of(index)
    }

    /// Makes extent `index` known, before anybody asks for one of its units.
    pub fn add_extent(&self, index: u32, start: Offset) {
        let base = start.0.wrapping_sub(self.first_of(index).wrapping_mul(self.unit_bytes));
        self.bases[self.place_of(index)].store(base, Ordering::Release);
    }

    /// Where an extent is in an array with an element for each.
    fn place_of(&self, index: u32) -> usize {
        (self.initial_log2 + index) as usize
    }

    /// [`Area::place_of`] the extent that has this unit.
    #[inline(always)]
    fn place_of_unit(&self, unit: u64) -> usize {
        // With a bit below, which makes room for the mask: without one, units 0 and 1 of an area that begins with one
        // unit would look the same.
        (self.initial_mask | unit << 1).ilog2() as usize
    }

    /// Where unit `unit` begins.
    #[inline(always)]
    pub fn at(&self, unit: u64) -> Offset {
        let base = self.bases[self.place_of_unit(unit)].load(Ordering::Relaxed);
        Offset(base).add(unit.wrapping_mul(self.unit_bytes))
    }
}

/// Blocks of at most [`SLOTS_MAX`] slots, with a line for each.
pub struct SlotBlocks<M: Medium> {
    area: Area,
    lines: Array<Line>,
    /// The largest number of a block in an extent that was added; one less than a power of two, and less than there are
    /// lines. No word of the protocols that a scheduler explores: every block that anybody asks for is there.
    known: Bound,
    /// What [`SlotBlocks::aim`] starts from.
    aim: AtomicU64,
    /// By [`Area::place_of`]: the place of block 0, if all blocks were where those of this extent are.
    places: [AtomicPtr<u8>; 64],
    /// Keeps what they point to.
    pool: Arc<Pool<M>>,
}

impl<M: Medium> SlotBlocks<M> {
    /// The blocks of `area`, which has no extents yet, in `pool`: for now those of the extents that begin at `starts`.
    /// `lines` has one for each block that there may ever be.
    ///
    /// Errors are those of [`SlotBlocks::add_extent`], and that there is no extent.
    pub fn new(
        pool: Arc<Pool<M>>,
        area: Area,
        lines: Array<Line>,
        starts: &[Offset],
    ) -> Result<SlotBlocks<M>, String> {
        let places = [const { AtomicPtr::new(std::ptr::null_mut()) }; 64];
        let blocks =
            SlotBlocks { area, lines, known: Bound::new(0), aim: AtomicU64::new(0), places, pool };
        let (&first, others) = starts.split_first().ok_or("0 extents, expected at least one")?;
        blocks.put_extent(0, first)?;
        (1..).zip(others).try_for_each(|(index, &start)| blocks.add_extent(index, start))?;
        Ok(blocks)
    }

    /// Makes an extent known, before anybody asks for one of its blocks.
    ///
    /// An error says what is wrong with an extent that is not the next one, lies beyond the pool, does not begin where
    /// a slot can, or has more blocks than there are lines.
    pub fn add_extent(&self, index: u32, start: Offset) -> Result<(), String> {
        let blocks = self.known.load(Ordering::Acquire) + 1;
        // So that there is a place for every block up to the last.
        if index == 0 || self.area.first_of(index) != blocks {
            let expected = self.area.extents_for(blocks.ilog2());
            return Err(format!("extent {index}, expected extent {expected}"));
        }
        self.put_extent(index, start)
    }

    #[inline(never)]
    fn put_extent(&self, index: u32, start: Offset) -> Result<(), String> {
        let area = &self.area;
        // Lines first: so many blocks have no more bytes than an address can count.
        let known = area.first_of(index) + area.units_of(index);
        let lines = self.lines.len() as u64;
        if known > lines {
            return Err(format!("{known} blocks, expected at most {lines}"));
        }
        let bytes = area.extent_bytes(index);
        let size = self.pool.medium().size();
        let end = start.0.checked_add(bytes);
        let is_aligned =
            start.0.is_multiple_of(SLOT_BYTES) && area.unit_bytes.is_multiple_of(SLOT_BYTES);
        if !is_aligned || end.is_none_or(|end| end > size) {
            return Err(format!(
                "extent {index} has {bytes} bytes at {start}, expected them at a multiple of {SLOT_BYTES} and within \
                 the pool's {size}"
            ));
        }
        area.add_extent(index, start);
        let place = area.place_of(index);
        let base = area.bases[place].load(Ordering::Relaxed) as usize;
        let at = self.pool.medium().origin().wrapping_add(base);
        self.places[place].store(at, Ordering::Relaxed);
        self.known.store(known - 1, Ordering::Release);
        Ok(())
    }

    /// Where the blocks are.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// Most blocks that there may ever be.
    pub fn blocks_max(&self) -> u64 {
        self.lines.len() as u64
    }

    /// The line of a block.
    ///
    /// # Panics
    ///
    /// If there is none for it.
    #[inline(always)]
    pub fn line(&self, block: u64) -> &[AtomicU64; 8] {
        &self.lines.get(block as usize).0
    }

    /// As [`Array::advise`], for the lines of these blocks.
    #[inline(never)]
    pub fn advise_lines(&self, blocks: Range<u64>, populate: bool) {
        self.lines.advise(blocks.start as usize..blocks.end as usize, populate);
    }

    /// Hints that the line of a block is about to be written.
    #[inline(always)]
    pub fn prefetch_line_to_write(&self, block: u64) {
        self.lines.prefetch_write(block as usize);
    }

    /// Makes `word` what is aimed by from now on: its low half is a mask of the numbers of blocks. The high half is the
    /// caller's, who tells by it whether an aim is of the present.
    ///
    /// # Panics
    ///
    /// If the mask leads to blocks whose extents were not added.
    pub fn set_aim(&self, word: u64) {
        let (mask, known) = (mask_of(word), self.known.load(Ordering::Acquire));
        assert!(mask <= known, "a mask of {mask:#x}, and {known:#x} is the last block");
        self.aim.store(word, Ordering::Release);
    }

    /// By what blocks are found.
    #[inline(always)]
    pub fn aim(&self) -> Aim<'_, M> {
        Aim { word: self.aim.load(Ordering::Acquire), blocks: self }
    }
}

fn mask_of(word: u64) -> u64 {
    u64::from(word as u32)
}

/// Finds blocks without a check of each: its mask was checked when it was set, and no block is ever taken away.
pub struct Aim<'a, M: Medium> {
    word: u64,
    blocks: &'a SlotBlocks<M>,
}

impl<M: Medium> Clone for Aim<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for Aim<'_, M> {}

impl<'a, M: Medium> Aim<'a, M> {
    /// What [`SlotBlocks::set_aim`] was given.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.word
    }

    /// The number that `number` has under the mask, and the line and the slots of that block.
    #[inline(always)]
    pub fn block(self, number: u64) -> (u64, &'a [AtomicU64; 8], Slots<'a, M>) {
        let SlotBlocks { area, lines, places, .. } = self.blocks;
        let block = number & mask_of(self.word);
        let base = places[area.place_of_unit(block)].load(Ordering::Relaxed);
        let at = base.wrapping_add(block.wrapping_mul(area.unit_bytes) as usize);
        // SAFETY: a mask leads to blocks that are known, as `set_aim` has checked, and those have lines.
        let line = unsafe { lines.get_unchecked(block as usize) };
        (block, &line.0, Slots { at, blocks: PhantomData })
    }
}

impl<M: Medium> std::fmt::Debug for SlotBlocks<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotBlocks").field("area", &self.area).finish_non_exhaustive()
    }
}

/// The slots of a block: a pair of words in each.
///
/// A slot beyond the block's last is one of what follows it in the pool; none is beyond the medium's reach. The medium
/// that methods take is the one of the blocks.
pub struct Slots<'a, M> {
    /// The block's beginning: an address in a mapping that the pool owns, if accesses of `M` are bare instructions,
    /// and from there on at least `SLOTS_MAX_BYTES` belong to that mapping or to the guard behind it. Else an offset.
    at: *mut u8,
    blocks: PhantomData<&'a M>,
}

impl<M> Clone for Slots<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Slots<'_, M> {}

// SAFETY: a place in a mapping, access to which is by the medium, which is `Sync`.
unsafe impl<M> Send for Slots<'_, M> {}
// SAFETY: as above.
unsafe impl<M> Sync for Slots<'_, M> {}

impl<M: Medium> Slots<'_, M> {
    #[inline(always)]
    fn place(self, slot: usize) -> *mut u8 {
        self.at.wrapping_add((slot & (SLOTS_MAX - 1)) * SLOT_BYTES as usize)
    }

    /// Where a slot is in the pool.
    #[inline(always)]
    pub fn offset(self, medium: &M, slot: usize) -> Offset {
        Offset((self.place(slot).addr() as u64).wrapping_sub(medium.origin().addr() as u64))
    }

    /// [`Medium::load_pair`] of a slot.
    #[inline(always)]
    pub fn load_pair(self, medium: &M, slot: usize) -> (u64, u64) {
        // SAFETY: a place within a block, as the field says.
        unsafe { medium.load_pair_at(self.place(slot)) }
    }

    /// [`Medium::store_pair`] to a slot.
    #[track_caller]
    #[inline(always)]
    pub fn store_pair(self, medium: &M, slot: usize, low: u64, high: u64) {
        // SAFETY: as above.
        unsafe { medium.store_pair_at(self.place(slot), low, high) }
    }

    /// [`Medium::store`] to the low word of a slot.
    #[track_caller]
    #[inline(always)]
    pub fn store_low(self, medium: &M, slot: usize, low: u64) {
        // SAFETY: as above.
        unsafe { medium.store_at(self.place(slot), low) }
    }

    /// [`Medium::store_release`] to the high word of a slot.
    #[track_caller]
    #[inline(always)]
    pub fn store_high(self, medium: &M, slot: usize, high: u64) {
        // SAFETY: as above; the high word lies in the same slot.
        unsafe { medium.store_release_at(self.place(slot).wrapping_add(WORD as usize), high) }
    }

    /// [`Medium::prefetch`] of the line with this byte of the block.
    #[inline(always)]
    pub fn prefetch_byte(self, medium: &M, byte: usize) {
        medium.prefetch_at(self.at.wrapping_add(byte));
    }

    /// [`Medium::prefetch_write`] of the line with this byte of the block.
    #[inline(always)]
    pub fn prefetch_byte_to_write(self, medium: &M, byte: usize) {
        medium.prefetch_write_at(self.at.wrapping_add(byte));
    }

    /// [`Medium::prefetch`] of a slot, or of something else: chosen without a branch where that can be.
    #[inline(always)]
    pub fn prefetch_or<T>(self, medium: &M, slot: usize, is_wanted: bool, other: &T) {
        let place = self.at.wrapping_add(slot * SLOT_BYTES as usize);
        if medium.origin().is_null() {
            if is_wanted {
                medium.prefetch_at(place);
            }
        } else {
            let other = std::ptr::from_ref(other).cast_mut().cast();
            medium.prefetch_at(std::hint::select_unpredictable(is_wanted, place, other));
        }
    }

    /// [`Medium::prefetch_write`] of a slot.
    #[inline(always)]
    pub fn prefetch_write(self, medium: &M, slot: usize) {
        medium.prefetch_write_at(self.at.wrapping_add(slot * SLOT_BYTES as usize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Memory;
    use crate::pool::tests::spec;
    use crate::superblock::Place;

    #[test]
    fn units_are_found_across_extents() {
        for initial_log2 in [0, 2] {
            let area = Area::new(1024, initial_log2);
            let mut units_before = 0;
            for index in 0..4 {
                let start = Offset(1 << (20 + 2 * index));
                area.add_extent(index, start);
                let units = area.extent_bytes(index) / 1024;
                for unit in 0..units {
                    assert_eq!(area.at(units_before + unit), start.add(unit * 1024));
                }
                units_before += units;
                assert_eq!(area.extents_for(units_before.ilog2()), index + 1);
            }
            assert_eq!(units_before, 8 << initial_log2);
        }
    }

    /// Blocks of 64 slots, two in the first extent, in a pool with as many extents.
    fn blocks(extents: u8, lines: usize) -> (Arc<Pool<Memory>>, Area, Array<Line>, Vec<Offset>) {
        let pool = Pool::create(Memory::dram(1 << 26).unwrap(), &spec(), Place::default()).unwrap();
        let area = Area::new(1024, 1);
        let taken = pool.extend(|draft| {
            let take = |index| draft.take_extent(1, index, area.extent_bytes(index.into()));
            (0..extents).map(take).collect::<Result<Vec<_>, _>>()
        });
        let starts = taken.unwrap().iter().map(|extent| extent.start).collect();
        (Arc::new(pool), area, Array::reserve(lines, lines).unwrap(), starts)
    }

    #[test]
    fn a_slot_is_where_its_offset_says() {
        let (pool, area, lines, starts) = blocks(3, 8);
        let blocks = SlotBlocks::new(Arc::clone(&pool), area, lines, &starts).unwrap();
        let medium = pool.medium();
        assert_eq!((blocks.aim().word(), blocks.aim().block(u64::MAX).0), (0, 0));
        blocks.set_aim(5 << 32 | 7);
        assert_eq!(blocks.aim().word(), 5 << 32 | 7);
        for block in 0..8 {
            let (found, line, slots) = blocks.aim().block(block | 1 << 40 | 8);
            assert_eq!(found, block);
            assert!(std::ptr::eq(line, blocks.line(block)));
            for slot in [0, 1, 63] {
                let at = blocks.area().at(block).add(slot as u64 * SLOT_BYTES);
                assert_eq!(slots.offset(medium, slot), at);
                slots.store_pair(medium, slot, block + 1, 7);
                assert_eq!(medium.load_pair(at), (block + 1, 7));
                slots.store_high(medium, slot, 8);
                slots.store_low(medium, slot, 9);
                assert_eq!(slots.load_pair(medium, slot), (9, 8));
                assert_eq!(medium.load_pair(at), (9, 8));
            }
        }
    }

    #[test]
    #[should_panic(expected = "0x3 is the last block")]
    fn nobody_aims_beyond_the_last_block() {
        let (pool, area, lines, starts) = blocks(3, 8);
        let blocks = SlotBlocks::new(pool, area, lines, &starts[..2]).unwrap();
        blocks.set_aim(7);
    }

    #[test]
    fn an_extent_that_does_not_fit_is_refused() {
        let refused = |lines, starts: &[Offset]| {
            let (pool, area, lines, _) = blocks(1, lines);
            SlotBlocks::new(pool, area, lines, starts).unwrap_err()
        };
        let start = Offset(1 << 16);
        assert!(refused(2, &[]).contains("at least one"));
        assert!(refused(1, &[start]).contains("2 blocks, expected at most 1"));
        assert!(refused(2, &[Offset(start.0 + 8)]).contains("a multiple of 16"));
        assert!(refused(2, &[Offset(1 << 40)]).contains("within"));
        assert!(refused(2, &[Offset(u64::MAX - 15)]).contains("within"));
        let (pool, area, lines, starts) = blocks(3, 8);
        let blocks = SlotBlocks::new(pool, area, lines, &starts[..1]).unwrap();
        for index in [0, 2] {
            let wrong = blocks.add_extent(index, starts[index as usize]).unwrap_err();
            assert!(wrong.contains("expected extent 1"), "{wrong}");
        }
        blocks.add_extent(1, starts[1]).unwrap();
        blocks.add_extent(2, starts[2]).unwrap();
    }
}
