//! Tidying up after a doubling: pairs that spilled go home, and SPILLED bits that no key needs any more are cleared.
//!
//! A doubling leaves room in every level-1 block, but the pairs that had none before stay beyond it. It also gives both
//! halves of a block its bits, although most keys that set them are in one half, or were removed. Left alone, both add
//! up from one doubling to the next, until most searches for absent keys, and so most insertions, look in level 2.
//!
//! So a doubling has two more passes. The table is first *draining*: every pair of level 2 goes to its level-1 block if
//! that has room, under the locks of both blocks. The bits of pairs that stay are *collected* beside the lines, in a
//! byte per level-1 block. A key that spills during the doubling adds its own, under its block's lock. Then the table
//! is *clearing*: block by block, under the block's lock, the collected bits and those of the block's chain in level 3
//! take the place of the bits in the line.
//!
//! Both are worthwhile, and nothing depends on them. So they wait for no writer: if a home block is locked, its pairs
//! and bits stay as they are.
//!
//! A pair that goes home goes back in the order of searches. A search that found nothing while the table was draining
//! therefore looks in level 1 once more. It does not go back in the order of a scan: while one is open, pairs stay. A
//! crash may leave a pair in both places. Recovery erases it in level 2.
//!
//! No bit is missed. Writers that know the doubling collect the bits of what they put beyond level 1. One that does not
//! know it holds a lock in level 1, and in level 2 if it writes there. The doubling takes every lock of a level before
//! draining begins, so its pair is met by then. Only if level 2 doubles alone may such a writer still be at level 3:
//! chains are read under the lock under which they change.

use super::Core;
use super::block::{Locked, lane_to_fill};
use super::hash::{h0, spilled_bit};
use super::layout::{Geometry, SPILLED, SPILLED_WORD};
use super::pass::Pass;
use super::resize::Move;
use index::fingerprint::EMPTY;
use pmem::Medium;
use pmem::sync::{Array, AtomicU64, Ordering};
use std::io;

/// Blocks of level 1 whose collected bits share a word. They are cleared together.
const BLOCKS_PER_WORD: u64 = 8;

/// How far the two passes are, and the bits collected.
#[derive(Debug)]
pub(super) struct Tidying {
    draining: Pass,
    clearing: Pass,
    /// The SPILLED bits that blocks are to have: a byte per level-1 block.
    collected: Array<AtomicU64>,
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

/// A block each: a writer that drains one, for want of a helper, is not to wait for more.
fn parts_to_drain(geometry: Geometry) -> u64 {
    geometry.blocks_2()
}

fn parts_to_clear(geometry: Geometry) -> u64 {
    geometry.blocks_1().div_ceil(BLOCKS_PER_WORD)
}

impl Tidying {
    /// For so many level-1 blocks at most, and now.
    pub(super) fn new(blocks_max: usize, blocks_now: usize) -> io::Result<Tidying> {
        let words = |blocks: usize| blocks.div_ceil(BLOCKS_PER_WORD as usize);
        Ok(Tidying {
            draining: Pass::default(),
            clearing: Pass::default(),
            collected: Array::reserve(words(blocks_max), words(blocks_now))?,
        })
    }

    /// Most level-1 blocks.
    pub(super) fn blocks_max(&self) -> u64 {
        self.collected.len() as u64 * BLOCKS_PER_WORD
    }

    /// Bytes for so many level-1 blocks.
    pub(super) fn bytes_for(blocks: u64) -> u64 {
        blocks.next_multiple_of(BLOCKS_PER_WORD)
    }

    /// Gets ready for the resize of this number, before its geometry is published.
    pub(super) fn begin(&self, next: Geometry, resize: u64) {
        self.draining.begin(parts_to_drain(next), resize);
        self.clearing.begin(parts_to_clear(next), resize);
    }

    pub(super) fn collect(&self, block: u64, bit: u64) {
        let bit = packed(bit) << (block % BLOCKS_PER_WORD * 8);
        let word = self.collected.get((block / BLOCKS_PER_WORD) as usize);
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
        if geometry.collects_spilled() {
            self.tidying.collect(home, bit);
        }
    }

    /// Builds, drains or clears some blocks, if the table is doing so under this geometry and blocks are left. Returns
    /// whether there were any.
    pub(super) fn tidy_some(&self, geometry: Geometry) -> bool {
        if geometry.is_building() {
            self.build_some(geometry)
        } else if geometry.is_draining() {
            self.drain_some(geometry)
        } else {
            geometry.is_clearing() && self.clear_some(geometry)
        }
    }

    fn drain_some(&self, geometry: Geometry) -> bool {
        let pass = &self.tidying.draining;
        let block = pass.take(parts_to_drain(geometry), || self.geometry() == geometry);
        let Some(block) = block else { return false };
        for lane in self.used_2(block) {
            self.drain(geometry, block, lane);
        }
        if pass.finish_part() {
            self.end(Geometry::end_draining);
        }
        true
    }

    /// Brings the pair in a level-2 slot to its level-1 block, or collects its bit.
    fn drain(&self, geometry: Geometry, block: u64, lane: usize) {
        let medium = self.medium();
        let slot = self.slot_2(block, lane);
        let key = medium.load(slot);
        if key == 0 {
            return;
        }
        let first = self.hasher.first_u64(key);
        let home = geometry.home(h0(first));
        let Some(_home) = Locked::attempt(self.flags_1(home)) else {
            return self.tidying.collect(home, spilled_bit(first));
        };
        let _block = Locked::wait(self.word_2(block));
        let (found, value) = medium.load_pair(slot);
        if found != key {
            // Removed. A key that came here since has set its bit.
            return;
        }
        let empties = self.empty_1(home);
        // A scan that has taken the home block already was open before this lock was taken, and is seen here. One that
        // has not will meet the pair there.
        if self.is_scanned() || empties == 0 {
            return self.tidying.collect(home, spilled_bit(first));
        }
        let to = lane_to_fill(empties, self.preferred_1(first));
        let fingerprint = self.sought_1(first).fingerprint_in(to);
        self.carry_out(
            &[Move { key, value, from: lane, to, fingerprint }],
            |lane| self.slot_1(home, lane),
            |lane| self.slot_2(block, lane),
            |lane, fingerprint| self.set_lane_1(home, lane, fingerprint),
        );
        self.set_lane_2(block, lane, EMPTY);
    }

    fn clear_some(&self, geometry: Geometry) -> bool {
        let pass = &self.tidying.clearing;
        let part = pass.take(parts_to_clear(geometry), || self.geometry() == geometry);
        let Some(part) = part else { return false };
        let first = part * BLOCKS_PER_WORD;
        let collected = self.tidying.collected.get(part as usize);
        for block in first..geometry.blocks_1().min(first + BLOCKS_PER_WORD) {
            let Some(_locked) = Locked::attempt(self.flags_1(block)) else { continue };
            let bits = spread(collected.load(Ordering::Relaxed) >> ((block - first) * 8))
                | self.spilled_to_level_3(block);
            let word = &self.line_1(block)[SPILLED_WORD];
            word.store(word.load(Ordering::Relaxed) & !SPILLED | bits, Ordering::Release);
        }
        // For the next doubling. A bit that a writer adds to a cleared block from here on is there to no purpose.
        collected.store(0, Ordering::Relaxed);
        if pass.finish_part() {
            self.publish_end(Geometry::end_clearing);
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
