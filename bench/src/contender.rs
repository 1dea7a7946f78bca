//! The contenders that are measured.

use crate::byte_store::{AfterKill, ByteStore, Reopens};
use crate::cache::{Opened, Room};
use crate::choices::Suite;
use crate::map::Map;
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, bail};
use firndex::Engine;
use std::path::Path;

/// A map that can be measured, whatever its type. Each suite is compiled for it, since a virtual call for every
/// operation would weigh most on the fastest map. Measurements of papers are compiled once for all.
pub trait Contender: Sync {
    /// Its name on the command line.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// The most threads that can use it.
    fn threads_max(&self) -> usize;

    /// Whether it can lie on this medium, with flushes that are real or not.
    fn lies_on(&self, medium: Medium, flushes: bool) -> bool;

    /// Whether it grows. One that does not grow is measured only where nothing has to grow.
    fn grows(&self) -> bool;

    /// Whether it is measured only if it is asked for by name.
    fn is_by_name(&self) -> bool {
        false
    }

    /// Whether it is a cache: a contender of suite `cache`, and of no other.
    fn is_cache(&self) -> bool {
        false
    }

    /// Which of firndex's engines it is, if it is one.
    fn engine(&self) -> Option<Engine>;

    /// What SIGKILL leaves of the changes of its store of byte strings; `None` if it has no such store.
    fn after_kill(&self) -> Option<AfterKill> {
        None
    }

    /// After what suite `open` opens its store again.
    fn reopens(&self) -> Reopens {
        Reopens::Never
    }

    /// Opens its store of byte strings with files in a directory, and creates it if necessary. Everything random
    /// follows from the seed.
    fn open_store(&self, _directory: &Path, _seed: u64) -> Result<Box<dyn ByteStore>> {
        bail!("{} has no store of byte strings", self.name())
    }

    /// Opens the cache that has its files in a directory, and creates it if there are none.
    fn open_cache(&self, _directory: &Path, _room: Room) -> Result<Opened> {
        bail!("{} is no cache", self.name())
    }

    /// An empty map with room for a setting's [`Setting::capacity`], behind a virtual call for every operation.
    fn open_map(&self, setting: &Setting) -> Result<Box<dyn Map>>;

    /// Runs one round of a suite that measures contenders.
    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>>;
}

/// The contender of this name whose files lie on a disk.
pub(crate) fn on_disk<'a>(
    contenders: &'a [Box<dyn Contender>],
    name: &str,
) -> Result<&'a dyn Contender> {
    let is_it = |contender: &&dyn Contender| {
        contender.name() == name && contender.lies_on(Medium::Disk, false)
    };
    let mut all = contenders.iter().map(|contender| &**contender);
    all.find(is_it).with_context(|| format!("no contender {name} has files"))
}

/// The cache of this name.
pub(crate) fn cache<'a>(
    contenders: &'a [Box<dyn Contender>],
    name: &str,
) -> Result<&'a dyn Contender> {
    let mut all = contenders.iter().map(|contender| &**contender);
    let found = all.find(|contender| contender.name() == name && contender.is_cache());
    found.with_context(|| format!("no cache is called {name}"))
}
