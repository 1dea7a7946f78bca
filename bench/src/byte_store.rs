//! What a store of byte strings is, for the suites.

use anyhow::Result;

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Called with the index of a key in a list, and its value or `None`.
pub type See<'a> = &'a mut dyn FnMut(usize, Option<&[u8]>);

/// A map from byte strings to byte strings in files. Several threads may change it at once.
///
/// It takes lists, not single keys. So a store can use its transactions, and nobody pays a virtual call for each key.
pub trait ByteStore: Send + Sync {
    /// Stores the pairs, in one transaction if the store has transactions.
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()>;

    /// Looks each key up by itself. A transaction for reading may serve all of them.
    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()>;

    /// Whether the store itself has a call for [`get_many`](ByteStore::get_many).
    fn has_get_many(&self) -> bool {
        false
    }

    /// Looks the keys up with one call.
    fn get_many(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        self.get(keys, see)
    }

    /// Removes the keys, in one transaction if the store has transactions. Returns how many there were, if the store
    /// tells.
    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>>;

    /// Returns when everything that was put before survives power loss.
    fn sync(&self) -> Result<()>;

    /// Returns when nothing is left to do for the opening.
    fn wait_until_built(&self) -> Result<()> {
        Ok(())
    }

    /// Closes the store, so that the next opening finds it closed. Returns the bytes that other processes have written
    /// to disks for it.
    fn close(self: Box<Self>) -> Result<u64> {
        Ok(0)
    }
}

/// What SIGKILL leaves of the changes that have returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterKill {
    /// In words.
    pub text: &'static str,
    /// Whether all changes survive.
    pub is_all: bool,
}

/// After what a store still has everything when it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reopens {
    /// Suite `open` leaves it out.
    Never,
    /// After it was closed.
    Closed,
    /// After that, and after SIGKILL.
    Killed,
}
