//! Keys and values of a cache: a value follows from its key and version, so whoever reads one knows which put it was.

use std::ops::RangeInclusive;

use workload::{Random, mix};

use crate::torture::calls::{self, Key};

/// Bytes of a value that say which version it is. A shorter one is compared with those that it may be.
const WORD_BYTES: usize = 8;

/// What a value that was read turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// This version of the key.
    Version(u64),
    /// So short that it may be one of several versions.
    Several,
    /// None that was ever made for this key.
    Foreign,
}

/// Makes the keys and values of one cache.
#[derive(Debug, Clone)]
pub(super) struct Source {
    words: calls::Source,
    keys: Vec<Vec<u8>>,
    /// Most bytes of a value.
    bytes_max: u64,
    /// Of a million values so many have up to the most bytes; most others are small.
    large_in_million: u64,
}

impl Source {
    pub(super) fn new(seed: u64, keys: u64, bytes_max: u64, large_in_million: u64) -> Source {
        Source {
            words: calls::Source { seed },
            keys: (0..keys).map(|key| Key(key).bytes()).collect(),
            bytes_max,
            large_in_million,
        }
    }

    /// The key with this number.
    pub(super) fn key(&self, key: u64) -> &[u8] {
        &self.keys[key as usize]
    }

    /// The number of the key with these bytes, if it is one.
    pub(super) fn number_of(&self, bytes: &[u8]) -> Option<u64> {
        Key::from_bytes(bytes).map(|key| key.0).filter(|key| *key < self.keys.len() as u64)
    }

    /// Writes the value of a version into the buffer.
    pub(super) fn fill(&self, key: u64, version: u64, buffer: &mut Vec<u8>) {
        let (word, length, mut random) = self.beginning(key, version);
        buffer.clear();
        if length < WORD_BYTES {
            buffer.extend_from_slice(&mix(word).to_le_bytes()[..length]);
            return;
        }
        buffer.extend_from_slice(&word.to_le_bytes());
        while buffer.len() < length {
            buffer.extend_from_slice(&random.word().to_le_bytes());
        }
        buffer.truncate(length);
    }

    /// Which version of the key a value is. A short one can only be told from others in the range.
    pub(super) fn read(&self, key: u64, value: &[u8], range: RangeInclusive<u64>) -> Read {
        if let Some(word) = value.first_chunk() {
            let version = self.words.number(Key(key), u64::from_le_bytes(*word));
            let version = version.filter(|version| self.is_version(key, *version, value));
            return version.map_or(Read::Foreign, Read::Version);
        }
        let mut same = range.rev().filter(|version| self.is_version(key, *version, value));
        match (same.next(), same.next()) {
            (None, _) => Read::Foreign,
            (Some(version), None) => Read::Version(version),
            (Some(_), Some(_)) => Read::Several,
        }
    }

    fn is_version(&self, key: u64, version: u64, value: &[u8]) -> bool {
        let (word, length, mut random) = self.beginning(key, version);
        if value.len() != length {
            return false;
        }
        if length < WORD_BYTES {
            return mix(word).to_le_bytes()[..length] == *value;
        }
        let mut rest = value[WORD_BYTES..].chunks(8);
        value[..WORD_BYTES] == word.to_le_bytes()
            && rest.all(|chunk| random.word().to_le_bytes()[..chunk.len()] == *chunk)
    }

    /// A value's first word, its length, and what its other words come from.
    fn beginning(&self, key: u64, version: u64) -> (u64, usize, Random) {
        let word = self.words.word(Key(key), version);
        let mut random = Random::new(word);
        if random.below(1_000_000) < self.large_in_million {
            // As many of half the size, and so on: each capacity has some that just fit.
            let most = self.bytes_max >> random.below(8);
            let length = 1 + random.below(most.max(1));
            return (word, length as usize, random);
        }
        let length = match random.below(100) {
            0..15 => 1 + random.below(7),
            15..70 => 8 + random.below(56),
            70..96 => 64 + random.below(500),
            _ => 1 + random.below(4096.min(self.bytes_max)),
        };
        (word, length as usize, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_which_version_they_are_and_a_changed_byte_shows() {
        let source = Source::new(3, 50, 10_000, 50_000);
        let mut buffer = Vec::new();
        let (mut short, mut large) = (0, 0);
        for (key, version) in (0..50).flat_map(|key| (1..200).map(move |version| (key, version))) {
            source.fill(key, version, &mut buffer);
            assert!((1..=10_000).contains(&buffer.len()));
            let found = source.read(key, &buffer, version..=version);
            assert_eq!(found, Read::Version(version));
            short += u32::from(buffer.len() < WORD_BYTES);
            large += u32::from(buffer.len() > 4096);
            let middle = buffer.len() / 2;
            buffer[middle] ^= 1;
            assert_eq!(source.read(key, &buffer, version..=version), Read::Foreign);
        }
        assert!(short > 500 && large > 20, "{short} short, {large} large");
    }

    #[test]
    fn a_value_of_another_key_or_cache_is_foreign_and_a_short_one_may_be_several() {
        let source = Source::new(3, 50, 10_000, 0);
        let other = Source::new(4, 50, 10_000, 0);
        let mut buffer = Vec::new();
        let mut lengths = (1..).map(|version| {
            other.fill(7, version, &mut buffer);
            (version, buffer.clone())
        });
        let (version, value) = lengths.find(|(_, value)| value.len() > 20).unwrap();
        assert_eq!(other.read(7, &value, 0..=version), Read::Version(version));
        assert_eq!(source.read(7, &value, 0..=version), Read::Foreign);
        assert_eq!(other.read(8, &value, 0..=version), Read::Foreign);
        let (_, value) = lengths.find(|(_, value)| value.len() == 1).unwrap();
        assert_eq!(other.read(7, &value, 1..=100_000), Read::Several);
    }

    #[test]
    fn keys_are_known_by_their_bytes() {
        let source = Source::new(3, 50, 10_000, 0);
        (0..50).for_each(|key| assert_eq!(source.number_of(source.key(key)), Some(key)));
        assert_eq!(source.number_of(&Key(50).bytes()), None);
        assert_eq!(source.number_of(b"short"), None);
    }
}
