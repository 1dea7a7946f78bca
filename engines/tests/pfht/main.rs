//! PFHT against its paper (*Revisiting Hash Table Design for Phase Change Memory*): what its sections promise,
//! measured; the stash; and what a crash or somebody else may leave in a pool.
//!
//! What every engine owes is tested by the conformance suite.

#[path = "../common/mod.rs"]
mod common;
mod cost;
mod damage;
mod harness;
mod load;
mod power;
mod recovery;
mod resize;
mod sizes;
mod stash;
#[path = "../common/table/mod.rs"]
mod table;
