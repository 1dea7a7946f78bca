//! Path hashing: Zuo and Hua, A Write-Friendly Hashing Scheme for Non-Volatile Memory Systems (MSST 2017), from its
//! description in Zuo, Hua and Wu, ACM Transactions on Storage 15 (2019), sections 2.3 and 5.
//!
//! Slots form an inverted complete binary tree: a level of leaves, a level of half as many below it, and so on. Two
//! functions choose a leaf each for a key. A pair lies in one of the two leaves, or in a slot on the path from one of
//! them to the root. An insertion takes the first empty slot, level by level. A search looks at every slot of both
//! paths, since a removal leaves gaps. No pair ever moves: each change writes one cell.
//!
//! The levels near the root are left out, as they have few slots: "the path hash table has about log(N)/2 levels".
//!
//! Departure: the number of leaves need not be a power of two, so that a table can have any size.

use crate::region::{PAIR_BYTES, Region};
use crate::table::{EMPTY, Full, Scheme};
use index::hash::{Hasher, h1, h2};
use pmem::{Medium, Offset};

/// Levels of slots.
pub struct Path {
    /// The first slot of each level; after the last one the end of all.
    levels: Vec<u64>,
    hasher: Hasher,
}

impl Path {
    /// The largest table of this many levels and at most `slots` slots, or the smallest.
    pub fn new(slots: u64, levels: u64, seed: u64) -> Self {
        let levels_of = |leaves: u64| {
            let widths = (0..levels.max(1)).map(|level| leaves.div_ceil(1 << level));
            let mut starts = vec![0];
            starts.extend(widths.scan(0, |end, width| {
                *end += width;
                Some(*end)
            }));
            starts
        };
        let total = |leaves: u64| *levels_of(leaves).last().unwrap_or(&0);
        let mut leaves = 1;
        for bit in (0..u64::BITS - slots.leading_zeros()).rev() {
            let more = leaves + (1 << bit);
            if total(more) <= slots {
                leaves = more;
            }
        }
        Path { levels: levels_of(leaves), hasher: Hasher::new(seed) }
    }

    /// The slots of both paths, level by level.
    #[inline(always)]
    fn paths<M: Medium>(&self, region: &Region<M>, key: u64) -> impl Iterator<Item = Offset> {
        let table = region.table();
        let second = self.hasher.second_u64(key);
        let leaves = [h1(second), h2(second)].map(|hash| (hash * self.levels[1]) >> 32);
        let starts = &self.levels[..self.levels.len() - 1];
        (0..).zip(starts).flat_map(move |(level, start): (u32, _)| {
            leaves.map(|leaf| table.add((start + (leaf >> level)) * PAIR_BYTES))
        })
    }
}

/// Levels of a table of `slots` slots.
pub(crate) fn levels(slots: u64) -> u64 {
    u64::from(slots.max(2).ilog2().div_ceil(2))
}

impl Scheme for Path {
    const MARKS: &'static [u64] = &[EMPTY];

    #[inline]
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset> {
        self.paths(region, key).find(|&at| region.load(at) == key)
    }

    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full> {
        let at = self.paths(region, key).find(|&at| region.load(at) == EMPTY).ok_or(Full)?;
        region.set_pair(at, key, value);
        Ok(())
    }

    fn erase<M: Medium>(&mut self, region: &mut Region<M>, _key: u64, at: Offset) {
        region.set_pair(at, EMPTY, 0);
    }

    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset)) {
        for slot in 0..self.capacity() {
            let at = region.table().add(slot * PAIR_BYTES);
            if region.load(at) != EMPTY {
                visit(at);
            }
        }
    }

    fn capacity(&self) -> u64 {
        self.levels[self.levels.len() - 1]
    }

    fn bytes(&self) -> u64 {
        self.capacity() * PAIR_BYTES
    }
}
