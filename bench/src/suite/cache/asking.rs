//! Puts and look-ups of many pairs, each value compared as a whole.

use super::pairs::{KEY_BYTES, Pairs};
use crate::cache::Cache;
use anyhow::Result;
use workload::trace::PAIR_BYTES;

/// Bytes of a value where all are alike.
const VALUE_BYTES: usize = PAIR_BYTES as usize - KEY_BYTES;

/// What look-ups have found.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) hits: u64,
    pub(super) wrong: u64,
}

impl Pairs {
    pub(super) fn put_all(&self, cache: &impl Cache, numbers: &[u64]) -> Result<Seen> {
        let mut value = Vec::new();
        for &number in numbers {
            self.value(number, VALUE_BYTES, &mut value);
            cache.put(&self.key(number), &value)?;
        }
        Ok(Seen::default())
    }

    pub(super) fn get_all(&self, cache: &impl Cache, numbers: &[u64]) -> Result<Seen> {
        let mut seen = Seen::default();
        for &number in numbers {
            let is_right = |found: &[u8]| self.is_value(number, VALUE_BYTES, found);
            if let Some(is_right) = cache.get(&self.key(number), is_right)? {
                seen.hits += 1;
                seen.wrong += u64::from(!is_right);
            }
        }
        Ok(seen)
    }

    /// Looks each key up, and puts the pair after a miss.
    pub(super) fn get_or_put_all(&self, cache: &impl Cache, numbers: &[u64]) -> Result<Seen> {
        let mut seen = Seen::default();
        for number in numbers {
            let number = std::slice::from_ref(number);
            let got = self.get_all(cache, number)?;
            if got.hits == 0 {
                self.put_all(cache, number)?;
            }
            seen.hits += got.hits;
            seen.wrong += got.wrong;
        }
        Ok(seen)
    }
}
