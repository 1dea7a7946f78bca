//! How fast the engines are, beside the machine's ceilings and what else a user would pick.
//!
//! * [`Map`] is what is measured, [`Contender`] how to make one; other authors' maps join by
//!   implementing the one and wrapping it in an [`Opener`].
//! * A *suite* measures contenders in turn, round after round, and checks every answer while the
//!   clock runs. Each round begins with the [`ceilings`] of the same machine, medium and size.
//! * What comes of it is a list of [`Row`]s: medians over the rounds, with their spread.

#![forbid(unsafe_code)]

pub mod ceilings;
pub mod contender;
pub mod crew;
pub mod direct;
pub mod effort;
pub mod filling;
pub mod html;
pub mod keys;
pub mod latencies;
pub mod machine;
pub mod map;
pub mod options;
mod preflight;
pub mod report;
pub mod row;
mod run;
pub mod suite;
pub mod table;

pub use contender::{Contender, Medium, Opener, Setting};
pub use map::{Batched, Facts, Failure, Map};
pub use options::Options;
pub use row::Row;
pub use run::run;
