//! The suites: each measures one thing.

pub mod durable;
pub mod latency;
pub mod level;
pub mod load_factor;
pub mod micro;
pub mod open;
pub mod paper;
pub mod pfht;
pub mod resize;
pub mod rewo;
pub mod space;
pub mod store;
pub mod values;
pub mod writes;
pub mod ycsb;

pub use paper::{Claim, Paper};

use crate::choices::Suite;
use crate::options::{Options, PAIRS_DEFAULT};

/// All papers that have a suite.
pub const PAPERS: [&Paper; 3] = [&level::PAPER, &rewo::PAPER, &pfht::PAPER];

/// The paper whose measurements a suite repeats, if it does.
pub fn paper_of(suite: Suite) -> Option<&'static Paper> {
    PAPERS.into_iter().find(|paper| paper.suite == suite)
}

/// Pairs to store in a suite.
pub(crate) fn pairs(suite: Suite, options: &Options) -> u64 {
    let of_paper = paper_of(suite).and_then(|paper| paper.pairs);
    let default = match suite {
        Suite::Values => values::PAIRS,
        Suite::Open => open::PAIRS,
        _ => PAIRS_DEFAULT,
    };
    options.pairs.first().copied().or(of_paper).unwrap_or(default)
}
