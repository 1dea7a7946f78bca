//! Keys and values by number.

use workload::{Random, Scatter, mix};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;
/// Bytes of the word with which a value begins.
const WORD_BYTES: usize = 8;
/// Where a value's noise may begin. This much noise stays in a cache near the processor, so comparing costs little.
const NOISE_STARTS: usize = 1 << 15;
/// At least as many bytes as the largest value has.
const VALUE_BYTES_MAX: usize = 20_000;

/// Keys, and the value of each. A value begins with a word that follows from the number, and goes on with noise from a
/// place that the word selects.
pub(super) struct Pairs {
    scatter: Scatter,
    noise: Vec<u8>,
}

impl Pairs {
    pub(super) fn new(seed: u64) -> Pairs {
        let words = (NOISE_STARTS + VALUE_BYTES_MAX).div_ceil(WORD_BYTES);
        let mut random = Random::new(seed);
        let noise = (0..words).flat_map(|_| random.word().to_le_bytes()).collect();
        Pairs { scatter: Scatter::new(seed), noise }
    }

    #[inline]
    pub(super) fn key(&self, number: u64) -> [u8; KEY_BYTES] {
        let word = self.scatter.key(number);
        let mut key = [0; KEY_BYTES];
        key[..WORD_BYTES].copy_from_slice(&word.to_be_bytes());
        key[WORD_BYTES..].copy_from_slice(&number.to_be_bytes());
        key
    }

    /// First and second part of a value of so many bytes.
    #[inline]
    fn parts(&self, number: u64, bytes: usize) -> ([u8; WORD_BYTES], &[u8]) {
        let word = mix(number);
        let start = word as usize % NOISE_STARTS;
        (word.to_le_bytes(), &self.noise[start..start + bytes.saturating_sub(WORD_BYTES)])
    }

    /// Puts the value of so many bytes into `out`.
    #[inline]
    pub(super) fn value(&self, number: u64, bytes: usize, out: &mut Vec<u8>) {
        let (first, rest) = self.parts(number, bytes);
        out.clear();
        out.extend_from_slice(&first[..bytes.min(WORD_BYTES)]);
        out.extend_from_slice(rest);
    }

    /// Whether this is the value of so many bytes.
    #[inline]
    pub(super) fn is_value(&self, number: u64, bytes: usize, found: &[u8]) -> bool {
        let (first, rest) = self.parts(number, bytes);
        let head = bytes.min(WORD_BYTES);
        found.len() == bytes && found[..head] == first[..head] && found[head..] == *rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_its_key_alone() {
        let pairs = Pairs::new(3);
        let mut value = Vec::new();
        for bytes in [0, 1, 8, 9, 100, VALUE_BYTES_MAX] {
            pairs.value(7, bytes, &mut value);
            assert!(value.len() == bytes && pairs.is_value(7, bytes, &value));
            assert!(!pairs.is_value(7, bytes + 1, &value));
            assert_eq!(pairs.is_value(8, bytes, &value), bytes == 0);
            if let Some(last) = value.last_mut() {
                *last ^= 1;
                assert!(!pairs.is_value(7, bytes, &value));
            }
        }
        assert_ne!(pairs.key(7), pairs.key(8));
    }
}
