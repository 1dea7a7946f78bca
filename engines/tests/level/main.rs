//! Level hashing against its paper (ACM Transactions on Storage 15(2), 2019): what its figures and
//! algorithms promise, measured; shrinking; and pairs that are not two words.
//!
//! What every engine owes is tested by the conformance suite.

#[path = "../common/mod.rs"]
mod common;
mod cost;
mod harness;
mod load;
mod power;
mod resize;
mod shrink;
mod sizes;
#[path = "../common/table/mod.rs"]
mod table;
