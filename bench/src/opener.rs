//! Contenders that are maps of one type.

use crate::byte_store::{AfterKill, ByteStore, Reopens};
use crate::choices::{Kind, Logging, Suite};
use crate::contender::Contender;
use crate::map::Map;
use crate::medium::Medium;
use crate::own;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite;
use anyhow::{Result, bail};
use firndex::Engine;
use std::path::Path;

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
    /// Whether they are measured only if they are asked for by name.
    pub is_by_name: bool,
    /// Whether it can make maps on a medium, with flushes that are real or not.
    pub lies_on: fn(Medium, bool) -> bool,
    /// Makes an empty map with room for a setting's [`Setting::capacity`].
    pub open: O,
}

impl<M: Map + 'static, O: Fn(&Setting) -> Result<M> + Sync> Contender for Opener<O> {
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

    fn is_by_name(&self) -> bool {
        self.is_by_name
    }

    fn engine(&self) -> Option<Engine> {
        self.engine
    }

    fn after_kill(&self) -> Option<AfterKill> {
        self.engine.map(|_| own::AFTER_KILL)
    }

    fn reopens(&self) -> Reopens {
        if self.engine.is_some() { Reopens::Killed } else { Reopens::Never }
    }

    fn open_store(&self, directory: &Path, seed: u64) -> Result<Box<dyn ByteStore>> {
        match self.engine {
            Some(engine) => {
                let place = own::Place::new(directory, None);
                let options = own::options(engine, Logging::Process, &place, seed);
                own::open(&options, Kind::Store, &place, 0)
            }
            None => bail!("{} has no store of byte strings", self.name),
        }
    }

    fn open_map(&self, setting: &Setting) -> Result<Box<dyn Map>> {
        Ok(Box::new((self.open)(setting)?))
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
            Suite::Open => suite::open::round(self, setting),
            Suite::Durable => match self.engine {
                Some(engine) => suite::durable::of_engine(name, engine, setting),
                None => Ok(Vec::new()),
            },
            Suite::Space => suite::space::round(name, open, setting),
            Suite::Writes => suite::writes::round(name, open, setting),
            Suite::Cache | Suite::Ceilings | Suite::All => Ok(Vec::new()),
        }
    }
}
