//! The number of a thread that has ended while it still holds a guard: `Epochs::unpin` of `pmem/src/epoch.rs`, `Number`
//! of `pmem/src/sync/native/thread.rs`.
//!
//! Property: two threads never use the line of one number at the same time, and what the earlier owner stored there
//! comes before whatever the later one does.

use crate::explore::{breaks, holds};
use crate::plain::{Plain, RACE};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    holds: bool,
    give_back: Ordering,
    take: Ordering,
}

const PRODUCTION: Protocol =
    Protocol { holds: true, give_back: Ordering::Release, take: Ordering::AcqRel };

struct Number {
    protocol: Protocol,
    /// 1 if somebody has the number.
    taken: AtomicU64,
    /// The words of its line, to which the owner makes plain stores.
    line: Plain,
}

impl Number {
    fn give_back(&self) {
        self.taken.fetch_and(0, self.protocol.give_back);
    }

    /// The end of a thread that holds a guard in a thread-local: the number's destructor, then the guard's.
    fn end(&self) {
        if !self.protocol.holds {
            self.give_back();
        }
        self.line.read();
        self.line.write();
        if self.protocol.holds {
            self.give_back();
        }
    }

    /// A new thread takes the number, if it is free, and pins.
    fn take_and_pin(&self) {
        let taken = self.taken.compare_exchange(0, 1, self.protocol.take, Ordering::Relaxed);
        if taken.is_ok() {
            self.line.write();
        }
    }
}

fn ended_and_new(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let number =
            Arc::new(Number { protocol, taken: AtomicU64::new(1), line: Plain::default() });
        let shared = Arc::clone(&number);
        let ended = thread::spawn(move || shared.end());
        number.take_and_pin();
        ended.join().unwrap();
    }
}

#[test]
fn a_number_is_one_threads_at_a_time() {
    holds(None, ended_and_new(PRODUCTION));
}

#[test]
fn spoilt_number_given_back_while_something_is_held() {
    breaks(RACE, None, ended_and_new(Protocol { holds: false, ..PRODUCTION }));
}

#[test]
fn spoilt_give_back_relaxed() {
    let give_back = Ordering::Relaxed;
    breaks(RACE, None, ended_and_new(Protocol { give_back, ..PRODUCTION }));
}

#[test]
fn spoilt_take_relaxed() {
    breaks(RACE, None, ended_and_new(Protocol { take: Ordering::Relaxed, ..PRODUCTION }));
}
