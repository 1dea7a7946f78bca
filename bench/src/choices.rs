//! What to measure: the suites, and the parts of one of them.

use clap::ValueEnum;
use firndex::Durability;
use serde::{Deserialize, Serialize};
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
    /// Opening files again, by size, closed, killed or after power loss: the first get, the first put, bytes written
    /// (and with --peers other authors' stores)
    Open,
    /// Caches: hit ratios on traces, rates, memory, opening after a kill (and with --peers other authors' caches)
    Cache,
    /// Bytes per pair
    Space,
    /// Lines, media blocks, flushes and fences per operation
    Writes,
    /// What surviving power loss on a disk costs, against the disk itself (and with --peers other authors' stores)
    Durable,
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

/// A part of suite `cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CachePart {
    /// Bytes beside a pair
    Memory,
    /// Hit ratios on traces
    Ratios,
    /// Rates
    Rates,
    /// Opening after the process ended
    Restarts,
}

/// The parts of suite `cache` to measure; none: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheParts(pub Vec<CachePart>);

impl CacheParts {
    /// Whether a part is wanted.
    pub(crate) fn has(&self, part: CachePart) -> bool {
        self.0.is_empty() || self.0.contains(&part)
    }
}

/// What a pool of suite `open` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub enum Kind {
    /// A table with keys and values of 8 bytes
    Table,
    /// A store with keys of 16 and values of 100 bytes
    Store,
}

/// Whether a pool of suite `open` has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub enum Logging {
    /// None
    Process,
    /// One that is written every 5 ms
    Periodic,
}

impl Logging {
    /// The durability that this is.
    pub(crate) fn durability(self) -> Durability {
        match self {
            Logging::Process => Durability::Process,
            Logging::Periodic => Durability::Periodic,
        }
    }
}

/// How files of suite `open` were left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Closed
    Clean,
    /// By a process that was killed with SIGKILL
    Killed,
    /// The same, and the pool has to be restored from its log
    PowerLoss,
}

/// The choices for suite `open` alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Openings {
    /// Numbers of pairs, each measured.
    pub sizes: Vec<u64>,
    /// Kinds of pools; empty: all.
    pub kinds: Vec<Kind>,
    /// With a log or without; empty: both.
    pub logging: Vec<Logging>,
    /// States; empty: all.
    pub states: Vec<State>,
    /// Openings in a row that change something; 0: no such rows.
    pub restarts: u64,
    /// Where pools are, if not beside their logs.
    pub pools: Option<PathBuf>,
    /// The command `firndex`, if there is one to measure.
    pub command: Option<PathBuf>,
}

/// Those chosen, or all if none were.
pub(crate) fn chosen<T: ValueEnum + Clone>(choice: &[T]) -> Vec<T> {
    if choice.is_empty() { T::value_variants().to_vec() } else { choice.to_vec() }
}
