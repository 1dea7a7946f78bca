//! Rewo-Hash against its paper (*A Read-Efficient and Write-Optimized Hash Table for Intel Optane DC Persistent
//! Memory*): what its figures and algorithms promise, measured; the cached table; and pairs that are not two words.
//!
//! What every engine owes is tested by the conformance suite.

mod cache;
mod cache_amid;
mod cache_threads;
#[path = "../common/mod.rs"]
mod common;
mod cost;
mod harness;
mod load;
mod power;
mod resize;
mod sizes;
#[path = "../common/table/mod.rs"]
mod table;
