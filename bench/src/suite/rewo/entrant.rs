//! The tables that are compared.

use crate::direct::{Direct, settings};
use crate::filling::{explained, fill};
use crate::keys::Keys;
use crate::map::Map;
use crate::pool::without_facade;
use crate::setting::Setting;
use crate::suite::level;
use crate::suite::paper::Doubles;
use anyhow::{Context, Result, bail};
use engines::Engine;
use engines::engine::PairSizes;
use engines::rewo::{self, Cached, RewoHash, Shape};
use index::Index as _;
use pmem::Medium;
use std::sync::Arc;

/// The highest load factor that a table reaches here.
pub(super) const LOAD_FACTOR_MAX: f64 = 0.8;

/// The kinds of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rewo-Hash with a cached table of this size.
    Rewo(Cached),
    /// Another engine, as users get it.
    Other(Engine),
    /// [`level::ENGINE`] as in its paper: without fingerprints, and without overwriting values in place.
    AsInPaper,
}

/// Rewo-Hash without a cached table.
pub(super) const UNCACHED: Kind = Kind::Rewo(Cached::Nothing);
/// Rewo-Hash as in the paper.
pub(super) const EIGHTH: Kind = Kind::Rewo(Cached::SmallerLog2(3));
/// Rewo-Hash with a cached table as large as the table in the pool.
pub(super) const WHOLE: Kind = Kind::Rewo(Cached::SmallerLog2(0));

/// The tables compared in writing. One more has a cached table that holds every pair while the table is emptier.
pub(super) fn writers() -> Vec<Kind> {
    lineup().into_iter().chain([WHOLE]).collect()
}

/// Rewo-Hash with and without its cached table, all other engines, and the table with which the paper compares.
pub(super) fn lineup() -> Vec<Kind> {
    let others = Engine::ALL.iter().filter(|engine| **engine != Engine::Rewo);
    let others = others.map(|&engine| Kind::Other(engine));
    [EIGHTH, UNCACHED].into_iter().chain(others).chain([Kind::AsInPaper]).collect()
}

impl Kind {
    pub(super) fn name(self) -> String {
        match self {
            Kind::Rewo(Cached::ByMedium) => "rewo".into(),
            Kind::Rewo(Cached::Nothing) => "rewo-c0".into(),
            Kind::Rewo(Cached::SmallerLog2(log2)) => format!("rewo-c{}", 1u64 << log2),
            Kind::Other(engine) => engine.name().into(),
            Kind::AsInPaper => format!("{}-paper", level::ENGINE),
        }
    }
}

/// A table that may not grow by itself.
pub(super) struct Entrant<M: Medium> {
    pub(super) name: String,
    pub(super) map: Direct<M>,
    /// The same table, if it is a Rewo-Hash.
    pub(super) own: Option<Arc<RewoHash<M>>>,
    /// The same table, if it doubles when it is told to.
    pub(super) doubles: Option<Arc<dyn Doubles>>,
    pub(super) capacity: u64,
    /// The keys that it may have: as many as it has room for.
    pub(super) keys: Keys,
    /// It has this many of them: the first ones.
    pub(super) pairs: u64,
}

impl<M: Medium> Doubles for RewoHash<M, u64, u64> {
    fn double(&self) -> Result<()> {
        Ok(self.extend()?)
    }
}

impl<M: Medium> Entrant<M> {
    /// The largest empty table that the setting's pairs fill to at least [`LOAD_FACTOR_MAX`]; if there is none, the
    /// smallest.
    pub(super) fn new(
        kind: Kind,
        setting: &Setting,
        memory: &dyn Fn() -> Result<M>,
    ) -> Result<Self> {
        let mut pairs = setting.pairs;
        loop {
            let setting = Setting { capacity: pairs, grows: false, ..setting.clone() };
            let (map, own, doubles): (_, _, Option<Arc<dyn Doubles>>) = match kind {
                Kind::Rewo(cached) => {
                    let (map, table) = rewo_table(cached, memory()?, &setting)?;
                    (map, Some(Arc::clone(&table)), Some(table))
                }
                Kind::Other(level::ENGINE) | Kind::AsInPaper => {
                    let as_in_paper = kind == Kind::AsInPaper;
                    let (map, table) = level::open_to_double(memory()?, &setting, as_in_paper)?;
                    (map, None, Some(table))
                }
                Kind::Other(engine) => (Direct::create(engine, memory()?, &setting)?, None, None),
            };
            let capacity = map.facts().context("a table that does not know its size")?.capacity;
            if capacity as f64 * LOAD_FACTOR_MAX <= setting.pairs as f64 || pairs <= 1 {
                let keys = Keys::new(setting.seed, capacity);
                return Ok(Entrant {
                    name: kind.name(),
                    map,
                    own,
                    doubles,
                    capacity,
                    keys,
                    pairs: 0,
                });
            }
            pairs /= 2;
        }
    }

    /// Like [`Entrant::new`], filled to [`LOAD_FACTOR_MAX`].
    pub(super) fn filled(
        kind: Kind,
        setting: &Setting,
        memory: &dyn Fn() -> Result<M>,
    ) -> Result<Self> {
        let mut entrant = Entrant::new(kind, setting, memory)?;
        entrant.fill(entrant.pairs_at(LOAD_FACTOR_MAX), setting)?;
        Ok(entrant)
    }

    /// Inserts pairs up to this many, off the clock.
    pub(super) fn fill(&mut self, pairs: u64, setting: &Setting) -> Result<()> {
        if pairs > self.pairs {
            let filled = fill(&self.map, self.keys, self.pairs..pairs, setting.threads);
            explained(&self.map, setting, filled)
                .with_context(|| format!("filling {} to {pairs} pairs", self.name))?;
            self.pairs = pairs;
        }
        Ok(())
    }

    /// Whether it has a cached table.
    pub(super) fn is_cached(&self) -> bool {
        self.own.as_ref().is_some_and(|table| table.occupancy().cached.is_some())
    }

    /// The number of pairs at this load factor.
    pub(super) fn pairs_at(&self, load_factor: f64) -> u64 {
        ((self.capacity as f64 * load_factor) as u64).max(1)
    }

    /// Doubles the table in this thread.
    pub(super) fn double(&self) -> Result<()> {
        let _write = self.map.pool().write()?;
        match &self.doubles {
            Some(table) => table.double(),
            None => bail!("{} does not double when it is told to", self.name),
        }
    }
}

/// A table of Rewo-Hash for the setting's capacity.
fn rewo_table<M: Medium>(
    cached: Cached,
    medium: M,
    setting: &Setting,
) -> Result<(Direct<M>, Arc<RewoHash<M>>)> {
    let settings = settings(setting);
    let shape = Shape { cached, ..Shape::for_pair_bytes(PairSizes::WORDS.pair_bytes()) };
    let shape = shape.for_pairs(setting.capacity, settings.resize_at);
    let engine = (rewo::ENGINE_ID, rewo::engine_params(&shape));
    let pool = without_facade(medium, engine, (8, 8), setting.seed)?;
    let table = Arc::new(RewoHash::open(Arc::clone(&pool), settings)?);
    Ok((Direct::of(Arc::clone(&table) as _, pool), table))
}
