//! A number whose thread has ended and still holds a guard: `Epochs::unpin` of `pmem/src/epoch.rs`,
//! `Number` of `pmem/src/sync/native/thread.rs`.
//!
//! Property: two threads never store to the words of one number's line at the same time, and the
//! later owner's pin is not overwritten by what the earlier one stored before.

mod explore;
mod plain;

use explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use plain::{Plain, RACE};
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    looks_at_holds: bool,
    unpin_depth: Ordering,
    look: Ordering,
}

const PRODUCTION: Protocol =
    Protocol { looks_at_holds: true, unpin_depth: Ordering::Release, look: Ordering::Acquire };

struct Line {
    protocol: Protocol,
    depth: AtomicU64,
    /// The pin, and whatever else the owner of the number stores plainly.
    pin: Plain,
}

impl Line {
    /// What an ended thread does when its last guard is dropped.
    fn unpin(&self) {
        self.pin.read();
        self.pin.write();
        self.depth.store(0, self.protocol.unpin_depth);
    }

    /// A new thread takes the number, if nothing is held under it, and pins.
    fn take_and_pin(&self) {
        if self.protocol.looks_at_holds && self.depth.load(self.protocol.look) != 0 {
            return;
        }
        self.depth.store(1, Ordering::Relaxed);
        self.pin.write();
    }
}

fn ended_and_new(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let line = Arc::new(Line { protocol, depth: AtomicU64::new(1), pin: Plain::default() });
        let shared = Arc::clone(&line);
        let ended = thread::spawn(move || shared.unpin());
        line.take_and_pin();
        ended.join().unwrap();
    }
}

#[test]
fn a_number_is_one_threads_at_a_time() {
    holds(None, ended_and_new(PRODUCTION));
}

#[test]
fn spoilt_number_given_on_at_once() {
    breaks(RACE, None, ended_and_new(Protocol { looks_at_holds: false, ..PRODUCTION }));
}

#[test]
fn spoilt_unpin_relaxed() {
    let unpin_depth = Ordering::Relaxed;
    breaks(RACE, None, ended_and_new(Protocol { unpin_depth, ..PRODUCTION }));
}

#[test]
fn spoilt_look_relaxed() {
    breaks(RACE, None, ended_and_new(Protocol { look: Ordering::Relaxed, ..PRODUCTION }));
}
