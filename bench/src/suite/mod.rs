//! What is measured, a suite each.

pub mod latency;
pub mod level;
pub mod load_factor;
pub mod micro;
pub mod paper;
pub mod recovery;
pub mod resize;
pub mod rewo;
pub mod space;
pub mod store;
pub mod writes;
pub mod ycsb;

pub use paper::{PAPERS, Paper};
