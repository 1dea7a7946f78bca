//! What lies where: buckets and the stash's nodes in the pool, a record for each bucket in the sidecar.
//!
//! ```text
//! pool, bucket of two lines, of pairs of a word and a word
//!   | key 0 | value 0 | key 1 | value 1 | … | key 7 | value 7 |        key 0: the slot is empty
//!
//! pool, bucket of two lines, of other pairs
//!   | bitmap | item 0 | item 1 | … |                                   item = key, value, packed
//!
//! pool, node of the stash, of pairs of a word and a word
//!   | key | value |                          key 0: the node is free; the two nodes of the key 0 have 1 there
//!
//! pool, node of the stash, of other pairs
//!   | state | item |                                                   state 1: in use
//!
//! sidecar, two words per bucket
//!    63 … 35   34 … 3       2         1        0
//!   | mark   | version | STASHED | WRITING | LOCK |    | fingerprints of slots 0 to 7 |
//! ```
//!
//! A fingerprint is a byte, 0 for an empty slot. Buckets of all data tables are numbered together: the first table
//! has the lowest numbers, and each further table as many as all before it. So are the stash's nodes.

pub(super) use crate::kit::buckets::LOCK;
use crate::kit::packed::Packed;
use index::fingerprint::{EMPTY, match_two_words, match_word};
use index::{Fixed, are_words};
use pmem::sync::{AtomicU64, Ordering};
use pmem::{LINE, Medium, Offset, WORD};
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of a bucket: two lines, the paper's choice (section 4.1).
pub(super) const BUCKET_BYTES: u64 = 2 * LINE;
/// Most slots of a bucket.
pub const SLOTS_MAX: u32 = 8;

/// The stash has a node of a key whose first choice the bucket is.
pub(super) const STASHED: u64 = 1 << 2;
/// One version; every change of what a bucket shows is a new one.
const VERSION: u64 = 1 << 3;
/// Where the mark begins: the resize in which the bucket was emptied last.
const MARK_SHIFT: u32 = 35;
const VERSION_MASK: u64 = (1 << MARK_SHIFT) - VERSION;

/// Words of a bucket's record.
pub(super) const RECORD_WORDS: usize = 2;
/// Word of a record: the state.
pub(super) const STATE: usize = 0;
/// Word of a record: the fingerprints.
pub(super) const PRINTS: usize = 1;
/// What the sidecar has of a bucket.
pub(super) type Record = [AtomicU64; RECORD_WORDS];

/// First word of a node in use, unless that is its key.
const IN_USE: u64 = 1;
/// The first nodes of the stash, which only the key 0 takes, of pairs of words: two, since a resize copies it.
pub(super) const NODES_OF_ZERO: u64 = 2;

/// Owner of the extents of the stash; their index is that of the data table that they came with.
pub(super) const STASH_OWNER: u8 = 4;
/// Engine parameter: the slots of a bucket, and log2 of the buckets of the first table.
pub(super) const PARAM_SIZES: usize = 0;
/// Engine parameter: the design decisions in force.
pub(super) const PARAM_DESIGN: usize = 1;
/// Engine parameter: the stash, in hundredths of the table.
pub(super) const PARAM_STASH: usize = 2;

/// Most buckets, as log2: a link of the stash has 32 bits for a bucket.
pub(super) const LOG2_MAX: u32 = crate::kit::doubling::LOG2_MAX - 1;
/// Most data tables.
pub(super) const TABLES_MAX: usize = LOG2_MAX as usize + 1;

/// Bit of a word of a stash's node at which begins which of its chain's buckets it belongs to; the bits before are a
/// link.
pub(super) const OWNER_SHIFT: u32 = 28;
/// Most nodes of a stash, for which a link has bits. Larger tables have a smaller part of them.
pub(super) const NODES_MAX: u64 = (1 << OWNER_SHIFT) - 2;

