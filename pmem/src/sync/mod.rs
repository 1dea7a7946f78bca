//! All shared volatile state: atomics, spinning, per-thread lines, sidecar arrays.
//!
//! Engines, heap and epochs share volatile state only through these. In production they are
//! plain atomics (`native`). Under the feature `simulated`, which only the crash lab's copy of
//! this crate has, each access is a scheduling point of a simulated machine; the code above does
//! not know.

mod array;
#[cfg(not(feature = "simulated"))]
mod native;
mod per_thread;
#[cfg(feature = "simulated")]
pub mod simulated;

#[cfg(not(feature = "simulated"))]
use native as platform;
#[cfg(feature = "simulated")]
use simulated as platform;

#[cfg(all(test, not(feature = "simulated")))]
pub(crate) use native::give_up_number;

pub use array::{Array, Line, Zeroable};
pub use per_thread::PerThread;
use platform::pages;
pub(crate) use platform::register_process;
pub use platform::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex, THREADS_MAX, fence, forks, heavy_barrier,
    light_barrier, pause, spin, thread_index,
};
pub(crate) use platform::{hold, release, thread_indices_end};
pub use std::sync::atomic::Ordering;
