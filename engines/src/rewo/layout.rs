//! What lies where: buckets in the pool, a record for each in the sidecar.
//!
//! ```text
//! pool, bucket of 256 bytes, aligned to them
//!   | meta | item 0 | item 1 | … | item S-1 |       item = key, value, packed
//!     one word, or two if every item then lies in one line (the second is not used)
//!
//! meta, S slots with fingerprints of F bits
//!    … 2S+F            2S … S    S … 0
//!   | fingerprint per slot | lockmap | bitmap |
//!
//! sidecar, four words per bucket
//!   | version, LOCK | fingerprints of slots 0 to 7 | of slots 8 to 14 | mark |
//! ```
//!
//! The fingerprints of the sidecar are bytes, 0 for an empty slot; those of the pool are the low bits of these.
//! Buckets of all data tables are numbered together: the first table has the lowest numbers, and each further
//! table as many as all before it.

pub(super) use crate::kit::buckets::LOCK;
use crate::kit::packed::Packed;
use index::Fixed;
use index::fingerprint::match_two_words;
use pmem::sync::{AtomicU64, Ordering};
use pmem::{LINE, Medium, Offset, WORD};
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of a bucket: those of a block of Optane-like media.
pub(super) const BUCKET_BYTES: u64 = 256;
/// Most slots of a bucket.
pub const SLOTS_MAX: u32 = 15;
/// Most bits of a fingerprint.
const PRINT_BITS_MAX: u32 = 8;

/// One version; every change of what a bucket shows is a new one.
pub(super) const VERSION: u64 = 1 << 2;

/// Words of a bucket's record.
pub(super) const RECORD_WORDS: usize = 4;
/// Word of a record: the version and the lock.
pub(super) const STATE: usize = 0;
/// Words of a record: the fingerprints, two of them.
pub(super) const PRINTS: usize = 1;
/// Word of a record: the resize in which the bucket was emptied last.
pub(super) const MARK: usize = 3;
/// What the sidecar has of a bucket.
pub(super) type Record = [AtomicU64; RECORD_WORDS];

/// The state in a record, and the fingerprints, which are loaded after it.
#[inline(always)]
pub(super) fn state_and_prints(record: &Record) -> (u64, [u64; 2]) {
    let load = |word: usize| record[word].load(Ordering::Acquire);
    let state = load(STATE);
    (state, [load(PRINTS), load(PRINTS + 1)])
}

/// Engine parameter: the slots of a bucket, and log2 of the buckets of the first table.
pub(super) const PARAM_SIZES: usize = 0;
/// Engine parameter: the design decisions in force.
pub(super) const PARAM_DESIGN: usize = 1;
/// Engine parameter: how large the cached table is.
pub(super) const PARAM_CACHE: usize = 2;

/// The bytes of a bucket whose items are a `K` and a `V`.
#[derive(Debug)]
pub(super) struct Bucket<K, V> {
    pub(super) slots: u32,
    /// Byte at which the first item begins.
    first: u64,
    print_bits: u32,
    pair: PhantomData<fn() -> (K, V)>,
}

/// Most slots of a bucket for pairs of this many bytes.
pub(super) const fn slots_for(pair_bytes: u64) -> u32 {
    let fitting = (BUCKET_BYTES - WORD) / if pair_bytes == 0 { 1 } else { pair_bytes };
    if fitting < SLOTS_MAX as u64 { fitting as u32 } else { SLOTS_MAX }
}

impl<K: Fixed, V: Fixed> Bucket<K, V> {
    #[inline(always)]
    pub(super) fn item_bytes() -> u64 {
        Packed::<K, V>::item_bytes()
    }

    pub(super) fn new(slots: u32) -> Result<Self, String> {
        if K::layout_bytes() == 0 || slots == 0 || slots > slots_for(Self::item_bytes()) {
            return Err(format!(
                "{slots} items of {} and {} bytes; a bucket holds 1 to {}, and a key has at least one byte",
                K::layout_bytes(),
                V::layout_bytes(),
                slots_for(Self::item_bytes())
            ));
        }
        let items = u64::from(slots) * Self::item_bytes();
        // So that no item lies across two lines.
        let is_aligned = LINE.is_multiple_of(Self::item_bytes()) && Self::item_bytes() == 2 * WORD;
        let first = if is_aligned && 2 * WORD + items <= BUCKET_BYTES { 2 * WORD } else { WORD };
        let print_bits = ((u64::BITS - 2 * slots) / slots).min(PRINT_BITS_MAX);
        Ok(Bucket { slots, first, print_bits, pair: PhantomData })
    }

