//! Contenders that are caches of one type.

use crate::cache::{Cache, Room};
use crate::choices::Suite;
use crate::contender::Contender;
use crate::map::Map;
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::cache;
use anyhow::{Result, bail};
use firndex::Engine;

/// Makes caches of one type, and so is a [`Contender`] of suite `cache`.
pub struct Caching<O> {
    /// Name on the command line.
    pub name: String,
    /// Version.
    pub version: String,
    /// Makes an empty cache.
    pub open: O,
}

impl<C: Cache, O: Fn(Room) -> Result<C> + Sync> Contender for Caching<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn threads_max(&self) -> usize {
        usize::MAX
    }

    fn lies_on(&self, medium: Medium, flushes: bool) -> bool {
        medium == Medium::Dram && !flushes
    }

    fn grows(&self) -> bool {
        false
    }

    fn engine(&self) -> Option<Engine> {
        None
    }

    fn is_cache(&self) -> bool {
        true
    }

    fn open_map(&self, _setting: &Setting) -> Result<Box<dyn Map>> {
        bail!("{} is no map of words", self.name)
    }

    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>> {
        match suite {
            Suite::Cache => cache::round(&self.name, &self.open, setting),
            _ => Ok(Vec::new()),
        }
    }
}
