//! The deduplication index behind `firndex demo`.
//!
//! A parent process cuts the files into chunks (`walk`, `plan`), hands the chunks to a child that
//! stores them (`writer`, over the pipes of `wire`), kills the child at random counts of reported
//! chunks (`supervise`), and after each kill looks whether all that was reported is there
//! (`verify`). `session` is the whole run, `outcome` what is told of it.

pub(crate) mod interrupt;
mod outcome;
pub(crate) mod plan;
pub(crate) mod random;
pub(crate) mod session;
mod supervise;
mod tempo;
mod verify;
pub(crate) mod walk;
mod wire;
pub(crate) mod writer;
