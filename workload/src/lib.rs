//! What a benchmark does to a table, made before its clock starts.
//!
//! * [`ranks`]: which record is asked for: uniform, sequential, shuffled, scrambled zipfian,
//!   latest.
//! * [`operations`]: what is done to it: YCSB, mixes with misses, a simulated cache.
//! * [`trace`]: what a cache is asked for: which keys, how large, how long they live.
//!
//! A **rank** is a record's number in the order of loading, from 0. [`Scatter`] turns ranks into
//! keys, one to one, so that different ranks have different keys and the keys of ranks that are
//! never loaded are certainly absent.
//!
//! Everything follows from a seed. A [`Part`] gives each thread a share of its own: threads draw
//! from the same distribution, with the same records popular, but insert and remove different
//! records, so each thread knows in advance what its operations must find. The one reservation:
//! zipfian draws rest on the platform's `pow`, whose last bit may differ between platforms; at 2^27
//! records that can change about one draw in a million.
//!
//! ```
//! use workload::operations::{Mix, MixStream, Operation, Ycsb};
//! use workload::{Part, Scatter};
//!
//! let (records, seed) = (1_000_000, 42);
//! let scatter = Scatter::new(seed);
//! let streams: Vec<Vec<Operation>> = Part::all(2)
//!     .map(|part| {
//!         let mix = Mix::ycsb(Ycsb::A);
//!         Ok(MixStream::new(&mix, records, scatter, seed, part)?.take(10_000).collect())
//!     })
//!     .collect::<Result<_, workload::ParameterError>>()?;
//!
//! let updates = streams[0].iter().filter(|op| matches!(op, Operation::Update(_))).count();
//! assert!((4_700..5_300).contains(&updates));
//! assert_ne!(streams[0], streams[1]);
//! # Ok::<(), workload::ParameterError>(())
//! ```

#![forbid(unsafe_code)]

pub mod effort;
pub mod operations;
pub mod ranks;
pub mod trace;

mod error;
mod part;
mod permutation;
mod random;
mod scatter;

pub use error::ParameterError;
pub use part::Part;
pub use permutation::Permutation;
pub use random::{Random, mix, spread};
pub use scatter::{FIRST_ABSENT_RANK, Scatter};
