//! Bytes that tell whose they are.

use crate::random::{STEP, mix, spread};

/// Set apart from values, so that a key's bytes are never taken for its value.
const KEY_TAG: u64 = 0x006b_6579;

/// A value that is not one of its key's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Some byte is not what the key and the version make it.
    #[error(
        "byte {offset} of {length} of the value of key {key:#018x} is not that of version {version}; \
         the value belongs to another key, is torn, or was changed"
    )]
    Contents {
        /// The key.
        key: u64,
        /// The version that the value's first byte names.
        version: u8,
        /// The first byte that is wrong.
        offset: usize,
        /// The value's length in bytes.
        length: usize,
    },
    /// The length is not what the key and the version make it.
    #[error(
        "the value of key {key:#018x}, version {version}, has {found} bytes instead of {expected}"
    )]
    Length {
        /// The key.
        key: u64,
        /// The version that the value's first byte names.
        version: u8,
        /// Length of the value in bytes.
        found: usize,
        /// Length it must have in bytes.
        expected: usize,
    },
}

/// Writes the value of a key and version, in as many bytes as `value` has.
///
/// Its first byte is the version, the others are derived from the key and the version.
///
/// ```
/// use workload::records::{check_value, fill_value};
///
/// let mut value = [0; 100];
/// fill_value(7, 3, &mut value);
/// assert_eq!(check_value(7, &value), Ok(3));
/// assert!(check_value(8, &value).is_err());
/// ```
pub fn fill_value(key: u64, version: u8, value: &mut [u8]) {
    if let Some((first, rest)) = value.split_first_mut() {
        *first = version;
        fill(value_seed(key, version), rest);
    }
}

/// The version of a key's value, if that is what `value` holds in full. An empty value, which
/// can name no version, is version 0 of every key.
pub fn check_value(key: u64, value: &[u8]) -> Result<u8, Mismatch> {
    let Some((&version, rest)) = value.split_first() else { return Ok(0) };
    match first_difference(value_seed(key, version), rest) {
        None => Ok(version),
        Some(rest_offset) => {
            Err(Mismatch::Contents { key, version, offset: rest_offset + 1, length: value.len() })
        }
    }
}

/// Writes a key as a byte string of any length: its eight bytes, little-endian, then bytes
/// derived from it. With fewer than eight, different keys may become the same.
pub fn fill_key(key: u64, bytes: &mut [u8]) {
    match bytes.split_first_chunk_mut() {
        Some((word, rest)) => {
            *word = key.to_le_bytes();
            fill(mix(key ^ KEY_TAG), rest);
        }
        None => {
            let length = bytes.len();
            bytes.copy_from_slice(&key.to_le_bytes()[..length]);
        }
    }
}

/// A byte string's 64-bit key, for values of keys that come from elsewhere, such as a trace.
/// Different strings share a digest with probability 2^-64, which here costs a check its
/// sharpness and nothing else.
pub fn digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.fold(bytes.len() as u64, |digest, word| mix(digest.wrapping_add(STEP) ^ word))
}

fn value_seed(key: u64, version: u8) -> u64 {
    // The version reaches every bit before the words are derived, or versions would overlap.
    mix(key ^ mix(u64::from(version).wrapping_add(STEP)))
}

fn word(seed: u64, index: usize) -> [u8; 8] {
    mix(seed.wrapping_add(spread(index as u64))).to_le_bytes()
}

fn fill(seed: u64, bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut();
    let last = word(seed, words.len());
    for (index, bytes) in words.iter_mut().enumerate() {
        *bytes = word(seed, index);
    }
    let length = rest.len();
    rest.copy_from_slice(&last[..length]);
}

fn first_difference(seed: u64, bytes: &[u8]) -> Option<usize> {
    // Whole words apart from the rest: their comparison is one instruction.
    let (words, rest) = bytes.as_chunks();
    let differing = words.iter().enumerate().find(|&(index, found)| *found != word(seed, index));
    let (index, found) = match differing {
        Some((index, found)) => (index, found.as_slice()),
        None => (words.len(), rest),
    };
    let expected = word(seed, index);
    let within = found.iter().zip(&expected).position(|(found, expected)| found != expected)?;
    Some(index * 8 + within)
}