/// The state in a record, and the fingerprints, which are loaded after it.
#[inline(always)]
pub(super) fn state_and_prints(record: &Record) -> (u64, u64) {
    let state = record[STATE].load(Ordering::Acquire);
    (state, record[PRINTS].load(Ordering::Acquire))
}

/// The state with the next version.
#[inline(always)]
pub(super) fn with_new_version(state: u64) -> u64 {
    state & !VERSION_MASK | state.wrapping_add(VERSION) & VERSION_MASK
}

/// The state of a bucket that was emptied in the resize of this generation.
pub(super) fn with_mark(state: u64, generation: u64) -> u64 {
    state & !(u64::MAX << MARK_SHIFT) | generation << MARK_SHIFT
}

/// Whether the state says that the bucket was emptied in the resize of this generation.
pub(super) fn has_mark(state: u64, generation: u64) -> bool {
    state >> MARK_SHIFT == generation << MARK_SHIFT >> MARK_SHIFT
}

/// The bytes of a bucket whose items are a `K` and a `V`.
#[derive(Debug)]
pub(super) struct Bucket<K, V> {
    pub(super) slots: u32,
    pair: PhantomData<fn() -> (K, V)>,
}

/// Most slots of a bucket for pairs of this many bytes. `words`: whether key and value are a word each.
pub(super) const fn slots_for(pair_bytes: u64, words: bool) -> u32 {
    let bytes = if words { BUCKET_BYTES } else { BUCKET_BYTES - WORD };
    let fitting = bytes / if pair_bytes == 0 { 1 } else { pair_bytes };
    if fitting < SLOTS_MAX as u64 { fitting as u32 } else { SLOTS_MAX }
}

impl<K: Fixed, V: Fixed> Bucket<K, V> {
    /// Key and value are a word each: a slot is in use if its key is not 0, and there is no bitmap.
    pub(super) const WORDS: bool = are_words::<K, V>();

    #[inline(always)]
    pub(super) fn item_bytes() -> u64 {
        Packed::<K, V>::item_bytes()
    }

    pub(super) fn new(slots: u32) -> Result<Self, String> {
        let most = slots_for(Self::item_bytes(), Self::WORDS);
        if K::layout_bytes() == 0 || slots == 0 || slots > most {
            return Err(format!(
                "{slots} items of {} and {} bytes; a bucket holds 1 to {most}, and a key has at least one byte",
                K::layout_bytes(),
                V::layout_bytes(),
            ));
        }
        Ok(Bucket { slots, pair: PhantomData })
    }

    /// The bits of all slots.
    #[inline(always)]
    pub(super) fn full(&self) -> u64 {
        (1 << self.slots) - 1
    }

    /// Whether a key can be in a slot: a word that is 0 cannot.
    #[inline(always)]
    pub(super) fn takes(key: K) -> bool {
        !Self::WORDS || key.word(0) != 0
    }

    /// The slots in use.
    pub(super) fn bitmap<M: Medium>(&self, medium: &M, at: Offset) -> u64 {
        if Self::WORDS {
            let is_used = |slot: &u32| medium.load(at.add(self.item_at(*slot as usize))) != 0;
            return (0..self.slots).filter(is_used).fold(0, |slots, slot| slots | 1 << slot);
        }
        medium.load(at) & self.full()
    }

    /// Whether a slot is in use and has this key.
    #[inline(always)]
    pub(super) fn has_key<M: Medium>(&self, medium: &M, at: Offset, slot: usize, key: K) -> bool {
        (Self::WORDS || medium.load(at) & 1 << slot != 0)
            && Packed::<K, V>::has_key(medium, at, self.item_at(slot), key)
    }

    /// The slots that can have a key, as one word tells: with a look for each slot a key could be in none, which goes
    /// from one slot to another. Of words each key tells for itself.
    #[inline(always)]
    pub(super) fn in_use<M: Medium>(&self, medium: &M, at: Offset) -> u64 {
        if Self::WORDS { self.full() } else { medium.load(at) & self.full() }
    }

