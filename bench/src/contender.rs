//! The contenders that are measured.

use crate::embedded::{AfterKill, ByteStore};
use crate::map::Map;
use crate::medium::Medium;
use crate::options::Suite;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite;
use anyhow::{Result, bail};
use firndex::Engine;
use std::path::Path;

/// A map that can be measured, whatever its type. Each suite is compiled for it, since a virtual call for every
/// operation would weigh most on the fastest map.
pub trait Contender: Sync {
    /// Its name on the command line.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// The most threads that can use it.
    fn threads_max(&self) -> usize;

    /// Whether it can lie on this medium, with flushes that are real or not.
    fn lies_on(&self, medium: Medium, flushes: bool) -> bool;

    /// Whether it grows. One that does not grow is measured only by name, and only where nothing has to grow.
    fn grows(&self) -> bool;

    /// Which of firndex's engines it is, if it is one.
    fn engine(&self) -> Option<Engine>;

    /// What SIGKILL leaves of the changes of its store of byte strings; `None` if it has no such store.
    fn after_kill(&self) -> Option<AfterKill> {
        None
    }

    /// Opens its store of byte strings with files in a directory, and creates it if necessary. Everything random
    /// follows from the seed.
    fn open_store(&self, _directory: &Path, _seed: u64) -> Result<Box<dyn ByteStore>> {
        bail!("{} has no store of byte strings", self.name())
    }

    /// Runs one round of a suite that measures contenders.
    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>>;
}

/// Makes maps of one type, and so is a [`Contender`].
pub struct Opener<O> {
    /// Name on the command line.
    pub name: String,
    /// Version.
    pub version: String,
    /// The most threads that can use a map.
    pub threads_max: usize,
    /// The engine of firndex on which the maps are built, if they are.
    pub engine: Option<Engine>,
    /// Whether they grow.
    pub grows: bool,
    /// Whether it can make maps on a medium, with flushes that are real or not.
    pub lies_on: fn(Medium, bool) -> bool,
    /// Makes an empty map with room for a setting's [`Setting::capacity`].
    pub open: O,
}

impl<M: Map, O: Fn(&Setting) -> Result<M> + Sync> Contender for Opener<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn threads_max(&self) -> usize {
        self.threads_max
    }

    fn lies_on(&self, medium: Medium, flushes: bool) -> bool {
        (self.lies_on)(medium, flushes)
    }

    fn grows(&self) -> bool {
        self.grows
    }

    fn engine(&self) -> Option<Engine> {
        self.engine
    }

    fn after_kill(&self) -> Option<AfterKill> {
        self.engine.map(|_| suite::values::AFTER_KILL)
    }

    fn open_store(&self, directory: &Path, seed: u64) -> Result<Box<dyn ByteStore>> {
        match self.engine {
            Some(engine) => suite::values::open_own(engine, directory, seed),
            None => bail!("{} has no store of byte strings", self.name),
        }
    }

    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>> {
        let (name, open) = (&self.name, &self.open);
        match suite {
            Suite::Micro => suite::micro::round(name, open, setting),
            Suite::Store => match self.engine {
                Some(engine) => suite::store::round(name, engine, setting),
                None => Ok(Vec::new()),
            },
            Suite::Values => suite::values::round(self, setting),
            Suite::Ycsb => suite::ycsb::round(name, open, setting),
            Suite::LoadFactor => suite::load_factor::round(name, open, setting),
            Suite::Resize => suite::resize::round(name, open, setting),
            Suite::Latency => suite::latency::round(name, open, setting),
            Suite::Recovery => match self.engine {
                Some(engine) => suite::recovery::round(name, engine, setting),
                None => Ok(Vec::new()),
            },
            Suite::Durable => match self.engine {
                Some(engine) => suite::durable::of_engine(name, engine, setting),
                None => Ok(Vec::new()),
            },
            Suite::Space => suite::space::round(name, open, setting),
            Suite::Writes => suite::writes::round(name, open, setting),
            Suite::Level | Suite::Rewo | Suite::Pfht | Suite::Ceilings | Suite::All => {
                Ok(Vec::new())
            }
        }
    }
}