    /// The bits of the bitmap of a full bucket.
    #[inline(always)]
    pub(super) fn full(&self) -> u64 {
        (1 << self.slots) - 1
    }

    /// The slots in use.
    #[inline(always)]
    pub(super) fn bitmap(&self, meta: u64) -> u64 {
        meta & self.full()
    }

    /// The slots whose items were being moved elsewhere.
    #[inline(always)]
    pub(super) fn lockmap(&self, meta: u64) -> u64 {
        meta >> self.slots & self.full()
    }

    /// The lock bits of slots.
    pub(super) fn lock_bits(&self, slots: u64) -> u64 {
        slots << self.slots
    }

    /// The bits of a meta word that no bucket has.
    pub(super) fn is_meta(&self, meta: u64) -> bool {
        let used = self.slots * (2 + self.print_bits);
        used >= u64::BITS || meta >> used == 0
    }

    /// The meta word with an item in `slot`.
    #[inline(always)]
    pub(super) fn with(&self, meta: u64, slot: usize, print: u8) -> u64 {
        let mask = (1 << self.print_bits) - 1;
        let shift = self.print_shift(slot);
        meta & !(mask << shift) | (u64::from(print) & mask) << shift | 1 << slot
    }

    /// Whether the fingerprint in a meta word may be this one.
    pub(super) fn has_print(&self, meta: u64, slot: usize, print: u8) -> bool {
        let mask = (1 << self.print_bits) - 1;
        meta >> self.print_shift(slot) & mask == u64::from(print) & mask
    }

    #[inline(always)]
    fn print_shift(&self, slot: usize) -> u32 {
        2 * self.slots + slot as u32 * self.print_bits
    }

    /// The slots with this fingerprint, of a record's two words of fingerprints.
    #[inline(always)]
    pub(super) fn slots_with(&self, prints: [u64; 2], print: u8) -> u64 {
        u64::from(match_two_words(prints, print)) & self.full()
    }

    /// The empty slots.
    #[inline(always)]
    pub(super) fn empty(&self, prints: [u64; 2]) -> u64 {
        self.slots_with(prints, 0)
    }

    /// Byte of the bucket at which the item in `slot` begins.
    #[inline(always)]
    pub(super) fn item_at(&self, slot: usize) -> u64 {
        let first = if Packed::<K, V>::are_whole_words() && Self::item_bytes() == 2 * WORD {
            2 * WORD
        } else {
            self.first
        };
        first + slot as u64 * Self::item_bytes()
    }

    /// The bytes of the item in `slot` that are not in the line of the meta word.
    #[inline(always)]
    pub(super) fn beyond_meta(&self, slot: usize) -> Range<u64> {
        let at = self.item_at(slot);
        at.max(LINE)..(at + Self::item_bytes()).max(LINE)
    }

    /// The word that is the value in `slot`, if one word it is.
    #[inline(always)]
    pub(super) fn value_word(&self, at: Offset, slot: usize) -> Option<Offset> {
        Packed::<K, V>::value_word(at, self.item_at(slot))
    }

    /// The key in `slot`.
    #[inline(always)]
    pub(super) fn key<M: Medium>(&self, medium: &M, at: Offset, slot: usize) -> K {
        Packed::<K, V>::key(medium, at, self.item_at(slot))
    }

    /// Whether the key in `slot` is this one.
    #[inline(always)]
    pub(super) fn has_key<M: Medium>(&self, medium: &M, at: Offset, slot: usize, key: K) -> bool {
        Packed::<K, V>::has_key(medium, at, self.item_at(slot), key)
    }

    /// The key and the value in `slot`.
    #[inline(always)]
    pub(super) fn pair<M: Medium>(&self, medium: &M, at: Offset, slot: usize) -> (K, V) {
        Packed::<K, V>::pair(medium, at, self.item_at(slot))
    }

    /// The value in `slot`.
    #[inline(always)]
    pub(super) fn value<M: Medium>(&self, medium: &M, at: Offset, slot: usize) -> V {
        Packed::<K, V>::value(medium, at, self.item_at(slot))
    }

    /// Stores the item into `slot`. Neighbours' bytes stay as they are; the bucket is locked.
    #[track_caller]
    pub(super) fn fill<M: Medium>(
        &self,
        medium: &M,
        at: Offset,
        slot: usize,
        (key, value): (K, V),
    ) {
        Packed::fill(medium, at, self.item_at(slot), key, value);
    }
}
