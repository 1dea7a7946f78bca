//! Byte strings with sizes of their own.

use super::contents::{Mismatch, check_value, fill_key, fill_value};
use super::sizes::ValueSizes;
use crate::ParameterError;
use crate::random::{STEP, mix};

/// The fewest bytes in which keys stay different.
pub const LEAST_KEY_BYTES: usize = 8;

/// The shape of byte items: keys of one size, values with sizes from a distribution.
///
/// A value's size follows from its key and version, so updates change it and a check knows it.
///
/// ```
/// use workload::records::{Items, ValueSizes};
///
/// let items = Items::new(24, ValueSizes::uniform(10, 100)?)?;
/// let (mut key, mut value) = (Vec::new(), Vec::new());
/// items.key(7, &mut key);
/// items.value(7, 3, &mut value);
/// assert_eq!(key.len(), 24);
/// assert_eq!(items.check(7, &value), Ok(3));
///
/// value.pop();
/// assert!(items.check(7, &value).is_err());
/// # Ok::<(), workload::ParameterError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Items {
    key_bytes: usize,
    sizes: ValueSizes,
}

impl Items {
    /// Items with keys of `key_bytes`, at least 8.
    pub fn new(key_bytes: usize, sizes: ValueSizes) -> Result<Items, ParameterError> {
        if key_bytes < LEAST_KEY_BYTES {
            let (min, max) = (key_bytes, key_bytes);
            return Err(ParameterError::Sizes { min, max, least: LEAST_KEY_BYTES });
        }
        Ok(Items { key_bytes, sizes })
    }

    /// Bytes of every key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes of the value of a key and version.
    pub fn value_bytes(&self, key: u64, version: u8) -> usize {
        self.sizes.size(mix(mix(key).wrapping_add(STEP.wrapping_mul(u64::from(version)))))
    }

    /// Replaces `bytes` by the key's.
    pub fn key(&self, key: u64, bytes: &mut Vec<u8>) {
        bytes.resize(self.key_bytes, 0);
        fill_key(key, bytes);
    }

    /// Replaces `bytes` by the value's.
    pub fn value(&self, key: u64, version: u8, bytes: &mut Vec<u8>) {
        bytes.resize(self.value_bytes(key, version), 0);
        fill_value(key, version, bytes);
    }

    /// The version of a key's value, if that is what `value` holds in full.
    pub fn check(&self, key: u64, value: &[u8]) -> Result<u8, Mismatch> {
        let version = check_value(key, value)?;
        let expected = self.value_bytes(key, version);
        if value.len() == expected {
            Ok(version)
        } else {
            Err(Mismatch::Length { key, version, found: value.len(), expected })
        }
    }
}
