//! How fast the engines are, beside the machine's ceilings and the other maps that a user might pick.
//!
//! * [`Map`] is what is measured, [`Contender`] how to make one. Other authors' maps join by implementing `Map` and
//!   wrapping it in an [`Opener`].
//! * A *suite* measures contenders in turn, round after round, and checks every answer while the clock runs. Each round
//!   begins with the [`ceilings`] of the same machine, medium and size.
//! * The result is a list of [`Row`]s: medians over the rounds, with their spread.

#![forbid(unsafe_code)]

pub mod bar;
mod byte_store;
mod cache;
mod caching;
pub mod ceilings;
pub mod choices;
pub mod classic;
pub mod contender;
pub mod contenders;
mod contents;
pub mod crew;
mod date;
pub mod direct;
mod durable_map;
pub mod effort;
pub mod embedded;
mod files;
pub mod filling;
pub mod ground;
pub mod html;
mod kept;
pub mod keys;
pub mod latencies;
mod lru;
pub mod machine;
pub mod map;
mod measured;
pub mod medium;
pub mod opener;
pub mod options;
mod own;
mod own_cache;
pub mod paper;
mod pool;
mod preflight;
pub mod report;
pub mod repro;
pub mod row;
mod run;
pub mod setting;
pub mod suite;
pub mod table;
pub mod threaded;
mod victim;
mod written;

pub use byte_store::{AfterKill, ByteStore, Pair, Reopens, See};
pub use cache::{Cache, Opened, Room};
pub use caching::Caching;
pub use contender::Contender;
pub use embedded::Embedded;
pub use map::{Batched, Facts, Failure, Map};
pub use measured::{End, Rows};
pub use medium::Medium;
pub use opener::Opener;
pub use options::Options;
pub use row::Row;
pub use run::run;
pub use setting::Setting;
pub use written::by_ended as written_by_ended;
