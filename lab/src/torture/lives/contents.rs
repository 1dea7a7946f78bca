//! The keys and values of a life: all follow from its seed.

use std::collections::HashMap;

use workload::{mix, spread};

use super::model::State;
use super::plan::{Life, Shape};

/// The bytes of all keys, and the values that they may have.
pub(super) struct Contents {
    seed: u64,
    sizes: Vec<usize>,
    keys: Vec<Vec<u8>>,
    indices: HashMap<Vec<u8>, u64>,
}

impl Contents {
    pub(super) fn of(life: &Life) -> Contents {
        let keys: Vec<Vec<u8>> = (0..life.keys).map(|index| key_bytes(life, index)).collect();
        let indices = (0..).zip(&keys).map(|(index, key)| (key.clone(), index)).collect();
        Contents { seed: life.seed, sizes: life.sizes.clone(), keys, indices }
    }

    pub(super) fn key(&self, index: u64) -> &[u8] {
        &self.keys[index as usize]
    }

    /// The index of the key with these bytes, if there is one.
    pub(super) fn index(&self, key: &[u8]) -> Option<u64> {
        self.indices.get(key).copied()
    }

    /// The value of a key in this state.
    pub(super) fn value(&self, index: u64, state: State) -> Option<Vec<u8>> {
        state.is_present().then(|| {
            let bytes = self.sizes[state.size()];
            let mut value = Vec::with_capacity(bytes + 8);
            for word in self.words(index, state).take(bytes.div_ceil(8)) {
                value.extend_from_slice(&word.to_le_bytes());
            }
            value.truncate(bytes);
            value
        })
    }

    /// Whether this is the value of a key in this state, `None` for absence; if not, what differs.
    pub(super) fn compare(
        &self,
        index: u64,
        state: State,
        found: Option<&[u8]>,
    ) -> Result<(), String> {
        let Some(found) = found else {
            return if state.is_present() { Err("it is absent".into()) } else { Ok(()) };
        };
        if !state.is_present() {
            return Err(format!("it has a value of {} bytes", found.len()));
        }
        let expected_bytes = self.sizes[state.size()];
        if found.len() != expected_bytes {
            return Err(format!("its value has {} bytes, not {expected_bytes}", found.len()));
        }
        let mut words = self.words(index, state);
        let (whole, rest) = found.as_chunks::<8>();
        let is_word = |(_, bytes): &(usize, &[u8; 8])| {
            words.next().is_some_and(|word| word.to_le_bytes() == **bytes)
        };
        let matching = whole.iter().enumerate().take_while(is_word).count();
        if matching < whole.len() {
            return Err(format!(
                "its value of {expected_bytes} bytes is another from byte {}",
                8 * matching
            ));
        }
        let last = words.next().unwrap_or_default().to_le_bytes();
        if last[..rest.len()] != *rest {
            return Err(format!("the last bytes of its value of {expected_bytes} are others"));
        }
        Ok(())
    }

    /// Words by key, version and size: a run of equal steps, which is made and compared as fast as memory allows.
    fn words(&self, index: u64, state: State) -> impl Iterator<Item = u64> {
        let first = mix(self.seed ^ mix(spread(index) ^ mix(spread(state.version()))));
        let step = mix(first) | 1;
        std::iter::successors(Some(first), move |word| Some(word.wrapping_add(step)))
    }
}

/// Keys differ from each other in every shape.
fn key_bytes(life: &Life, index: u64) -> Vec<u8> {
    match life.shape {
        Shape::Table { key_bytes, .. } => {
            // Half of the lives have key 0, and keys next to each other.
            let word = if life.has_plain_keys { index } else { mix(index ^ life.seed) };
            let word = if key_bytes < 8 { index } else { word };
            let mut key = word.to_le_bytes().to_vec();
            key.resize(key_bytes as usize, (index % 7) as u8);
            key
        }
        Shape::Store => {
            let more = mix(index ^ life.seed) % life.key_bytes_more;
            let mut key = index.to_le_bytes().to_vec();
            key.resize(8 + more as usize, b'.');
            key
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_value_is_compared() {
        let keys = vec![vec![1], vec![2]];
        let indices = (0..).zip(&keys).map(|(index, key)| (key.clone(), index)).collect();
        let contents = Contents { seed: 7, sizes: vec![0, 1, 8, 21, 64], keys, indices };
        for size in 0..5 {
            let state = State::present(3, size);
            let mut value = contents.value(1, state).unwrap();
            assert_eq!(contents.compare(1, state, Some(&value)), Ok(()));
            assert!(contents.compare(1, state, None).is_err());
            assert!(contents.compare(1, State::absent(3), Some(&value)).is_err());
            if size > 0 {
                assert!(contents.compare(0, state, Some(&value)).is_err(), "of another key");
                let other = State::present(4, size);
                assert!(contents.compare(1, other, Some(&value)).is_err(), "another version");
                assert!(contents.compare(1, state, Some(&value[1..])).is_err(), "shorter");
            }
            for at in 0..value.len() {
                value[at] ^= 1;
                assert!(contents.compare(1, state, Some(&value)).is_err(), "{size}: byte {at}");
                value[at] ^= 1;
            }
        }
        assert_eq!(contents.compare(1, State::absent(3), None), Ok(()));
        assert_eq!((contents.index(&[2]), contents.index(&[3])), (Some(1), None));
    }
}
