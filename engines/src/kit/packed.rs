//! Keys and values of fixed sizes, packed into buckets: bytes at any offset, read and written as words.

use index::hash::Hasher;
use index::{Fixed, is_same};
use pmem::{Medium, Offset, WORD};
use std::marker::PhantomData;

/// Most bytes of a key.
const KEY_BYTES_MAX: usize = 512;

/// The second output of the hash functions for a key.
#[inline(always)]
pub(crate) fn second_of<K: Fixed>(hasher: &Hasher, key: K) -> u64 {
    if K::layout_bytes() == 8 {
        return hasher.second_u64(key.word(0));
    }
    let mut bytes = [0; KEY_BYTES_MAX];
    let (words, _) = bytes.as_chunks_mut::<8>();
    for (index, word) in words.iter_mut().enumerate().take(K::layout_bytes().div_ceil(8)) {
        *word = key.word(index).to_le_bytes();
    }
    hasher.second_bytes(&bytes[..K::layout_bytes()])
}

/// Items that are a `K` and then a `V`. The place of one is given by the bucket and the byte of the bucket at which it
/// begins.
pub(crate) struct Packed<K, V>(PhantomData<fn() -> (K, V)>);

impl<K: Fixed, V: Fixed> Packed<K, V> {
    #[inline(always)]
    pub(crate) fn item_bytes() -> u64 {
        (K::layout_bytes() + V::layout_bytes()) as u64
    }

    /// Whether every key and value begins at a word and ends at one, if the first item does.
    #[inline(always)]
    pub(crate) fn are_whole_words() -> bool {
        K::layout_bytes().is_multiple_of(8) && V::layout_bytes().is_multiple_of(8)
    }

    /// The word that is an item's value, if one word it is.
    #[inline(always)]
    pub(crate) fn value_word(bucket: Offset, at: u64) -> Option<Offset> {
        let at = at + K::layout_bytes() as u64;
        (V::layout_bytes() == 8 && at.is_multiple_of(WORD)).then(|| bucket.add(at))
    }

    /// An item's key, in as many steps as it has words.
    #[inline(always)]
    pub(crate) fn key<M: Medium>(medium: &M, bucket: Offset, at: u64) -> K {
        K::of_words(|index| Self::word(medium, bucket, at, index, K::layout_bytes()))
    }

    /// Whether an item's key is this one.
    #[inline(always)]
    pub(crate) fn has_key<M: Medium>(medium: &M, bucket: Offset, at: u64, key: K) -> bool {
        is_same(Self::key(medium, bucket, at), key)
    }

    /// An item.
    #[inline(always)]
    pub(crate) fn pair<M: Medium>(medium: &M, bucket: Offset, at: u64) -> (K, V) {
        if Self::are_whole_words() && Self::item_bytes() == 2 * WORD {
            let pair = medium.load_two(bucket.add(at));
            let value_at = K::layout_bytes() / WORD as usize;
            return (K::of_words(|index| pair[index]), V::of_words(|index| pair[value_at + index]));
        }
        (Self::key(medium, bucket, at), Self::value(medium, bucket, at))
    }

    /// As [`Packed::key`].
    #[inline(always)]
    pub(crate) fn value<M: Medium>(medium: &M, bucket: Offset, at: u64) -> V {
        let at = at + K::layout_bytes() as u64;
        V::of_words(|index| Self::word(medium, bucket, at, index, V::layout_bytes()))
    }

    /// Word `index` of the `bytes` bytes that begin at byte `at` of the bucket.
    #[inline(always)]
    fn word<M: Medium>(medium: &M, bucket: Offset, at: u64, index: usize, bytes: usize) -> u64 {
        let from = at + index as u64 * WORD;
        if Self::are_whole_words() {
            return medium.load(bucket.add(from));
        }
        let len = (bytes as u64).saturating_sub(index as u64 * WORD).min(WORD);
        let (first, skipped) = (from / WORD, from % WORD);
        let mut word = medium.load(bucket.word(first)) >> (skipped * 8);
        if skipped + len > WORD {
            word |= medium.load(bucket.word(first + 1)) << ((WORD - skipped) * 8);
        }
        word & low_bytes(len)
    }

    /// Stores an item. Neighbours' bytes stay as they are; the bucket is locked.
    #[track_caller]
    pub(crate) fn fill<M: Medium>(medium: &M, bucket: Offset, at: u64, key: K, value: V) {
        Self::store(medium, bucket, at, K::layout_bytes(), |index| key.word(index));
        Self::fill_value(medium, bucket, at, value);
    }

    /// Stores an item's value; as [`Packed::fill`].
    #[track_caller]
    pub(crate) fn fill_value<M: Medium>(medium: &M, bucket: Offset, at: u64, value: V) {
        let at = at + K::layout_bytes() as u64;
        Self::store(medium, bucket, at, V::layout_bytes(), |index| value.word(index));
    }

    /// Stores `bytes` bytes, whose words `source` tells, from byte `at` of the bucket on.
    #[inline(always)]
    #[track_caller]
    fn store<M: Medium>(
        medium: &M,
        bucket: Offset,
        at: u64,
        bytes: usize,
        source: impl Fn(usize) -> u64,
    ) {
        let bytes = bytes as u64;
        if Self::are_whole_words() {
            for index in 0..bytes / WORD {
                medium.store(bucket.add(at).word(index), source(index as usize));
            }
            return;
        }
        let end = at + bytes;
        let mut from = at;
        while from < end {
            let (word, skipped) = (from / WORD, from % WORD);
            let len = (WORD - skipped).min(end - from);
            // The source's bytes from `from - at` on, put in place.
            let (index, shift) = ((from - at) / WORD, (from - at) % WORD * 8);
            let mut new = source(index as usize) >> shift;
            if shift != 0 {
                new |= source(index as usize + 1) << (64 - shift);
            }
            let mask = low_bytes(len) << (skipped * 8);
            let others = medium.load(bucket.word(word)) & !mask;
            medium.store(bucket.word(word), others | new << (skipped * 8) & mask);
            from += len;
        }
    }
}

/// A mask of the `len` low bytes of a word.
const fn low_bytes(len: u64) -> u64 {
    if len >= WORD { u64::MAX } else { (1 << (len * 8)) - 1 }
}
