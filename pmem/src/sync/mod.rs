//! All shared volatile state: atomics, spinning, per-thread lines, sidecar arrays.
//!
//! Engines, heap and epochs share volatile state only through these. In production they are
//! plain atomics (`native`). Two features, each of which only a test's own copy of this crate has,
//! put another platform here; the code above does not know. Under `simulated` (the crash lab) each access
//! is a scheduling point of a simulated machine. Under `loom` (the kernels) each is one of loom's.

#[cfg(not(feature = "loom"))]
mod array;
mod asymmetric;
mod element;
mod lease;
mod loan;
#[cfg(feature = "loom")]
pub mod loom;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod native;
mod per_thread;
#[cfg(feature = "simulated")]
pub mod simulated;

#[cfg(feature = "loom")]
use loom as platform;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
use native as platform;
#[cfg(feature = "simulated")]
use simulated as platform;

#[cfg(all(test, not(any(feature = "simulated", feature = "loom"))))]
pub(crate) use native::give_up_number;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub use native::upheavals;

#[cfg(not(feature = "loom"))]
pub use array::Array;
pub use asymmetric::Asymmetric;
pub use element::{Line, Zeroable};
#[cfg(feature = "loom")]
pub use lease::take_leases_away;
pub use lease::{Lapsed, Lease, Renewal};
pub use loan::Loan;
#[cfg(feature = "loom")]
pub use loom::Array;
pub use per_thread::{Numbered, PerThread};
#[cfg(not(feature = "loom"))]
pub(crate) use platform::Shared;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub(crate) use platform::Writers;
#[cfg(not(feature = "loom"))]
use platform::pages;
pub(crate) use platform::register_process;
pub use platform::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex, Part, RwLock, THREADS_MAX, fence, forks,
    heavy_barrier, light_barrier, parts_of, pause, run_parts, spin, thread_index,
};
pub(crate) use platform::{count_bus_error, hold, known_index, release, thread_indices_end};
pub use std::sync::atomic::Ordering;
