//! The binary as a user runs it: what it prints where, its exit status, and what is left behind.

mod access;
mod beside;
mod caches;
mod copies;
mod demo;
mod dump;
mod durability;
mod foreign;
mod guide;
mod help;
mod load;
mod look;
mod pairs;
mod pools;
mod shrink;
mod signals;
mod sizes;
mod streams;
mod typed;
mod workspace;

/// What the tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_firndex");
