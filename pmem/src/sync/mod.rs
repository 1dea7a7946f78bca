//! All shared volatile state: atomics, spinning, per-thread lines, sidecar arrays.
//!
//! Engines, heap and epochs share volatile state only through these, so that a deterministic
//! scheduler can be put under them in one place. In production they are plain atomics.

mod array;
mod barrier;
mod mutex;
mod thread;

pub use array::{Array, Line, Zeroable};
pub use barrier::{heavy_barrier, light_barrier};
pub use mutex::Mutex;
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use thread::{PerThread, THREADS_MAX, forks, thread_index};

/// What a process must have done once before it relies on this module.
pub(crate) fn register_process() {
    barrier::register();
    thread::watch_forks();
}

/// Spins before a waiting thread gives its processor away.
const SPINS_BEFORE_YIELD: u32 = 64;

/// One turn of waiting for another thread; `turn` starts at 0 and counts the turns.
///
/// After some turns the processor is given away: whoever is waited for may have been preempted.
#[inline]
pub fn spin(turn: &mut u32) {
    *turn = turn.saturating_add(1);
    if *turn < SPINS_BEFORE_YIELD {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
