//! What is done, in which proportions.
//!
//! [`MixStream`] makes the operations of a [`Mix`], [`Caching`] those of a simulated cache. Both
//! are iterators, and `take(n).collect()` makes a thread's work before the clock starts.
//!
//! Operations carry keys. Their outcome is known in advance, also beside the other parts'
//! threads: what is read, updated or scanned is present, what is inserted or read as absent is
//! absent, what is removed is present and removed once.
//!
//! ```
//! use workload::operations::{Mix, MixStream, Operation, Ycsb};
//! use workload::{Part, Scatter};
//! use std::collections::HashMap;
//!
//! let (records, scatter) = (1_000, Scatter::new(42));
//! let mut table = HashMap::new();
//! for part in Part::all(2) {
//!     for operation in MixStream::new(&Mix::ycsb(Ycsb::Load), records, scatter, 42, part)? {
//!         let Operation::Insert(key) = operation else { continue };
//!         assert_eq!(table.insert(key, 0), None);
//!     }
//! }
//! assert_eq!(table.len(), 1_000);
//!
//! let reads = Mix::reads(0.1, workload::ranks::Distribution::Uniform)?;
//! for operation in MixStream::new(&reads, records, scatter, 42, Part::WHOLE)?.take(10_000) {
//!     match operation {
//!         Operation::Read(key) => assert!(table.contains_key(&key)),
//!         Operation::ReadAbsent(key) => assert!(!table.contains_key(&key)),
//!         other => panic!("{other:?} in a mix of reads"),
//!     }
//! }
//! # Ok::<(), workload::ParameterError>(())
//! ```

mod caching;
mod mix;
mod operation;
mod papers;
mod stream;

pub use caching::Caching;
pub use mix::{LONGEST_SCAN, Mix};
pub use operation::{Kind, Operation};
pub use papers::Ycsb;
pub use stream::MixStream;
