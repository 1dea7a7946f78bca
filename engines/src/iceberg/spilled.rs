//! Clearing SPILLED bits that no key needs any more.
//!
//! A doubling gives both halves of a level-1 block its bits, although most keys that set them are in one half, or were
//! removed. Left alone, the bits of each doubling add up, until most searches for absent keys look in level 2.
//!
//! So a doubling that moves level 2 collects the bits anew, beside the lines: a byte per level-1 block. Each level-2
//! family adds the bits of its pairs when it is moved. A key that spills meanwhile adds its own, under its block's lock.
//! When both levels have been moved, the table is *clearing*: block by block, under the block's lock, the collected
//! bits and those of the block's chain in level 3 take the place of the bits in the line.
//!
//! No bit is missed. A pair that was in level 2 when the doubling began is still there when its family is moved, or
//! was removed. A writer that knows only the geometry before the doubling puts its pair there before that, too: it holds
//! the level-2 lock, and has looked at the geometry under it. Chains are read under the lock under which they change.

use super::Core;
use super::block::Locked;
use super::hash::spilled_bit;
use super::layout::{Geometry, SPILLED, SPILLED_WORD};
use pmem::Medium;
use pmem::sync::{Array, AtomicU64, Ordering};
use std::io;

/// Blocks whose collected bits share a word. They are cleared together.
const BLOCKS_PER_WORD: u64 = 8;
/// Bits of a cursor that are a number of a word; those above are the number of the resize.
const WORD_BITS: u32 = 32;

/// The bits collected, and how far clearing is.
#[derive(Debug)]
pub(super) struct Collected {
    /// A byte per level-1 block.
    words: Array<AtomicU64>,
    /// The next word to be cleared. The number of the resize keeps a thread that was held up from taking a word of a
    /// later resize.
    cursor: AtomicU64,
    uncleared: AtomicU64,
}

/// Moves the top bit of each byte of a line's word to the lowest, and all of those into one byte.
const fn packed(flags: u64) -> u64 {
    // The product's top byte has bit 7 of byte k at place k.
    ((flags & SPILLED) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The reverse of [`packed`].
const fn spread(byte: u64) -> u64 {
    let each = (byte & 0xff).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    (each.wrapping_add(0x007f_7f7f_7f7f_7f7f) | each) & SPILLED
}

fn words_for(geometry: Geometry) -> u64 {
    geometry.blocks_1().div_ceil(BLOCKS_PER_WORD)
}

impl Collected {
    /// For so many level-1 blocks at most, and now.
    pub(super) fn new(blocks_max: usize, blocks_now: usize) -> io::Result<Collected> {
        let words = |blocks: usize| blocks.div_ceil(BLOCKS_PER_WORD as usize);
        Ok(Collected {
            words: Array::reserve(words(blocks_max), words(blocks_now))?,
            cursor: AtomicU64::new(0),
            uncleared: AtomicU64::new(0),
        })
    }

    /// Most level-1 blocks.
    pub(super) fn blocks_max(&self) -> u64 {
        self.words.len() as u64 * BLOCKS_PER_WORD
    }

    /// Bytes for so many level-1 blocks.
    pub(super) fn bytes_for(blocks: u64) -> u64 {
        blocks.next_multiple_of(BLOCKS_PER_WORD)
    }

    /// Gets ready for the resize of this number, before its geometry is published.
    pub(super) fn begin(&self, next: Geometry, resize: u64) {
        self.uncleared.store(words_for(next), Ordering::Relaxed);
        // Release: who sees this no longer sees the geometry of an earlier resize.
        self.cursor.store(resize << WORD_BITS, Ordering::Release);
    }

    /// Adds a bit of SPILLED for a block.
    pub(super) fn add(&self, block: u64, bit: u64) {
        let shift = block % BLOCKS_PER_WORD * 8;
        let bit = packed(bit) << shift;
        let word = self.words.get((block / BLOCKS_PER_WORD) as usize);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

impl<M: Medium> Core<M> {
    /// Sets the bit of a key that goes to level 2 or 3, before the key can be found there. Its block's lock is held.
    pub(super) fn mark_spilling(&self, geometry: Geometry, home: u64, first: u64) {
        let bit = spilled_bit(first);
        self.mark_spilled(home, bit);
        self.collect(geometry, home, bit);
    }

    /// Adds the bit of a pair in level 2, if bits are being collected.
    pub(super) fn collect(&self, geometry: Geometry, home: u64, bit: u64) {
        if geometry.collects_spilled() {
            self.collected.add(home, bit);
        }
    }

    /// Clears some blocks, if the table is clearing under this geometry and blocks are left. Returns whether there
    /// were any.
    pub(super) fn clear_some(&self, geometry: Geometry) -> bool {
        if !geometry.is_clearing() {
            return false;
        }
        let Collected { words, cursor, uncleared } = &self.collected;
        let index = loop {
            let next = cursor.load(Ordering::Acquire);
            let index = next & ((1 << WORD_BITS) - 1);
            // In this order. If the geometry is still that one, its resize has not ended, so the cursor is not a later
            // resize's.
            if self.geometry() != geometry || index >= words_for(geometry) {
                return false;
            }
            let taken =
                cursor.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                break index;
            }
        };
        let first = index * BLOCKS_PER_WORD;
        let end = geometry.blocks_1().min(first + BLOCKS_PER_WORD);
        for block in first..end {
            let _locked = Locked::wait(self.flags_1(block));
            let collected = words.get(index as usize).load(Ordering::Relaxed);
            let bits = spread(collected >> ((block - first) * 8)) | self.spilled_to_level_3(block);
            let word = &self.line_1(block)[SPILLED_WORD];
            word.store(word.load(Ordering::Relaxed) & !SPILLED | bits, Ordering::Release);
        }
        // For the next doubling. A bit that a writer adds to a cleared block from here on is there to no purpose.
        words.get(index as usize).store(0, Ordering::Relaxed);
        if uncleared.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end(Geometry::end_clearing);
        }
        true
    }

    /// The bits of the keys in a block's chain. The block's lock is held.
    fn spilled_to_level_3(&self, block: u64) -> u64 {
        let pairs = self.level_3.pairs(self.medium(), block);
        pairs.fold(0, |bits, (key, _)| bits | spilled_bit(self.hasher.first_u64(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_survive_packing() {
        for byte in 0..=0xff {
            let flags = (0..8).fold(0, |flags, bit| flags | (byte >> bit & 1) << (8 * bit + 7));
            assert_eq!((packed(flags | !SPILLED), spread(byte)), (byte, flags));
        }
    }
}
