//! What lies where: buckets in the pool, a word for each in the sidecar.
//!
//! ```text
//! pool, bucket of S slots, aligned to a line
//!   | tokens | item 0 | item 1 | … | item S-1 | - |      item = key, value, packed
//!     8 bytes; 4 or 1 where that saves a line or puts one more item into the first line
//!
//! sidecar, a word per bucket
//!    63 … 32               31 … 2      1         0
//!   | fingerprint per slot | version | WRITING | LOCK |   0: the slot is empty
//!
//!   a byte each; if there are more than 4 slots, slots 0 to 3 have the low halves of the bytes, and
//!   slots 4 to 7 the high ones
//! ```
//!
//! Level *l* has `1 << l` buckets, in one extent; in the sidecar its words begin at index `1 << l`, so that no two
//! levels share one.

pub(super) use crate::kit::buckets::LOCK;
use crate::kit::hash::Hash;
use crate::kit::packed::Packed;
use index::Fixed;
use index::fingerprint::{Isa, match_upper_halves};
use pmem::{LINE, Medium, Offset, WORD};
use std::cmp::Reverse;
use std::marker::PhantomData;
use std::ops::Range;

/// One version; every change of the fingerprints, or of a value of several words, is a new one.
const VERSION: u64 = 1 << 2;
/// Where the fingerprints begin.
const PRINTS_SHIFT: u32 = 32;

/// Owner of the extents of levels; their index is the level.
pub(super) const BUCKETS: u8 = 1;
/// Owner of the extent with the log.
pub(super) const LOG: u8 = 2;

/// Engine roots: the top level, and what resize is under way.
pub(super) const ROOT_TOP: usize = 0;
pub(super) const ROOT_RESIZE: usize = 1;
/// Engine root: the lowest level that may hold items.
pub(super) const ROOT_LOWEST: usize = 2;

/// Engine parameter: the slots of a bucket, and log2 of the buckets that the top level begins with.
pub(super) const PARAM_SIZES: usize = 0;
/// Engine parameter: the design decisions in force.
pub(super) const PARAM_DESIGN: usize = 1;

/// Highest level: a hash has 32 bits for each choice of a bucket.
pub(super) const LEVEL_MAX: u32 = 32;

/// Most slots of a bucket.
pub const SLOTS_MAX: u32 = 8;

/// Fewest bytes for tokens.
pub(super) const TOKENS_BYTES_MIN: u64 = 1;
/// Most bytes of a bucket.
pub(super) const BUCKET_BYTES_MAX: u64 = 512;

/// Which bucket of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BucketId {
    pub(super) level: u32,
    /// Index of its word in the sidecar.
    pub(super) word: u64,
}

impl BucketId {
    /// The bucket of a level that the low bits of `choice` choose.
    #[inline(always)]
    pub(super) fn new(level: u32, choice: u64) -> BucketId {
        let buckets = 1 << level;
        BucketId { level, word: choice & (buckets - 1) | buckets }
    }

    /// The bucket whose word has this index.
    pub(super) fn of_word(word: u64) -> BucketId {
        BucketId { level: word.ilog2(), word }
    }

    /// Its number in the level.
    #[inline(always)]
    pub(super) fn index(self) -> u64 {
        self.word ^ 1 << self.level
    }
}

impl std::fmt::Display for BucketId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "level {}, bucket {}", self.level, self.index())
    }
}

/// The bytes of a bucket whose items are a `K` and a `V`.
#[derive(Debug)]
pub(super) struct Bucket<K, V> {
    pub(super) slots: u32,
    tokens_bytes: u64,
    pub(super) bytes: u64,
    /// The largest fingerprint, which is all bits of one.
    prints: u64,
    /// The highest bit of each fingerprint, of those of the slots 0 to 3, and all other bits.
    highs: u32,
    lower_highs: u32,
    others: u32,
    pair: PhantomData<fn() -> (K, V)>,
}

impl<K: Fixed, V: Fixed> Bucket<K, V> {
    #[inline(always)]
    pub(super) fn item_bytes() -> u64 {
        Packed::<K, V>::item_bytes()
    }

    #[inline(always)]
    fn are_whole_words() -> bool {
        Packed::<K, V>::are_whole_words()
    }

