//! Maps on a disk whose changes survive power loss, as suite `durable` measures them.

use crate::setting::Setting;
use anyhow::Result;
use std::path::Path;

/// A map from words to words in files. Several threads may change it at once.
pub(crate) trait DurableMap: Send + Sync {
    /// Stores the pair. [`OnDisk::promise`] says what survives once this has returned.
    fn put(&self, key: u64, value: u64) -> Result<()>;

    /// Stores the pairs, in one transaction if the map has transactions.
    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()>;

    /// The value of `key`.
    fn get(&self, key: u64) -> Result<Option<u64>>;

    /// Returns when everything that was put before survives power loss.
    fn sync(&self) -> Result<()>;
}

/// One way to use a map on a disk.
pub(crate) struct OnDisk<O> {
    /// Name on the command line: the map, followed by the mode.
    pub(crate) name: String,
    /// What power loss leaves of the puts that have returned.
    pub(crate) promise: &'static str,
    /// Whether threads wait for the disk together, so that rows of many threads are worthwhile.
    pub(crate) groups: bool,
    /// Makes an empty map with its files in a directory.
    pub(crate) open: O,
}

/// What [`OnDisk::open`] does.
pub(crate) trait Open: Fn(&Setting, &Path) -> Result<Box<dyn DurableMap>> {}

impl<O: Fn(&Setting, &Path) -> Result<Box<dyn DurableMap>>> Open for O {}
