//! A suite that an engine's own paper is measured by.

use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::Engine;

/// The suite of one engine's paper.
pub struct Paper {
    /// The engine, which it measures alone; it is called like it.
    pub engine: Engine,
    /// Bytes that its tables take at once per pair, about.
    pub bytes_per_pair: u64,
    /// One round of all that goes with the setting's flushes and threads.
    pub round: fn(&str, &Setting) -> Result<Vec<Row>>,
}
