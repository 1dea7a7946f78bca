//! The suites: each measures one thing.

pub mod durable;
pub mod latency;
pub mod level;
pub mod load_factor;
pub mod micro;
pub mod paper;
pub mod pfht;
pub mod recovery;
pub mod resize;
pub mod rewo;
pub mod space;
pub mod store;
pub mod values;
pub mod writes;
pub mod ycsb;

pub use paper::{Claim, Paper};

/// All papers that have a suite.
pub const PAPERS: [&Paper; 3] = [&level::PAPER, &rewo::PAPER, &pfht::PAPER];

/// The engine whose doublings are measured beside those of another paper's engine.
pub(crate) use level::ENGINE as DOUBLES_TOO;
pub(crate) use level::open_to_double;
