//! What to measure: the suites, and the parts of one of them.

use clap::ValueEnum;
use std::path::PathBuf;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Insert, get (hits and misses), update, upsert, remove, and batches of each
    Micro,
    /// The single operations of `micro` on stores, with keys and values of 8 bytes; then suite values. With --peers,
    /// only that
    Store,
    /// Stores in files by the size of values: operations, opening after a kill, bytes on disk (and with --peers other
    /// authors' databases)
    Values,
    /// YCSB: Load and A to F
    Ycsb,
    /// Rates, latencies and pairs per level as a table fills that may not grow, and the load factor at which it is full
    LoadFactor,
    /// Insertions during growth: rates, latencies, a timeline
    Resize,
    /// Every operation timed: percentiles up to the slowest
    Latency,
    /// Opening a pool after a kill, and after it was closed
    Recovery,
    /// Bytes per pair
    Space,
    /// Lines, media blocks, flushes and fences per operation
    Writes,
    /// What surviving power loss on a disk costs, against the disk itself (and with --peers other authors' stores)
    Durable,
    /// A paper's own measurements of its table: load factors, searches, expansions, updates
    Level,
    /// Another paper's: engines against each other on dram and optane, cached tables, block writes
    Rewo,
    /// Another paper's: classic tables against an engine, writes per insertion, load factors 0.90 and 0.95
    Pfht,
    /// What the machine's memory allows
    Ceilings,
    /// All of them in turn
    All,
}

/// The parts of suite `durable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The disk, and durable puts beside it
    Puts,
    /// What a log costs changes
    Periodic,
    /// What a log and a checkpoint cost look-ups
    LookUps,
    /// How long changes take while a checkpoint is made
    Checkpoints,
    /// Bytes written per put
    Bytes,
    /// Opening after power loss
    Open,
    /// Opening a closed pool for one change
    Reopen,
}

/// The choices for suite `durable` alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// Parts to measure; empty: all.
    pub parts: Vec<Part>,
    /// Where pools are, if not beside their logs.
    pub pools: Option<PathBuf>,
}

impl Choices {
    /// Whether a part is wanted.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}
