//! Maps on a disk whose changes survive power loss, whoever wrote them.

use crate::contender::Contender;
use crate::medium::Medium;
use crate::options::Suite;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::durable;
use anyhow::Result;
use firndex::Engine;
use std::path::Path;

/// A map from words to words in files. Changes may go back to several threads at once.
pub trait DurableMap: Send + Sync {
    /// Stores the pair. What survives when this has returned is what [`OnDisk::promise`] says.
    fn put(&self, key: u64, value: u64) -> Result<()>;

    /// Stores the pairs, in one transaction where the map has such.
    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()>;

    /// The value of `key`.
    fn get(&self, key: u64) -> Result<Option<u64>>;

    /// Returns when everything that was put before survives power loss.
    fn sync(&self) -> Result<()>;
}

/// One way to use a map on a disk: a contender of suite `durable` alone.
pub struct OnDisk<O> {
    /// Name on the command line: the map, and the mode behind it.
    pub name: String,
    /// Version of the map.
    pub version: String,
    /// What power loss leaves of the puts that have returned.
    pub promise: &'static str,
    /// Whether threads that wait for the disk wait together, so that many of them are worth a row.
    pub groups: bool,
    /// Makes an empty map with its files in a directory.
    pub open: O,
}

impl<O> Contender for OnDisk<O>
where
    O: Fn(&Setting, &Path) -> Result<Box<dyn DurableMap>> + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn threads_max(&self) -> usize {
        usize::MAX
    }

    fn lies_on(&self, medium: Medium, _: bool) -> bool {
        medium == Medium::Disk
    }

    fn grows(&self) -> bool {
        true
    }

    fn engine(&self) -> Option<Engine> {
        None
    }

    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>> {
        match suite {
            Suite::Durable => durable::of_map(self, setting),
            _ => Ok(Vec::new()),
        }
    }
}
