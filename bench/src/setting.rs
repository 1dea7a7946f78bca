//! What one measurement is of.

use crate::ceilings::Ceilings;
use crate::choices::{CacheParts, Choices, Openings};
use crate::kept::Kept;
use crate::medium::Medium;
use crate::row::Row;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Skew of zipfian requests: YCSB's.
const SKEW: f64 = 0.99;

/// What one measurement is of.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The medium on which the contender lies.
    pub medium: Medium,
    /// Where files are created.
    pub directory: PathBuf,
    /// Whether flushes are real.
    pub flushes: bool,
    /// Pairs to store.
    pub pairs: u64,
    /// Pairs for which a contender is made large enough in advance.
    pub capacity: u64,
    /// Whether a contender that leaves the choice may grow.
    pub grows: bool,
    /// If set, fills contenders that know their capacity to this load factor instead of storing `pairs`.
    pub load_factor: Option<f64>,
    /// Operations of each kind.
    pub ops: u64,
    /// Threads at once.
    pub threads: usize,
    /// Keys per call.
    pub batch: usize,
    /// Bytes of a value. Only suites `values` and `open` have values larger or smaller than a word.
    pub value_bytes: usize,
    /// Skew of zipfian requests.
    pub skew: f64,
    /// Everything random follows from it.
    pub seed: u64,
    /// Pairs from which on growth is measured.
    pub grow_from: u64,
    /// Arguments with which this program gets to [`crate::run`]; see [`crate::Options::again`].
    pub again: Option<Vec<OsString>>,
    /// The choices for suite `durable`.
    pub durable: Choices,
    /// The parts of suite `cache`.
    pub cache_parts: CacheParts,
    /// The choices for suite `open`.
    pub openings: Openings,
    /// Files that suite `open` keeps from round to round.
    pub kept: Arc<Kept>,
    /// What to compare the rates with.
    pub ceilings: Option<Ceilings>,
}

impl Setting {
    /// A setting of no pairs on a medium: words, no flushes, one thread, tables that may grow.
    pub fn of_words(medium: Medium) -> Setting {
        Setting {
            medium,
            directory: std::env::temp_dir(),
            flushes: false,
            pairs: 0,
            capacity: 0,
            grows: true,
            load_factor: None,
            ops: 0,
            threads: 1,
            batch: 2,
            value_bytes: 8,
            skew: SKEW,
            seed: 1,
            grow_from: 0,
            again: None,
            durable: Choices::default(),
            cache_parts: CacheParts::default(),
            openings: Openings::default(),
            kept: Arc::default(),
            ceilings: None,
        }
    }

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
