//! What one measurement is of.

use crate::ceilings::Ceilings;
use crate::medium::Medium;
use crate::row::Row;
use crate::suite::durable::Choices;
use std::ffi::OsString;
use std::path::PathBuf;

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
    /// Bytes of a value; only suite `values` has others than a word's.
    pub value_bytes: usize,
    /// Skew of zipfian requests.
    pub skew: f64,
    /// Everything follows from it.
    pub seed: u64,
    /// Pairs from which growth is measured on.
    pub grow_from: u64,
    /// Arguments with which this program comes to [`crate::run`]; see [`crate::Options::again`].
    pub again: Option<Vec<OsString>>,
    /// What can be chosen of suite `durable`.
    pub durable: Choices,
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
