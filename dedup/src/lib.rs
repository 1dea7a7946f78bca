//! A deduplication index whose writing process is killed again and again.
//!
//! A parent process finds the files ([`walk`]) and cuts them into chunks ([`Plan`]). It hands the chunks to a child
//! that stores them ([`store_chunks`], over the pipes of `wire`), kills the child after random numbers of reported
//! chunks (`supervise`), and after each kill verifies that all reported chunks are there (`verify`). [`Demonstration`]
//! does all of that, [`Outcome`] is the result. An [`Audience`] follows it.

#![forbid(unsafe_code)]

pub mod interrupt;

mod audience;
mod crew;
mod demonstration;
mod draws;
mod error;
mod outcome;
mod plan;
mod supervise;
mod tempo;
mod verify;
mod walk;
mod wire;
mod writer;

pub use audience::{Audience, Note, Progress, Stage};
pub use demonstration::Demonstration;
pub use draws::fresh_seed;
pub use error::Error;
pub use outcome::Outcome;
pub use plan::Plan;
pub use walk::{Found, Identity, Walk, walk};
pub use writer::{die_with, store_chunks};