    /// The slots with this fingerprint, of a record's word of fingerprints.
    #[inline(always)]
    pub(super) fn slots_with(&self, prints: u64, print: u8) -> u64 {
        u64::from(match_word::<0>(prints, print)) & self.full()
    }

    /// The empty slots.
    #[inline(always)]
    pub(super) fn empty(&self, prints: u64) -> u64 {
        self.slots_with(prints, EMPTY)
    }

    /// The slots of two buckets with this fingerprint; those of the second one begin at bit 8.
    #[inline(always)]
    pub(super) fn slots_of_two_with(&self, prints: [u64; 2], print: u8) -> u32 {
        let full = self.full() as u32;
        match_two_words(prints, print) & (full | full << SLOTS_MAX)
    }

    /// Byte of the bucket at which the item in `slot` begins.
    #[inline(always)]
    pub(super) fn item_at(&self, slot: usize) -> u64 {
        let first = if Self::WORDS { 0 } else { WORD };
        first + slot as u64 * Self::item_bytes()
    }

    /// The bytes of the item in `slot` that are not in the line of the bitmap; none if there is no bitmap.
    #[inline(always)]
    pub(super) fn beyond_bitmap(&self, slot: usize) -> Range<u64> {
        let at = self.item_at(slot);
        if Self::WORDS { at..at } else { at.max(LINE)..(at + Self::item_bytes()).max(LINE) }
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

    /// The key and the value in `slot`.
    #[inline(always)]
    pub(super) fn pair<M: Medium>(&self, medium: &M, at: Offset, slot: usize) -> (K, V) {
        Packed::<K, V>::pair(medium, at, self.item_at(slot))
    }

    /// Stores the item into `slot`. Neighbours' bytes stay as they are; the bucket is locked.
    ///
    /// Of words the value first, and the key only after it, in one line: a key that survives a crash has its value.
    /// The value only after what stood here before: a displaced key is erased, and the slot filled again, without a
    /// fence in between.
    #[inline(always)]
    pub(super) fn fill<M: Medium>(
        &self,
        medium: &M,
        at: Offset,
        slot: usize,
        (key, value): (K, V),
    ) {
        if Self::WORDS {
            let at = at.add(self.item_at(slot));
            medium.store_release(at.word(1), value.word(0));
            medium.store_release(at, key.word(0));
        } else {
            Packed::fill(medium, at, self.item_at(slot), key, value);
        }
    }
}

/// A node of the stash that holds a `K` and a `V`. Its first word tells whether it does: 0 if not.
pub(super) struct Node<K, V>(PhantomData<fn() -> (K, V)>);

impl<K: Fixed, V: Fixed> Node<K, V> {
    /// Byte at which the item begins.
    pub(super) const ITEM: u64 = if are_words::<K, V>() { 0 } else { WORD };

    /// Bytes of a node; one of words is in one line.
    #[inline(always)]
    pub(super) fn bytes() -> u64 {
        (Self::ITEM + Packed::<K, V>::item_bytes()).next_multiple_of(WORD)
    }

    /// The first word of a node in use: a key that a slot could have tells for itself.
    #[inline(always)]
    pub(super) fn in_use(key: K) -> u64 {
        if Bucket::<K, V>::WORDS && Bucket::<K, V>::takes(key) { key.word(0) } else { IN_USE }
    }

    /// Whether that is the first word of a node in use.
    #[inline(always)]
    pub(super) fn is_in_use(node: u64, word: u64) -> bool {
        if Self::has_own_key(node) { word != 0 } else { word == IN_USE }
    }

    /// Whether the key of a node is its first word.
    #[inline(always)]
    pub(super) fn has_own_key(node: u64) -> bool {
        Bucket::<K, V>::WORDS && node >= NODES_OF_ZERO
    }

    /// Whether the node at an offset is in one line.
    #[inline(always)]
    pub(super) fn is_in_one_line(at: Offset) -> bool {
        at.0 / LINE == (at.0 + Self::bytes() - 1) / LINE
    }
}
