//! The suites: each measures one thing.

pub mod cache;
pub mod durable;
pub mod latency;
pub mod load_factor;
pub mod micro;
pub mod open;
pub mod resize;
pub mod space;
pub mod store;
pub mod values;
pub mod writes;
pub mod ycsb;

use crate::choices::Suite;
use crate::options::{Options, PAIRS_DEFAULT};

/// Pairs to store in a suite.
pub(crate) fn pairs(suite: Suite, options: &Options) -> u64 {
    let default = match suite {
        Suite::Values => values::PAIRS,
        Suite::Open => open::PAIRS,
        Suite::Cache => cache::PAIRS,
        _ => PAIRS_DEFAULT,
    };
    options.pairs.first().copied().unwrap_or(default)
}
