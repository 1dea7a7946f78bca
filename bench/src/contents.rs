//! The contents of the stores: which keys, and which value under each.

use crate::byte_store::Pair;
use crate::keys::{Keys, Writer};
use workload::{Permutation, Random};

/// Bytes of a key of a store.
pub(crate) const KEY_BYTES: usize = 16;
/// Bytes of the word with which a key or a value begins.
const WORD_BYTES: usize = 8;
/// Where a value's noise may begin. This much noise stays in a cache near the processor, so comparing costs little.
const NOISE_STARTS: usize = 1 << 16;
/// An odd number near 2^64 divided by the golden ratio: its products with words differ in their high bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Keys and values of one size. A key follows from a word. A value follows from the word and its writer: first another
/// word, then noise from a place that the word selects. So no two values are alike, and none compresses.
pub(crate) struct Contents {
    keys: Keys,
    noise: Vec<u8>,
    key_bytes: usize,
    value_bytes: usize,
}

impl Contents {
    /// The same with keys of so many bytes, at least a word and at most [`KEY_BYTES`].
    pub(crate) fn with_keys_of(self, key_bytes: usize) -> Contents {
        Contents { key_bytes: key_bytes.clamp(WORD_BYTES, KEY_BYTES), ..self }
    }

    /// Contents of `pairs` pairs.
    pub(crate) fn new(seed: u64, pairs: u64, value_bytes: usize) -> Contents {
        let words = (NOISE_STARTS + value_bytes).div_ceil(WORD_BYTES);
        let mut random = Random::new(seed);
        let noise = (0..words).flat_map(|_| random.word().to_le_bytes()).collect();
        Contents { keys: Keys::new(seed, pairs), noise, key_bytes: KEY_BYTES, value_bytes }
    }

    /// Number of pairs.
    pub(crate) fn pairs(&self) -> u64 {
        self.keys.count()
    }

    /// The word of the pair of this number.
    pub(crate) fn word(&self, number: u64) -> u64 {
        self.keys.key(number)
    }

    /// The word of a pair that is never stored.
    pub(crate) fn absent(&self, number: u64) -> u64 {
        self.keys.absent(number)
    }

    /// The pairs' numbers in the order that `salt` names.
    pub(crate) fn order(&self, salt: u64) -> Permutation {
        self.keys.order(salt)
    }

    /// First and second part of a value.
    fn parts(&self, word: u64, writer: Writer) -> ([u8; WORD_BYTES], &[u8]) {
        let first = writer.value(word);
        let start = (first.wrapping_mul(SPREAD) >> 48) as usize % NOISE_STARTS;
        let rest = self.value_bytes.saturating_sub(WORD_BYTES);
        (first.to_le_bytes(), &self.noise[start..start + rest])
    }

    /// Whether the value is what this writer has stored under the word's key.
    #[inline]
    pub(crate) fn is_value(&self, word: u64, writer: Writer, found: &[u8]) -> bool {
        let (first, rest) = self.parts(word, writer);
        let head = self.value_bytes.min(WORD_BYTES);
        found.len() == self.value_bytes && found[..head] == first[..head] && found[head..] == *rest
    }

    /// The keys of these words.
    pub(crate) fn keys(&self, words: &[u64]) -> List {
        let keys = words.iter().map(|&word| {
            let mut key = [0; KEY_BYTES];
            key[..WORD_BYTES].copy_from_slice(&word.to_be_bytes());
            key[WORD_BYTES..].copy_from_slice(&word.wrapping_mul(SPREAD).to_be_bytes());
            key
        });
        let keys = keys.collect();
        let (key_bytes, value_bytes) = (self.key_bytes, self.value_bytes);
        List { keys, values: Vec::new(), key_bytes, value_bytes }
    }

    /// The keys of these words, and the values that the writer stores under them.
    pub(crate) fn pairs_of(&self, words: &[u64], writer: Writer) -> List {
        let mut list = self.keys(words);
        list.values.reserve_exact(words.len() * self.value_bytes);
        for &word in words {
            let (first, rest) = self.parts(word, writer);
            list.values.extend_from_slice(&first[..self.value_bytes.min(WORD_BYTES)]);
            list.values.extend_from_slice(rest);
        }
        list
    }
}

/// Keys, and their values if it is a list of pairs.
pub(crate) struct List {
    keys: Vec<[u8; KEY_BYTES]>,
    values: Vec<u8>,
    key_bytes: usize,
    value_bytes: usize,
}

impl List {
    /// The keys alone.
    pub(crate) fn keys(&self) -> Vec<&[u8]> {
        self.keys.iter().map(|key| &key[..self.key_bytes]).collect()
    }

    /// Keys with their values.
    pub(crate) fn pairs(&self) -> Vec<Pair<'_>> {
        let values = self.values.chunks_exact(self.value_bytes);
        self.keys.iter().map(|key| &key[..self.key_bytes]).zip(values).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn values_have_their_size_and_tell_key_and_writer() {
        for value_bytes in [1, 7, 8, 9, 100, 10_000] {
            let contents = Contents::new(7, 100, value_bytes);
            let words: Vec<u64> = (0..100).map(|number| contents.word(number)).collect();
            let list = contents.pairs_of(&words, Writer::Insert);
            let pairs = list.pairs();
            assert_eq!(pairs.len(), 100);
            for (&word, (key, value)) in words.iter().zip(pairs) {
                assert_eq!((key.len(), value.len()), (16, value_bytes));
                assert!(contents.is_value(word, Writer::Insert, value));
                if value_bytes >= 8 {
                    assert!(!contents.is_value(word, Writer::Update, value));
                    assert!(!contents.is_value(word ^ 1, Writer::Insert, value));
                }
                let mut wrong = value.to_vec();
                wrong[value_bytes - 1] ^= 1;
                assert!(!contents.is_value(word, Writer::Insert, &wrong));
                assert!(!contents.is_value(word, Writer::Insert, &value[1..]));
            }
        }
    }

    #[test]
    fn all_keys_differ() {
        let contents = Contents::new(1, 1000, 8);
        let words: Vec<u64> =
            (0..1000).flat_map(|number| [contents.word(number), contents.absent(number)]).collect();
        let list = contents.keys(&words);
        assert_eq!(list.keys().into_iter().collect::<HashSet<_>>().len(), 2000);
    }
}
