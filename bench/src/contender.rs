//! Who is measured.

use crate::ceilings::Ceilings;
use crate::map::Map;
use crate::options::Suite;
use crate::row::Row;
use crate::suite;
use anyhow::Result;
use firndex::Engine;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What a contender lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Anonymous memory.
    Dram,
    /// A file mapped shared.
    Mapped,
    /// Anonymous memory behind latencies of so many nanoseconds per line read and per line
    /// written back.
    Delay {
        /// Per line read.
        read_ns: u64,
        /// Per line written back.
        write_back_ns: u64,
    },
    /// Anonymous memory that counts what is done to it; suite `writes` alone is for it.
    Count,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Medium::Dram => f.pad("dram"),
            Medium::Mapped => f.pad("mapped"),
            Medium::Delay { read_ns, write_back_ns } => {
                f.pad(&format!("delay-{read_ns}-{write_back_ns}"))
            }
            Medium::Count => f.pad("count"),
        }
    }
}

impl std::str::FromStr for Medium {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let latencies = |text: &str| {
            let (read_ns, write_back_ns) = text.split_once('-')?;
            let (read_ns, write_back_ns) = (read_ns.parse().ok()?, write_back_ns.parse().ok()?);
            Some(Medium::Delay { read_ns, write_back_ns })
        };
        match name {
            "dram" => Some(Medium::Dram),
            "mapped" => Some(Medium::Mapped),
            _ => name.strip_prefix("delay-").and_then(latencies),
        }
        .ok_or_else(|| {
            format!(
                "no medium is called {name:?}; there are dram, mapped and delay-READ-WRITE \
                 (nanoseconds, as in delay-200-600)"
            )
        })
    }
}

/// What one measurement is of.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What the contender lies on.
    pub medium: Medium,
    /// Where files are made.
    pub directory: PathBuf,
    /// Whether flushes are real.
    pub flushes: bool,
    /// Pairs to store.
    pub pairs: u64,
    /// Pairs that a contender is made large enough for in advance.
    pub capacity: u64,
    /// Whether a contender that leaves the choice may grow.
    pub grows: bool,
    /// Stores so many pairs instead that a contender which knows its capacity is this full.
    pub load_factor: Option<f64>,
    /// Operations of each kind.
    pub ops: u64,
    /// Threads at once.
    pub threads: usize,
    /// Keys per call.
    pub batch: usize,
    /// Skew of zipfian requests.
    pub skew: f64,
    /// Everything follows from it.
    pub seed: u64,
    /// Pairs from which growth is measured on.
    pub grow_from: u64,
    /// Arguments with which this program comes to [`crate::run`]; see [`crate::Options::again`].
    pub again: Option<Vec<OsString>>,
    /// What to hold the rates against.
    pub ceilings: Option<Ceilings>,
}

impl Setting {
    /// A row of this setting.
    pub fn row(&self, suite: &'static str, op: &str, contender: &str) -> Row {
        let durable = if self.flushes { "_durable" } else { "" };
        Row {
            medium: Some(self.medium.to_string()),
            threads: Some(self.threads),
            pairs: Some(self.pairs),
            ..Row::new(suite, format!("{op}{durable}"), contender)
        }
    }
}

/// A map that can be measured, whatever its type: each suite is compiled for it, since a virtual
/// call for every operation would weigh most on the fastest map.
pub trait Contender: Sync {
    /// Its name on the command line.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// How many threads it bears.
    fn threads_max(&self) -> usize;

    /// Whether it can lie on this medium, with flushes that are real or not.
    fn lies_on(&self, medium: Medium, flushes: bool) -> bool;

    /// Which of firndex's engines it is, if it is one.
    fn engine(&self) -> Option<Engine>;

    /// Runs one round of a suite of contenders.
    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>>;
}

/// Makes maps of one type, and with that a [`Contender`].
pub struct Opener<O> {
    /// Name on the command line.
    pub name: String,
    /// Version.
    pub version: String,
    /// How many threads the maps bear.
    pub threads_max: usize,
    /// Which of firndex's engines, if they are built on one.
    pub engine: Option<Engine>,
    /// Media, with flushes that are real or not, that it makes maps on.
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

    fn engine(&self) -> Option<Engine> {
        self.engine
    }

    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>> {
        let (name, open) = (&self.name, &self.open);
        match suite {
            Suite::Micro => suite::micro::round(name, open, setting),
            Suite::Store => match self.engine {
                Some(engine) => suite::store::round(name, engine, setting),
                None => Ok(Vec::new()),
            },
            Suite::Ycsb => suite::ycsb::round(name, open, setting),
            Suite::LoadFactor => suite::load_factor::round(name, open, setting),
            Suite::Resize => suite::resize::round(name, open, setting),
            Suite::Latency => suite::latency::round(name, open, setting),
            Suite::Recovery => match self.engine {
                Some(engine) => suite::recovery::round(name, engine, setting),
                None => Ok(Vec::new()),
            },
            Suite::Space => suite::space::round(name, open, setting),
            Suite::Writes => suite::writes::round(name, open, setting),
            Suite::Level => suite::level::round(name, setting),
            Suite::Ceilings | Suite::All => Ok(Vec::new()),
        }
    }
}
