//! What the command `firndex` does, and what other commands of this repository do as it does: streams, errors,
//! progress, help, and the pools that a command line can tell.
//!
//! Data goes to stdout, everything else to stderr. The exit status is 0 for done or found, 1 for absent or a broken
//! promise, 2 for an error.

pub mod count;
pub mod engine;
pub mod failure;
pub mod format;
pub mod output;
pub mod pool;
pub mod program;
pub mod progress;
pub mod safety;
pub mod sizes;
pub mod teaching;

mod advice;
mod base64;
mod closed;
mod commands;
mod explain;
mod input;
mod interrupt;
mod limits;
mod packed;
mod quote;
mod reading;
mod typed;
mod waiting;
mod whole_file;

pub use commands::{NAME, command, run};
