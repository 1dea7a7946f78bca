//! crashlab: a simulated machine that crashes everywhere.

#![forbid(unsafe_code)]

mod boundaries;
pub mod campaign;
mod deep;
pub mod directed;
mod ends;
pub mod engine;
pub mod execution;
pub mod explore;
pub mod history;
pub mod images;
pub mod interleave;
pub mod judge;
pub mod lab;
pub mod machine;
mod owed;
pub mod report;
mod runs;
pub mod setups;
pub mod subject;
pub mod trial;
