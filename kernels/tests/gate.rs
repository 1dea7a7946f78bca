//! The gate: `Gate::enter`, `leave`, `close` and `set` of `pmem/src/pool/gate.rs`.
//!
//! Property: a writer that got in is waited for, and one that comes after the gate has been opened
//! again sees what the closer did. What writers and closer do is plain memory, which they must
//! not use at once: writers write it and the closer reads it.
//!
//! The light and the heavy barrier are `SeqCst` fences here, as in the kernel of epochs.

mod explore;
mod plain;

use explore::{breaks, holds};
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;
use plain::{Plain, RACE};
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    enter_barrier: bool,
    close_barrier: bool,
    waits: bool,
    enter: Ordering,
    leave: Ordering,
    wait: Ordering,
    set: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    enter_barrier: true,
    close_barrier: true,
    waits: true,
    enter: Ordering::Acquire,
    leave: Ordering::Release,
    wait: Ordering::Acquire,
    set: Ordering::Release,
};

const OPEN: u32 = 0;
const SYNCING: u32 = 2;

struct Gate {
    protocol: Protocol,
    state: AtomicU32,
    announced: AtomicU64,
    pool: Plain,
}

impl Gate {
    fn enter(&self) -> bool {
        self.announced.store(self.announced.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if self.protocol.enter_barrier {
            fence(Ordering::SeqCst);
        }
        if self.state.load(self.protocol.enter) == OPEN {
            return true;
        }
        self.leave();
        false
    }

    fn leave(&self) {
        self.announced.store(self.announced.load(Ordering::Relaxed) - 1, self.protocol.leave);
    }

    fn close(&self) {
        self.state.store(SYNCING, self.protocol.set);
        if self.protocol.close_barrier {
            fence(Ordering::SeqCst);
        }
        while self.announced.load(self.protocol.wait) != 0 && self.protocol.waits {
            thread::yield_now();
        }
    }
}

/// A writer that tries twice beside one sync.
fn model(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let gate = Arc::new(Gate {
            protocol,
            state: AtomicU32::new(OPEN),
            announced: AtomicU64::new(0),
            pool: Plain::default(),
        });
        let shared = Arc::clone(&gate);
        let writer = thread::spawn(move || {
            for _ in 0..2 {
                if shared.enter() {
                    shared.pool.write();
                    shared.leave();
                }
            }
        });
        gate.close();
        gate.pool.read();
        gate.state.store(OPEN, protocol.set);
        writer.join().unwrap();
    }
}

#[test]
fn a_writer_that_got_in_is_waited_for() {
    holds(None, model(PRODUCTION));
}

#[test]
fn spoilt_enter_without_barrier() {
    breaks(RACE, None, model(Protocol { enter_barrier: false, ..PRODUCTION }));
}

#[test]
fn spoilt_close_without_barrier() {
    breaks(RACE, None, model(Protocol { close_barrier: false, ..PRODUCTION }));
}

#[test]
fn spoilt_close_that_does_not_wait() {
    breaks(RACE, None, model(Protocol { waits: false, ..PRODUCTION }));
}

#[test]
fn spoilt_enter_relaxed() {
    breaks(RACE, None, model(Protocol { enter: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_leave_relaxed() {
    breaks(RACE, None, model(Protocol { leave: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_wait_relaxed() {
    breaks(RACE, None, model(Protocol { wait: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_set_relaxed() {
    breaks(RACE, None, model(Protocol { set: Ordering::Relaxed, ..PRODUCTION }));
}
