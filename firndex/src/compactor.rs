//! Compacts a heap in the background, and gives its free space back to the system.

use crate::background::Background;
use crate::body::Body;
use pmem::heap::HeapUse;
use pmem::medium::{Medium as _, Memory};
use pmem::{OpenError, Pool};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::park_timeout;
use std::time::Duration;

/// How long it sleeps between two looks, at least and at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(10);
/// A look takes processor time for each segment of the heap. It sleeps this many times as long. By the clock, a thread
/// that lost its processor amid a look would sleep for many seconds.
const REST: u32 = 100;
/// How long it sleeps between two steps, so that it takes no processor from writers for long.
const STEP_PAUSE: Duration = Duration::from_micros(100);

/// A thread that compacts. Dropped, it ends.
pub(crate) struct Compactor {
    /// Held for a step.
    turn: Arc<Mutex<()>>,
    thread: Background,
}

impl Compactor {
    /// Starts to look after `engine`, in `pool`: whenever more than `free_max` of the heap's space is free.
    pub(crate) fn start(
        engine: Arc<dyn Body>,
        pool: Arc<Pool<Memory>>,
        free_max: f64,
    ) -> Result<Compactor, OpenError> {
        let turn = Arc::new(Mutex::new(()));
        let turns = Arc::clone(&turn);
        let spawned = Background::start("firndex-compactor", move |is_stopped| {
            Work { engine, pool, free_max, is_stopped, turn: turns }.run();
        });
        let thread = spawned.map_err(|source| OpenError::Io {
            action: "starting the thread that compacts (`Options::compact_at`) for",
            path: "the pool".into(),
            source,
        })?;
        Ok(Compactor { turn, thread })
    }

    /// Tells it to end, and does not wait.
    pub(crate) fn stop(&self) {
        self.thread.stop();
    }

    /// Keeps it from taking steps while the result is held; waits for the one that it is in. Not for a forked child.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        held(&self.turn)
    }
}

/// Locks it. It guards nothing that a panic could spoil.
fn held(turn: &Mutex<()>) -> MutexGuard<'_, ()> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Work<'a> {
    engine: Arc<dyn Body>,
    pool: Arc<Pool<Memory>>,
    free_max: f64,
    is_stopped: &'a AtomicBool,
    turn: Arc<Mutex<()>>,
}

impl Work<'_> {
    fn run(&self) {
        let mut futile_looks = 0;
        loop {
            let began = processor_time();
            let is_due = is_due(&self.engine.heap_use(), self.free_max);
            let look = processor_time().saturating_sub(began);
            // What cannot be moved or given back now may stay so for long.
            futile_looks = if is_due && !self.compact() { futile_looks + 1 } else { 0 };
            let longer = LOOK_EVERY * (1 << futile_looks.min(10));
            park_timeout(longer.min(LOOK_EVERY_MAX).max(look * REST));
            if self.is_stopped() {
                return;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Moves together what can be, and gives back what is free then. Returns whether anything came of it.
    fn compact(&self) -> bool {
        let moved = self.step_by_step(|| self.engine.compact());
        let given_back = self.step_by_step(|| self.engine.give_back());
        moved + given_back > 0
    }

    /// Takes a step with the right to write, until one does nothing. In steps, since a sync waits for each.
    fn step_by_step(&self, step: impl Fn() -> u64) -> u64 {
        let mut bytes = 0;
        while !self.is_stopped() {
            let turn = held(&self.turn);
            // A pool that was synced stays clean.
            let Some(write) = self.pool.gate().enter() else { break };
            let done = step();
            // Nothing needs to know soon which segments were given back. But a pool that is restored after power loss
            // has space for those of which the log does not say so.
            self.pool.medium().fence();
            drop(write);
            drop(turn);
            if done == 0 {
                break;
            }
            bytes += done;
            std::thread::sleep(STEP_PAUSE);
        }
        bytes
    }
}

/// What this thread has had of processors.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Whether more than `free_max` of the space that the heap has is free.
fn is_due(space: &HeapUse, free_max: f64) -> bool {
    let held_bytes = space.pool_bytes.saturating_sub(space.vacant_bytes);
    let free_bytes = held_bytes.saturating_sub(space.used_bytes);
    free_bytes as f64 > free_max * held_bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// As a thread does that another one has driven off its processor.
    #[test]
    fn who_sleeps_has_no_processor_time() {
        let (began, began_by_clock) = (processor_time(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let took = processor_time().saturating_sub(began);
        assert!(took < began_by_clock.elapsed() / 2, "{took:?}");
    }

    #[test]
    fn it_is_due_above_the_part_of_what_the_heap_holds() {
        let space =
            |pool_bytes, vacant_bytes, used_bytes| HeapUse { pool_bytes, used_bytes, vacant_bytes };
        assert!(is_due(&space(1000, 0, 499), 0.5) && !is_due(&space(1000, 0, 500), 0.5));
        assert!(is_due(&space(1000, 600, 199), 0.5) && !is_due(&space(1000, 600, 200), 0.5));
        assert!(!is_due(&space(0, 0, 0), 0.5) && !is_due(&space(1000, 1000, 0), 0.5));
    }
}
