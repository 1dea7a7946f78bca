//! Clevel hashing: what is its own. What every engine owes is in `conformance`, what crashes
//! and frozen threads leave in `crashlab`.

#[path = "../common/mod.rs"]
mod common;
mod cost;
mod harness;
mod load;
mod records;
mod resize;
