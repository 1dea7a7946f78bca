//! What the writers do. A call follows from the seed, its writer and its number, so the judge knows it, too.

use workload::{Random, mix, spread};

/// Keys of each writer.
const KEYS: u64 = 12_000;
/// Calls of a writer before it goes on to fill, to change or to empty its share of the keys.
const PHASE_CALLS: u64 = 8_000;
/// Keys of a batch. Their changes share fences.
const BATCH_KEYS: u64 = 20;
/// Keys that all writers count in.
const COUNTERS: u64 = 8;
/// Stands for a writer in the keys of counters.
const ALL_WRITERS: u64 = 0xffff;
/// Bits of a value's first word that show whether it was ever written.
const PROOF_BITS: u32 = 20;

/// Writer and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(pub(super) u64);

impl Key {
    fn of(writer: u64, index: u64) -> Key {
        Key(writer << 32 | index)
    }

    /// The key in a store. Lengths differ, so that items have several sizes.
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = self.0.to_le_bytes().to_vec();
        bytes.resize(8 + (self.0 % 40) as usize, b'.');
        bytes
    }

    /// The key with these bytes, if it is one.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Key> {
        let key = Key(u64::from_le_bytes(*bytes.first_chunk()?));
        (key.bytes() == bytes).then_some(key)
    }

    /// Whether it is a counter, which all writers add to.
    pub(super) fn is_counter(self) -> bool {
        self.0 >> 32 == ALL_WRITERS
    }
}

/// Makes the calls and values of one pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    /// Of a pool of its own.
    pub(super) seed: u64,
}

/// What a call does to each of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Insert,
    Put,
    Update,
    Remove,
    /// `modify` that inserts an absent key and removes a present one.
    Toggle,
    /// `modify` that adds one to a counter.
    Add,
}

/// One call. With more than one key it is a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) deed: Deed,
    pub(super) keys: Vec<Key>,
    /// Of the call that wrote it, and so the value's.
    pub(super) number: u64,
}

impl Call {
    /// The number of the call that wrote the key's value, after this call; `before` likewise.
    pub(super) fn after(&self, before: Option<u64>) -> Option<u64> {
        match self.deed {
            Deed::Insert => before.or(Some(self.number)),
            Deed::Put => Some(self.number),
            Deed::Update => before.map(|_| self.number),
            Deed::Toggle => before.is_none().then_some(self.number),
            Deed::Remove => None,
            Deed::Add => before,
        }
    }
}

impl Source {
    /// Call `number` of a writer.
    pub(super) fn call(self, writer: u64, number: u64) -> Call {
        let mut random = Random::new(mix(self.seed ^ mix(writer)) ^ spread(number));
        let (fills, empties) = match number / PHASE_CALLS % 3 {
            0 => (70, 5),
            1 => (30, 20),
            _ => (5, 70),
        };
        let index = random.below(KEYS);
        let chance = random.below(100);
        let is_batch = random.percent(25);
        let (deed, keys) = if random.percent(3) {
            (Deed::Add, vec![Key::of(ALL_WRITERS, index % COUNTERS)])
        } else {
            let deed = match chance {
                _ if chance < fills && random.percent(50) => Deed::Insert,
                _ if chance < fills => Deed::Put,
                _ if chance < fills + empties => Deed::Remove,
                _ if random.percent(30) => Deed::Toggle,
                _ => Deed::Update,
            };
            let has_batches = matches!(deed, Deed::Put | Deed::Remove);
            let keys = if is_batch && has_batches { BATCH_KEYS } else { 1 };
            (deed, (index..index + keys).map(|index| Key::of(writer, index)).collect())
        };
        Call { deed, keys, number }
    }

    /// A key that a writer may have written.
    pub(super) fn some_key(self, writers: u64, random: &mut Random) -> Key {
        Key::of(random.below(writers), random.below(KEYS))
    }

    /// The value that call `number` writes under the key, in a table; in a store the first bytes of it.
    pub(super) fn word(self, key: Key, number: u64) -> u64 {
        number << PROOF_BITS | self.proof(key, number)
    }

    fn proof(self, key: Key, number: u64) -> u64 {
        mix(self.seed ^ mix(spread(key.0) ^ number)) >> (64 - PROOF_BITS)
    }

    /// The number of the call that wrote this value, if one can have.
    pub(super) fn number(self, key: Key, word: u64) -> Option<u64> {
        let number = word >> PROOF_BITS;
        (self.word(key, number) == word).then_some(number)
    }

    /// The value that call `number` writes under the key in a store.
    pub(super) fn bytes(self, key: Key, number: u64) -> Vec<u8> {
        let word = self.word(key, number);
        let mut random = Random::new(word);
        let length = match random.below(1000) {
            0..700 => random.below(64),
            700..970 => random.below(600),
            970..998 => random.below(4096),
            _ => random.below(128 << 10),
        };
        let words = 1 + length.div_ceil(8);
        let mut bytes = word.to_le_bytes().to_vec();
        bytes.extend((1..words).flat_map(|_| random.word().to_le_bytes()));
        bytes.truncate(8 + length as usize);
        bytes
    }

    /// As [`Source::number`], for a value in a store.
    pub(super) fn number_of_bytes(self, key: Key, value: &[u8]) -> Option<u64> {
        let number = self.number(key, u64::from_le_bytes(*value.first_chunk()?))?;
        (self.bytes(key, number) == value).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_tell_what_they_are() {
        let source = Source { seed: 7 };
        for (writer, number) in (0..3).flat_map(|writer| (0..2000).map(move |n| (writer, n))) {
            let call = source.call(writer, number);
            assert_eq!(call, source.call(writer, number));
            for key in call.keys {
                assert_eq!(Key::from_bytes(&key.bytes()), Some(key));
                let mut value = source.bytes(key, number);
                assert_eq!(source.number_of_bytes(key, &value), Some(number));
                let middle = value.len() / 2;
                value[middle] ^= 1;
                assert_eq!(source.number_of_bytes(key, &value), None);
                assert_eq!(source.number(key, source.word(key, number)), Some(number));
                assert_eq!(source.number(key, source.word(key, number) ^ 1), None);
            }
        }
        assert_eq!(Key::from_bytes(b"short"), None);
        assert_eq!(Key::from_bytes(b"12345678 and more"), None);
    }

    /// Otherwise a run would leave out what it is for.
    #[test]
    fn writers_do_everything_and_fill_and_empty_their_keys() {
        let source = Source { seed: 1 };
        let calls: Vec<Call> = (0..3 * PHASE_CALLS).map(|number| source.call(0, number)).collect();
        let deeds = [Deed::Insert, Deed::Put, Deed::Update, Deed::Remove, Deed::Toggle, Deed::Add];
        for deed in deeds {
            assert!(calls.iter().filter(|call| call.deed == deed).count() > 300, "{deed:?}");
        }
        let mut states = std::collections::HashMap::new();
        let mut present = Vec::new();
        for phase in calls.chunks(PHASE_CALLS as usize) {
            for call in phase {
                for key in &call.keys {
                    let state = states.entry(*key).or_default();
                    *state = call.after(*state);
                }
            }
            present.push(states.values().flatten().count() as u64);
        }
        assert!(present[0] > KEYS / 2 && present[2] < KEYS / 5, "{present:?}");
    }
}
