//! Suites that repeat the measurements of an engine's paper, and what they share.

pub(crate) mod bytes;
mod claim;
pub(crate) mod table;
pub(crate) mod turns;

pub use claim::Claim;

use crate::choices::Suite;
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::Engine;

/// The suite of one engine's paper.
pub struct Paper {
    /// The suite itself.
    pub suite: Suite,
    /// Its name, which is that of the paper's engine.
    pub name: &'static str,
    /// About how many bytes its tables take at once per pair.
    pub bytes_per_pair: u64,
    /// Default number of pairs; `None`: as many as in other suites.
    pub pairs: Option<u64>,
    /// The media on which it measures.
    pub media: &'static [Medium],
    /// One round of everything that goes with the setting's medium, flushes and threads.
    pub round: fn(&str, &Setting) -> Result<Vec<Row>>,
    /// The paper's claims, compared with merged rows.
    pub claims: fn(&[Row]) -> Vec<Claim>,
}

/// A table that doubles when it is told to, in the calling thread, which holds the pool's right to write.
pub(crate) trait Doubles: Send + Sync {
    fn double(&self) -> Result<()>;
}

impl Paper {
    /// The engine that the paper is about, if it is built.
    pub fn engine(&self) -> Option<Engine> {
        Engine::ALL.iter().copied().find(|engine| engine.name() == self.name)
    }
}
