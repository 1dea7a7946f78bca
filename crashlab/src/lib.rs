//! crashlab: a simulated machine that crashes everywhere.

#![forbid(unsafe_code)]

pub mod arena;
pub mod boundaries;
mod bucketwise;
mod cache_calls;
mod cached;
pub mod campaign;
mod deep;
mod doubling;
mod ends;
pub mod engines;
pub mod execution;
pub mod explore;
pub mod history;
pub mod images;
pub mod interleave;
pub mod judge;
pub mod lab;
mod logbook;
pub mod logged;
pub mod losing;
pub mod machine;
mod owed;
mod owners;
pub mod report;
mod resizes;
mod runs;
pub mod setups;
pub mod subject;
pub mod target;
pub mod trial;
