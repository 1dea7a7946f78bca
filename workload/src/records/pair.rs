//! Pairs of fixed sizes.

use super::contents::{Mismatch, check_value, fill_key, fill_value};

/// Bytes of a long key.
pub const LONG_KEY_BYTES: usize = 16;

/// Bytes of a long key's value. With the slot's byte of flags it fills sixteen.
pub const LONG_VALUE_BYTES: usize = 15;

/// The 8-byte value of a key and version: the version in the low byte, 56 bits of the key's own.
///
/// ```
/// use workload::records::pair;
///
/// assert_eq!(pair::check(7, pair::value(7, 3)), Ok(3));
/// assert!(pair::check(8, pair::value(7, 3)).is_err());
/// ```
#[inline]
pub fn value(key: u64, version: u8) -> u64 {
    let mut bytes = [0; 8];
    fill_value(key, version, &mut bytes);
    u64::from_le_bytes(bytes)
}

/// The version of a key's 8-byte value, if it is one of that key's.
#[inline]
pub fn check(key: u64, value: u64) -> Result<u8, Mismatch> {
    check_value(key, &value.to_le_bytes())
}

/// The 16-byte form of a key.
#[inline]
pub fn long_key(key: u64) -> [u8; LONG_KEY_BYTES] {
    let mut bytes = [0; LONG_KEY_BYTES];
    fill_key(key, &mut bytes);
    bytes
}

/// The 15-byte value of a key and version.
#[inline]
pub fn long_value(key: u64, version: u8) -> [u8; LONG_VALUE_BYTES] {
    let mut bytes = [0; LONG_VALUE_BYTES];
    fill_value(key, version, &mut bytes);
    bytes
}

/// The version of a key's 15-byte value, if it is one of that key's.
#[inline]
pub fn check_long(key: u64, value: &[u8; LONG_VALUE_BYTES]) -> Result<u8, Mismatch> {
    check_value(key, value)
}
