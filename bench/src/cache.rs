//! What a cache is, for the suite.

use anyhow::Result;
use std::time::Duration;

/// A cache from byte strings to byte strings, bounded in bytes, used by several threads at once.
///
/// It may drop any pair at any time. It never returns another value than the latest one put.
pub trait Cache: Sync {
    /// Shows the value of `key` to `is_right`, and returns the verdict; `None` if the key is absent.
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>>;

    /// Stores the pair, and drops others to make room.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// [`Cache::put`] of a value that is absent once it has lived so long.
    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()>;

    /// Does now what was put off: drops what is too much.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// All bytes that it takes, if it can tell.
    fn bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// How much a cache may hold.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of keys and values. A cache that counts more than these has to do with that.
    pub bytes: u64,
    /// Pairs of the expected size that this is.
    pub pairs: usize,
}
