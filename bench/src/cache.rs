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

    /// Pairs that are there, if it can tell.
    fn pairs(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Ends it properly, so that what it can keep is there when it is opened again.
    fn close(self) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }
}

/// A cache of any type, behind a virtual call for every operation.
pub struct Opened(Box<dyn Erased>);

impl Opened {
    /// Hides the type of a cache.
    pub fn new(cache: impl Cache + 'static) -> Opened {
        Opened(Box::new(cache))
    }
}

/// What [`Opened`] calls.
trait Erased: Sync {
    fn look(&self, key: &[u8], is_right: &mut dyn FnMut(&[u8]) -> bool) -> Result<Option<bool>>;
    fn store(&self, key: &[u8], value: &[u8], lives: Option<Duration>) -> Result<()>;
    fn count(&self) -> Result<Option<u64>>;
    fn end(self: Box<Self>) -> Result<()>;
}

impl<C: Cache> Erased for C {
    fn look(&self, key: &[u8], is_right: &mut dyn FnMut(&[u8]) -> bool) -> Result<Option<bool>> {
        self.get(key, is_right)
    }

    fn store(&self, key: &[u8], value: &[u8], lives: Option<Duration>) -> Result<()> {
        match lives {
            None => self.put(key, value),
            Some(lives) => self.put_for(key, value, lives),
        }
    }

    fn count(&self) -> Result<Option<u64>> {
        self.pairs()
    }

    fn end(self: Box<Self>) -> Result<()> {
        self.close()
    }
}

impl Cache for Opened {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        let mut is_right = Some(is_right);
        let mut once = |found: &[u8]| is_right.take().is_some_and(|is_right| is_right(found));
        self.0.look(key, &mut once)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.store(key, value, None)
    }

    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()> {
        self.0.store(key, value, Some(lives))
    }

    fn pairs(&self) -> Result<Option<u64>> {
        self.0.count()
    }

    fn close(self) -> Result<()> {
        self.0.end()
    }
}

/// What firndex's cache takes in its pool beside the key and the value of an entry, about, and for all of them.
const BESIDE_BYTES: u64 = 44;
const BESIDE_ALL_BYTES: u64 = 40 << 10;

/// How much a cache may hold.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of keys and values. A cache that counts more than these has to do with that.
    pub bytes: u64,
    /// Pairs of the expected size that this is.
    pub pairs: usize,
}

impl Room {
    /// What firndex's cache is given for it, so that it has as many pairs as the others: bytes of keys and values, and
    /// those that it takes beside them. A cache whose bound is on everything it takes gets the same.
    pub fn bytes_with_all(self) -> u64 {
        self.bytes + self.pairs as u64 * BESIDE_BYTES + BESIDE_ALL_BYTES
    }
}
