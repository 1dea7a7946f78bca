//! Hostile input: mutants of pools, of checkpoints and logs, and of files to load, and what must hold of each.
//!
//! Each target is a function of bytes. The fuzz targets in `fuzz` call it with what libFuzzer makes up, and this
//! package's test calls it with what a seeded generator draws. The bytes choose a seed and the blows that fall on it;
//! so nearly all of them make a mutant that comes far, since checksums are made right again behind most blows.
//!
//! | target | mutant of | what must hold |
//! |---|---|---|
//! | [`open`] | a pool | it is refused or opens; reading changes nothing |
//! | [`check`] | a pool | a check ends; if it finds nothing, look-ups and scans answer as the seed's do, but for words without a checksum |
//! | [`get`] | a pool | look-ups, scans and changes end; the file does not grow beyond its limit |
//! | [`salvage`] | a pool | it ends; what comes is sound; of a store nothing comes that it never held |
//! | [`log`] | checkpoint and log | restoring is refused, or gives what the pool was at one moment |
//! | [`restored`] | checkpoint and log | as [`open`], by way of them |
//! | [`csv`], [`tsv`], [`jsonl`] | files to load | the pairs that another reader finds, or an error with the line that it finds wrong |
//!
//! Each says whether its mutant was accepted, so that the test sees that some are and some are not.
//!
//! Besides, nothing panics, hangs, faults, or takes more memory than its input allows.

#![forbid(unsafe_code)]

#[allow(dead_code, reason = "the command writes, too")]
#[path = "../../cli/src/base64.rs"]
mod base64;
mod choices;
#[path = "../../cli/src/count.rs"]
pub mod count;
mod files;
mod imports;
#[allow(dead_code, reason = "the command tells lines")]
#[path = "../../cli/src/input/mod.rs"]
mod input;
mod logs;
mod model;
mod mutant;
#[allow(dead_code, reason = "the command names files")]
#[path = "../../cli/src/packed.rs"]
mod packed;
mod pools;
#[path = "../../cli/src/quote.rs"]
mod quote;
mod seeds;
mod subject;
mod superblock;
mod words;

pub use imports::{csv, jsonl, tsv};
pub use logs::{log, restored};
pub use pools::{check, get, open, salvage};