    pub(super) fn new(slots: u32) -> Result<Self, String> {
        let bytes = |tokens_bytes: u64| {
            (tokens_bytes + u64::from(slots) * Self::item_bytes()).next_multiple_of(LINE)
        };
        // Slots in the line of the tokens: changing one takes one flush and one fence.
        let near = |tokens_bytes: u64| (LINE - tokens_bytes) / Self::item_bytes().max(1);
        let tokens_bytes = if Self::are_whole_words() {
            WORD
        } else {
            let cost = |&bytes_of: &u64| (bytes(bytes_of), Reverse(near(bytes_of)));
            [WORD, 4, TOKENS_BYTES_MIN].into_iter().min_by_key(cost).unwrap_or(WORD)
        };
        if bytes(tokens_bytes) > BUCKET_BYTES_MAX || K::layout_bytes() == 0 {
            return Err(format!(
                "{slots} items of {} and {} bytes need {} bytes; a bucket has at most \
                 {BUCKET_BYTES_MAX}, and a key at least one",
                K::layout_bytes(),
                V::layout_bytes(),
                bytes(tokens_bytes)
            ));
        }
        let is_byte = slots <= 4;
        let (prints, high) = if is_byte { (0xff, 1 << 7) } else { (0xf, 1 << 3) };
        let highs = (0..slots).map(|slot| high << lane_shift(slot as usize)).sum();
        Ok(Bucket {
            slots,
            tokens_bytes,
            bytes: bytes(tokens_bytes),
            prints,
            highs,
            lower_highs: high * 0x0101_0101,
            others: if is_byte { 0x7f7f_7f7f } else { 0x7777_7777 },
            pair: PhantomData,
        })
    }

    /// The base of a level that begins at `start`: buckets lie as far apart from it as their words in
    /// the sidecar from index 0.
    pub(super) fn base(&self, level: u32, start: Offset) -> u64 {
        start.0.wrapping_sub(self.bytes << level)
    }

    /// The tokens of a full bucket.
    #[inline(always)]
    pub(super) fn full(&self) -> u64 {
        (1 << self.slots) - 1
    }

    /// The bits of a bucket's first word that are for tokens, of slots that it has or not.
    pub(super) fn token_bits(&self) -> u64 {
        (1 << (8 * self.tokens_bytes.min(7))) - 1
    }

    /// The fingerprint of a key with this hash. Not 0.
    #[inline(always)]
    pub(super) fn print(&self, hash: Hash) -> u64 {
        hash.print_to(self.prints)
    }

    /// The slots of four words with this fingerprint, which [`slot_of_four`] names.
    #[inline(always)]
    pub(super) fn slots_with(&self, words: &[u64; 4], print: u64) -> u32 {
        let print = print as u8;
        if self.prints == 0xff {
            return match_upper_halves(Isa::Sse2, words, print);
        }
        let low_halves = words.map(|word| word & 0x0f0f_0f0f << PRINTS_SHIFT);
        let high_halves = words.map(|word| word >> 4 & 0x0f0f_0f0f << PRINTS_SHIFT);
        let [low, high] =
            [low_halves, high_halves].map(|words| match_upper_halves(Isa::Sse2, &words, print));
        low | high << 16
    }

    /// The highest bits of the fingerprints that are 0.
    #[inline(always)]
    fn empty(&self, word: u64) -> u32 {
        let prints = (word >> PRINTS_SHIFT) as u32;
        // The sum has a fingerprint's highest bit unless all others are 0; no carry leaves it.
        !(((prints & self.others) + self.others) | prints) & self.highs
    }

    /// The lowest empty slot, if the word says that there is one. (If any is in the line of the
    /// tokens, it is; that saves a flush.)
    #[inline(always)]
    pub(super) fn empty_slot(&self, word: u64) -> Option<usize> {
        let empty = self.empty(word);
        let lower = empty & self.lower_highs;
        let byte_of = |high: u32| (high.trailing_zeros() >> 3) as usize;
        match lower {
            0 => (empty != 0).then(|| 4 + byte_of(empty)),
            _ => Some(byte_of(lower)),
        }
    }

    /// The number of empty slots.
    #[inline(always)]
    pub(super) fn empty_slots(&self, word: u64) -> u32 {
        let empty = self.empty(word);
        // A sum of bytes; baseline processors have no instruction that counts bits.
        let bytes = (empty >> 7 & 0x0101_0101) + (empty >> 3 & 0x0101_0101);
        bytes.wrapping_mul(0x0101_0101) >> 24
    }

    /// The number of items.
    pub(super) fn count(&self, word: u64) -> u32 {
        self.slots - self.empty_slots(word)
    }

