//! Suites that an engine's own paper is measured by, and what they share.

pub(crate) mod bytes;
mod claim;
pub(crate) mod table;
pub(crate) mod turns;

pub use claim::Claim;

use super::PAPERS;
use crate::medium::Medium;
use crate::options::Suite;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::Engine;

/// The suite of one engine's paper.
pub struct Paper {
    /// Which suite that is.
    pub suite: Suite,
    /// Its name, which is that of the engine that the paper is about.
    pub name: &'static str,
    /// Bytes that its tables take at once per pair, about.
    pub bytes_per_pair: u64,
    /// Pairs if nothing is said; `None`: as many as other suites have.
    pub pairs: Option<u64>,
    /// The media that it measures on.
    pub media: &'static [Medium],
    /// One round of all that goes with the setting's medium, flushes and threads.
    pub round: fn(&str, &Setting) -> Result<Vec<Row>>,
    /// What the paper says, held against merged rows.
    pub claims: fn(&[Row]) -> Vec<Claim>,
}

/// A table that doubles when it is told to, in the calling thread, which holds the pool's right to write.
pub(crate) trait Doubles: Send + Sync {
    fn double(&self) -> Result<()>;
}

impl Paper {
    /// The paper that a suite is of, if it is of one.
    pub fn of(suite: Suite) -> Option<&'static Paper> {
        PAPERS.into_iter().find(|paper| paper.suite == suite)
    }

    /// The engine that the paper is about, if it is built.
    pub fn engine(&self) -> Option<Engine> {
        Engine::ALL.iter().copied().find(|engine| engine.name() == self.name)
    }
}
