//! How long keys and values may be.

use crate::error::ItemError;
use crate::unfinished::Unfinished;
use pmem::heap::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Refuses a key or a value that is too long.
pub fn check_limits(key: &[u8], value: &[u8]) -> Result<(), ItemError> {
    if key.len() > KEY_BYTES_MAX {
        return Err(ItemError::KeyTooLong { found: key.len(), limit: KEY_BYTES_MAX });
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(ItemError::ValueTooLong { found: value.len(), limit: VALUE_BYTES_MAX });
    }
    Ok(())
}

/// Refuses a batch with an entry that no call alone would take.
pub fn check_pairs(pairs: &[(&[u8], &[u8])]) -> Result<(), Unfinished<ItemError>> {
    for (index, (key, value)) in pairs.iter().enumerate() {
        check_limits(key, value).map_err(|error| Unfinished::refused(index, error))?;
    }
    Ok(())
}
