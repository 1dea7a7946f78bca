//! Plain atomics, the operating system's threads and memory: what production runs on.

mod barrier;
mod mutex;
pub(super) mod pages;
mod parts;
mod rw_lock;
mod shared;
mod thread;

pub(crate) use barrier::{asymmetric_light_barrier, is_asymmetric};
pub use barrier::{heavy_barrier, light_barrier};
pub use mutex::Mutex;
pub use parts::{Part, parts_of, run_parts};
pub use rw_lock::RwLock;
pub(crate) use shared::{Shared, Writers};
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, fence};
#[cfg(test)]
pub(crate) use thread::give_up_number;
pub use thread::{THREADS_MAX, forks, thread_index, upheavals};
pub(crate) use thread::{count_bus_error, hold, known_index, release, thread_indices_end};

/// What a process must have done once before it relies on this module.
pub(crate) fn register_process() {
    barrier::register();
    thread::watch_forks();
}

/// Turns before a waiting thread offers its processor to others.
const SPINS_BEFORE_YIELD: u32 = 64;
/// Turns before a waiting thread sleeps.
const TURNS_BEFORE_SLEEP: u32 = 96;
/// How long it sleeps for one turn; the kernel adds about as much.
const NAP: std::time::Duration = std::time::Duration::from_micros(50);

/// One turn of waiting for another thread; `turn` starts at 0 and counts the turns.
///
/// After some turns the processor is given away: whoever is waited for may have been preempted. Yielding does not
/// help a thread that waits for another processor's turn, and burns milliseconds; a processor that falls idle
/// takes that thread over.
#[inline]
pub fn spin(turn: &mut u32) {
    *turn = turn.saturating_add(1);
    if *turn < SPINS_BEFORE_YIELD {
        std::hint::spin_loop();
    } else {
        give_way(*turn);
    }
}

#[cold]
fn give_way(turn: u32) {
    if turn < TURNS_BEFORE_SLEEP {
        std::thread::yield_now();
    } else {
        std::thread::sleep(NAP);
    }
}

/// How long a thread sleeps that gives others time.
const PAUSE: std::time::Duration = std::time::Duration::from_micros(200);

/// Gives other threads time to end what they are doing; the caller waits for none of them.
pub fn pause() {
    std::thread::sleep(PAUSE);
}
