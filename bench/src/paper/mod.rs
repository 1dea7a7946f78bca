//! Papers whose measurements are repeated: one module for each, and what they share.
//!
//! A [`Paper`] has *parts*, which measure, and *claims*, which compare rows with what the paper says. A part names the
//! figures, tables and sections that it repeats; [`crate::repro`] runs those that are asked for.
//!
//! Tables take turns with slices of the same operations, so that a busy machine slows all of them.

pub(crate) mod bytes;
mod claim;
pub mod clevel;
pub(crate) mod compare;
pub(crate) mod costs;
pub mod iceberg;
pub mod level;
pub(crate) mod lineup;
pub(crate) mod mixed;
pub mod pfht;
pub mod rewo;
pub(crate) mod table;
pub(crate) mod turns;

#[cfg(test)]
pub(crate) use claim::claim_of_tests;
pub use claim::{Claim, Compared, Found, Verdict};

use crate::contender::Contender;
use crate::map::Map;
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};

/// A published paper.
pub struct Paper {
    /// Its name on the command line, which is that of its engine.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Who wrote it, where it appeared.
    pub by: &'static str,
    /// Pairs of its tables: what scale 1 stands for.
    pub pairs: u64,
    /// Operations of each kind at scale 1.
    pub ops: u64,
    /// How many figures and tables it has.
    pub figures: u32,
    /// ... and tables.
    pub tables: u32,
    /// Figures and tables that explain, and measure nothing.
    pub explaining: &'static [&'static str],
    /// What is said about how it is repeated.
    pub how: &'static str,
    /// What measures.
    pub parts: &'static [Part],
    /// Its claims, compared with the rows of all parts.
    pub claims: fn(&Found) -> Vec<Claim>,
}

/// What measures one or several figures at once.
pub struct Part {
    /// The figures, tables and sections, as claims name them.
    pub places: &'static [&'static str],
    /// One round.
    pub run: fn(&Scene) -> Result<Vec<Row>>,
}

/// Why a number of threads is not run.
pub(crate) const MORE_THREADS: &str = "a run has one thread, and as many as there are processors";

/// All papers.
pub const PAPERS: [&Paper; 5] =
    [&level::PAPER, &clevel::PAPER, &rewo::PAPER, &iceberg::PAPER, &pfht::PAPER];

/// Where a part measures.
pub struct Scene<'a> {
    /// Sizes and seed, on `dram`, without flushes, with one thread.
    pub setting: Setting,
    /// As many threads as may be used.
    pub threads_max: usize,
    /// Maps by name.
    pub contenders: &'a [Box<dyn Contender>],
    /// Is told what is being measured.
    pub tell: &'a dyn Fn(&str),
}

impl Scene<'_> {
    /// The setting on a medium, with real flushes or none.
    pub(crate) fn on(&self, medium: Medium, flushes: bool) -> Setting {
        Setting { medium, flushes, ..self.setting.clone() }
    }

    /// A small setting on medium `count`.
    pub(crate) fn counting(&self) -> Setting {
        let pairs = self.setting.pairs.min(costs::PAIRS_MAX);
        Setting { pairs, capacity: pairs, grows: false, ..self.on(Medium::Count, false) }
    }

    /// Numbers of threads to compare: one, and all.
    pub(crate) fn threads(&self) -> Vec<usize> {
        vec![1, self.threads_max.max(2)]
    }

    fn contender(&self, name: &str, setting: &Setting) -> Option<&dyn Contender> {
        let lies_there = |contender: &&dyn Contender| {
            contender.name() == name && contender.lies_on(setting.medium, setting.flushes)
        };
        self.contenders.iter().map(|contender| &**contender).find(lies_there)
    }

    /// Whether there is such a map for this setting. Other authors' are only there if they were asked for.
    pub(crate) fn has(&self, name: &str, setting: &Setting) -> bool {
        self.contender(name, setting).is_some()
    }

    /// An empty map of this name.
    pub(crate) fn open(&self, name: &str, setting: &Setting) -> Result<Box<dyn Map>> {
        let contender = self.contender(name, setting);
        let contender = contender
            .with_context(|| format!("no contender {name} lies on medium {}", setting.medium))?;
        contender.open_map(setting).with_context(|| format!("opening {name}"))
    }
}
