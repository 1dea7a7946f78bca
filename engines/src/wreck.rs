//! A pool that may be damaged anywhere, as seen by the code that reads what is left of its tables.

use index::Fixed;
use index::hash::Hasher;
use pmem::heap::salvage::Remains;
use pmem::superblock::{Extent, Superblock};
use pmem::{LINE, Offset, WORD};

/// Something that a table holds, or seems to hold.
pub enum Found<'a, K, V> {
    /// A pair, in a place of its key's.
    Pair(K, V),
    /// What leads to an item, and whether a key may be that item's.
    Item(Offset, &'a dyn Fn(&[u8]) -> bool),
    /// A pair where no pair of its key can be: of key or place, something is damaged.
    Misplaced(Offset),
}

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 64 << 10;
/// What a device gives or refuses at once.
const PAGE_BYTES: usize = 4096;

/// What is left of a pool. An engine trusts its superblock if that makes sense: where the extents lie in one another's
/// way, or beyond where there can be any, there is no superblock.
pub struct Wreck<'a> {
    /// What the superblock says.
    pub superblock: &'a Superblock,
    /// The pool's hash functions.
    pub hasher: Hasher,
    remains: &'a dyn Remains,
    unread_bytes: u64,
}

/// A bucket, or another unit that a table is made of.
pub(crate) struct Unit<'a> {
    pub(crate) at: Offset,
    /// Its number among all of the owner's, in order.
    pub(crate) number: u64,
    /// Its number in its extent.
    pub(crate) nth: u64,
    pub(crate) bytes: &'a [u8],
}

impl Unit<'_> {
    /// Word `index`.
    pub(crate) fn word(&self, index: u64) -> u64 {
        self.fixed(index * WORD)
    }

    /// What begins at byte `at`.
    pub(crate) fn fixed<T: Fixed>(&self, at: u64) -> T {
        let bytes = self.bytes.get(at as usize..).unwrap_or_default();
        T::of_words(|index| {
            let mut word = [0; WORD as usize];
            let rest = bytes.get(index * word.len()..).unwrap_or_default();
            let len = rest.len().min(word.len());
            word[..len].copy_from_slice(&rest[..len]);
            u64::from_le_bytes(word)
        })
    }
}

impl<'a> Wreck<'a> {
    /// What is left of a pool with this superblock.
    pub fn new(remains: &'a dyn Remains, superblock: &'a Superblock) -> Wreck<'a> {
        let hasher = Hasher::new(superblock.hash_seed);
        Wreck { superblock, hasher, remains, unread_bytes: 0 }
    }

    /// Bytes of tables that are missing or could not be read, so far.
    pub fn unread_bytes(&self) -> u64 {
        self.unread_bytes
    }

    /// The extents of an owner, in the order of their indices.
    pub(crate) fn extents(&self, owner: u8) -> Vec<Extent> {
        let of_owner = |extent: &&Extent| extent.owner == owner;
        let mut extents: Vec<Extent> =
            self.superblock.extents.iter().filter(of_owner).copied().collect();
        extents.sort_by_key(|extent| extent.index);
        extents
    }

    /// Calls `visit` for each unit of this many bytes in extents of an owner. Unreadable bytes are zeros.
    pub(crate) fn for_each_unit(
        &mut self,
        extents: &[Extent],
        unit_bytes: u64,
        mut visit: impl FnMut(Unit<'_>),
    ) {
        let mut first = 0;
        let mut chunk = Vec::new();
        for extent in extents {
            let units = extent.bytes / unit_bytes;
            let there = self.remains.len().saturating_sub(extent.start.0) / unit_bytes;
            let present = units.min(there);
            self.unread_bytes += (units - present).saturating_mul(unit_bytes);
            let at_once = (CHUNK_BYTES / unit_bytes).max(1);
            for begin in (0..present).step_by(at_once as usize) {
                let count = at_once.min(present - begin);
                chunk.clear();
                chunk.resize((count * unit_bytes) as usize, 0);
                let at = extent.start.add(begin * unit_bytes);
                self.read(at, &mut chunk);
                for (nth, bytes) in (begin..).zip(chunk.chunks_exact(unit_bytes as usize)) {
                    visit(Unit {
                        at: extent.start.add(nth * unit_bytes),
                        number: first + nth,
                        nth,
                        bytes,
                    });
                }
            }
            first += units;
        }
    }

    /// Reads what can be read, and leaves zeros for the rest.
    fn read(&mut self, at: Offset, bytes: &mut [u8]) {
        if self.remains.read(at.0, bytes) {
            return;
        }
        for (from, page) in (at.0..).step_by(PAGE_BYTES).zip(bytes.chunks_mut(PAGE_BYTES)) {
            if !self.remains.read(from, page) {
                page.fill(0);
                self.unread_bytes += page.len() as u64;
            }
        }
    }

    /// The word at an offset, if it can be read.
    pub(crate) fn word(&self, at: Offset) -> Option<u64> {
        let mut word = [0; WORD as usize];
        self.remains.read(at.0, &mut word).then(|| u64::from_le_bytes(word))
    }
}

/// log2 of how many units of this many bytes the extents have together, if that is a power of two.
pub(crate) fn units_log2(extents: &[Extent], unit_bytes: u64) -> Option<u32> {
    let units: u64 = extents.iter().map(|extent| extent.bytes / unit_bytes).sum();
    units.is_power_of_two().then(|| units.ilog2())
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(LINE) && PAGE_BYTES as u64 <= CHUNK_BYTES);
