//! The tables that are compared.

use crate::classic::LOAD_PERCENT;
use crate::direct::{Direct, settings};
use crate::medium::Medium;
use crate::paper::lineup::{Entrant, Handle, Opened};
use crate::paper::{Scene, level};
use crate::pool::{counted_memory, delayed_memory, flushed_memory, without_facade};
use crate::setting::Setting;
use anyhow::Result;
use engines::Engine;
use engines::engine::PairSizes;
use engines::rewo::{self, Cached, RewoHash, Shape};
use index::Index as _;
use pmem::Pool;
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
    /// A table of another paper: CCEH, PFHT as its paper has it, path hashing.
    Beside(&'static str),
}

/// Rewo-Hash without a cached table.
pub(super) const UNCACHED: Kind = Kind::Rewo(Cached::Nothing);
/// Rewo-Hash as in the paper.
pub(super) const EIGHTH: Kind = Kind::Rewo(Cached::SmallerLog2(3));
/// Rewo-Hash with a cached table as large as the table in the pool.
pub(super) const WHOLE: Kind = Kind::Rewo(Cached::SmallerLog2(0));

/// The paper's CCEH.
pub(super) const CCEH: &str = "cceh";
/// The paper's PFHT and path hashing: insertions and deletions have no log there.
pub(super) const PFHT: &str = "pfht-paper-unlogged";
pub(super) const PATH: &str = "path-unlogged";
/// The paper's Rewo-Hash, and the other's table as its own paper has it.
pub(super) const REWO: &str = "rewo-c8";
pub(super) const LEVEL: &str = "level-paper";

/// The tables compared in writing. One more has a cached table that holds every pair while the table is emptier.
pub(super) fn writers(threads: usize) -> Vec<Kind> {
    lineup(threads).into_iter().chain([WHOLE]).collect()
}

/// Rewo-Hash with and without its cached table, all other engines, and the tables with which the paper compares. Some
/// of those are for one thread.
pub(super) fn lineup(threads: usize) -> Vec<Kind> {
    let others = Engine::ALL.iter().filter(|engine| **engine != Engine::Rewo);
    let others = others.map(|&engine| Kind::Other(engine));
    let beside: &[&str] = if threads == 1 { &[CCEH, PFHT, PATH] } else { &[CCEH] };
    let beside = beside.iter().map(|name| Kind::Beside(name));
    [EIGHTH, UNCACHED].into_iter().chain(others).chain([Kind::AsInPaper]).chain(beside).collect()
}

impl Kind {
    pub(super) fn name(self) -> String {
        match self {
            Kind::Rewo(Cached::ByMedium) => "rewo".into(),
            Kind::Rewo(Cached::Nothing) => "rewo-c0".into(),
            Kind::Rewo(Cached::SmallerLog2(log2)) => format!("rewo-c{}", 1u64 << log2),
            Kind::Other(engine) => engine.name().into(),
            Kind::AsInPaper => LEVEL.into(),
            Kind::Beside(name) => name.into(),
        }
    }

    /// The largest empty table that the setting's pairs fill to at least [`LOAD_FACTOR_MAX`]. A table of another paper
    /// gets as many slots as Rewo-Hash has then.
    pub(super) fn entrant(self, scene: &Scene, setting: &Setting) -> Result<Entrant> {
        let largest = |kind: Kind| {
            Entrant::largest(kind.name(), setting, LOAD_FACTOR_MAX, &|setting| {
                kind.open(scene, setting)
            })
        };
        let Kind::Beside(name) = self else { return largest(self) };
        let slots = largest(UNCACHED)?.capacity;
        let capacity = slots * LOAD_PERCENT / 100;
        let map = scene.open(name, &Setting { capacity, grows: false, ..setting.clone() })?;
        Entrant::new(name, (map, None), Some(slots), setting.seed)
    }

    /// Like [`Kind::entrant`], filled to [`LOAD_FACTOR_MAX`].
    pub(super) fn filled(self, scene: &Scene, setting: &Setting) -> Result<Entrant> {
        let mut entrant = self.entrant(scene, setting)?;
        entrant.fill(entrant.pairs_at(LOAD_FACTOR_MAX), setting)?;
        Ok(entrant)
    }

    fn open(self, scene: &Scene, setting: &Setting) -> Result<Opened> {
        match (self, setting.medium) {
            (Kind::Beside(name), _) => Ok((scene.open(name, setting)?, None)),
            (_, Medium::Dram) => self.open_on(flushed_memory(setting.flushes)?, setting),
            (_, Medium::Count) => self.open_on(counted_memory()?, setting),
            (_, medium) => self.open_on(delayed_memory(medium, setting.flushes)?, setting),
        }
    }

    fn open_on<M: pmem::Medium>(self, memory: M, setting: &Setting) -> Result<Opened> {
        Ok(match self {
            Kind::Rewo(cached) => {
                let (map, own) = rewo_table(cached, memory, setting)?;
                (Box::new(map), Some(Arc::new(own)))
            }
            Kind::Other(level::ENGINE) => level::open_to_double(memory, setting, false)?,
            Kind::AsInPaper => level::open_to_double(memory, setting, true)?,
            Kind::Other(engine) => (Box::new(Direct::create(engine, memory, setting)?), None),
            Kind::Beside(name) => anyhow::bail!("{name} is opened by name"),
        })
    }
}

/// A table of Rewo-Hash with its pool.
pub(super) struct Own<M: pmem::Medium> {
    pub(super) table: Arc<RewoHash<M>>,
    pub(super) pool: Arc<Pool<M>>,
}

impl<M: pmem::Medium> Handle for Own<M> {
    fn double(&self) -> Result<()> {
        let _write = self.pool.write()?;
        Ok(self.table.extend()?)
    }

    fn is_cached(&self) -> bool {
        self.table.occupancy().cached.is_some()
    }

    fn refill(&self) -> bool {
        self.table.refill()
    }
}

/// A table of Rewo-Hash for the setting's capacity.
pub(super) fn rewo_table<M: pmem::Medium>(
    cached: Cached,
    medium: M,
    setting: &Setting,
) -> Result<(Direct<M>, Own<M>)> {
    let settings = settings(setting);
    let shape = Shape { cached, ..Shape::for_pair_bytes(PairSizes::WORDS.pair_bytes()) };
    let shape = shape.for_pairs(setting.capacity, settings.resize_at);
    let engine = (rewo::ENGINE_ID, rewo::engine_params(&shape));
    let pool = without_facade(medium, engine, (8, 8), setting.seed)?;
    let table = Arc::new(RewoHash::open(Arc::clone(&pool), settings)?);
    Ok((Direct::of(Arc::clone(&table) as _, Arc::clone(&pool)), Own { table, pool }))
}