    /// The fingerprint in a slot.
    pub(super) fn print_in(&self, word: u64, slot: usize) -> u64 {
        word >> (PRINTS_SHIFT + lane_shift(slot)) & self.prints
    }

    /// The word with a fingerprint in a slot that is empty.
    #[inline(always)]
    pub(super) fn with(&self, word: u64, slot: usize, print: u64) -> u64 {
        word | print << (PRINTS_SHIFT + lane_shift(slot))
    }

    /// The word without the fingerprint of a slot.
    #[inline(always)]
    pub(super) fn without(&self, word: u64, slot: usize) -> u64 {
        word & !(self.prints << (PRINTS_SHIFT + lane_shift(slot)))
    }

    /// Byte of the bucket at which the item in `slot` begins.
    #[inline(always)]
    pub(super) fn item_at(&self, slot: usize) -> u64 {
        let tokens_bytes = if Self::are_whole_words() { 8 } else { self.tokens_bytes };
        tokens_bytes + slot as u64 * Self::item_bytes()
    }

    /// The bytes of the item in `slot` that are not in the line of the tokens.
    #[inline(always)]
    pub(super) fn beyond_tokens(&self, slot: usize) -> Range<u64> {
        let at = self.item_at(slot);
        at.max(LINE)..(at + Self::item_bytes()).max(LINE)
    }

    /// The word that is the value in `slot`, if one word it is.
    #[inline(always)]
    pub(super) fn value_word(&self, bucket: Offset, slot: usize) -> Option<Offset> {
        Packed::<K, V>::value_word(bucket, self.item_at(slot))
    }

    /// The key in `slot`, in as many steps as it has words.
    #[inline(always)]
    pub(super) fn key<M: Medium>(&self, medium: &M, bucket: Offset, slot: usize) -> K {
        Packed::<K, V>::key(medium, bucket, self.item_at(slot))
    }

    /// Whether the key in `slot` is this one.
    #[inline(always)]
    pub(super) fn has_key<M: Medium>(
        &self,
        medium: &M,
        bucket: Offset,
        slot: usize,
        key: K,
    ) -> bool {
        Packed::<K, V>::has_key(medium, bucket, self.item_at(slot), key)
    }

    /// The key and the value in `slot`.
    #[inline(always)]
    pub(super) fn pair<M: Medium>(&self, medium: &M, bucket: Offset, slot: usize) -> (K, V) {
        Packed::<K, V>::pair(medium, bucket, self.item_at(slot))
    }

    /// As [`Bucket::key`].
    #[inline(always)]
    pub(super) fn value<M: Medium>(&self, medium: &M, bucket: Offset, slot: usize) -> V {
        Packed::<K, V>::value(medium, bucket, self.item_at(slot))
    }

    /// Stores the item into `slot`. Neighbours' bytes stay as they are; the bucket is locked.
    #[track_caller]
    pub(super) fn fill<M: Medium>(
        &self,
        medium: &M,
        bucket: Offset,
        slot: usize,
        key: K,
        value: V,
    ) {
        Packed::fill(medium, bucket, self.item_at(slot), key, value);
    }

    /// Stores the value into `slot`; as [`Bucket::fill`].
    #[track_caller]
    pub(super) fn fill_value<M: Medium>(&self, medium: &M, bucket: Offset, slot: usize, value: V) {
        Packed::<K, V>::fill_value(medium, bucket, self.item_at(slot), value);
    }
}

/// How far a slot's fingerprint lies above the lowest.
#[inline(always)]
const fn lane_shift(slot: usize) -> u32 {
    (slot as u32 & 3) * 8 + (slot as u32 >> 2) * 4
}

/// The number of a word among four, and the slot, for a bit number of [`Bucket::slots_with`].
#[inline(always)]
pub(super) fn slot_of_four(bit: u32) -> (usize, usize) {
    ((bit >> 2 & 3) as usize, (bit & 3 | bit >> 2 & 4) as usize)
}

/// A bucket's word in its next version.
#[inline(always)]
pub(super) fn next_version(word: u64) -> u64 {
    let low = (1 << PRINTS_SHIFT) - 1;
    word & !low | word.wrapping_add(VERSION) & low
}

/// Whether the version of a bucket's word is the first one.
#[inline(always)]
pub(super) fn is_first_version(word: u64) -> bool {
    word & ((1 << PRINTS_SHIFT) - VERSION) == 0
}
