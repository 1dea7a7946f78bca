//! Slots, then whether the block is built: `build_1` and `search_slots` of `engines/src/iceberg/building.rs`, beside
//! `replace_existing` and `read`.
//!
//! Property: of a block that two threads build while a third looks a key up, the look-up gives what is durable by then,
//! and finds a key that is there all the time. Nobody changes a slot before the block is built, so what a look-up has
//! read from a block that is still not built afterwards is as old as the opening.
//!
//! As in `fingerprint_then_slot`, one atomic holds the stage that the pair has reached, and another one the stage that
//! is durable.

use super::of_one_block;
use crate::explore::{breaks, holds};
use crate::scene::beside;
use crate::scene::tables::{FILLING, KEY, NEW, filled};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    /// The store that says that the block is built. It comes after the fingerprints.
    say_built: Ordering,
    /// Whether a look-up asks once more after it has read the slots.
    asks_again: bool,
    /// Whether who builds asks once more under the lock.
    builds_once: bool,
}

const PRODUCTION: Protocol =
    Protocol { say_built: Ordering::Release, asks_again: true, builds_once: true };

const NOT_DURABLE: &str = "answered what is not durable";
const MISSED: &str = "missed a key that is there";
const COUNTED_TWICE: &str = "counted a pair twice";

struct Block {
    protocol: Protocol,
    /// Held by who has set the bit: a wait in a loop would have no end in a model.
    waiting: Mutex<()>,
    lock: AtomicU64,
    fingerprint: AtomicU64,
    is_built: AtomicU64,
    counted: AtomicU64,
    /// 0: the pair as it was when the pool was opened; 1: updated.
    slot: AtomicU64,
    durable: AtomicU64,
}

impl Block {
    fn locked(&self, work: impl FnOnce()) {
        let _waited = self.waiting.lock().unwrap();
        assert_eq!(self.lock.fetch_or(1, Ordering::Acquire), 0);
        work();
        self.lock.store(0, Ordering::Release);
    }

    fn persist(&self) {
        self.durable.fetch_max(self.slot.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn is_built(&self) -> bool {
        self.is_built.load(Ordering::Acquire) == 1
    }

    fn build(&self) {
        if self.is_built() {
            return;
        }
        self.locked(|| {
            if !(self.protocol.builds_once && self.is_built()) {
                assert_eq!(self.counted.fetch_add(1, Ordering::Relaxed), 0, "{COUNTED_TWICE}");
                self.fingerprint.store(1, Ordering::Relaxed);
                self.is_built.store(1, self.protocol.say_built);
            }
        });
    }

    fn update(&self) {
        self.build();
        self.locked(|| {
            assert_eq!(self.fingerprint.load(Ordering::Relaxed), 1, "{MISSED}");
            self.slot.store(1, Ordering::Release);
            self.persist();
        });
    }

    fn look_up(&self) {
        if !self.is_built() {
            let stage = self.slot.load(Ordering::Acquire);
            fence(Ordering::Acquire);
            if !self.protocol.asks_again || !self.is_built() {
                return self.answer(stage);
            }
        }
        assert_eq!(self.fingerprint.load(Ordering::Relaxed), 1, "{MISSED}");
        fence(Ordering::Acquire);
        let stage = self.slot.load(Ordering::Acquire);
        if self.lock.load(Ordering::Acquire) != 0 {
            self.persist();
        }
        self.answer(stage);
    }

    fn answer(&self, stage: u64) {
        assert!(self.durable.load(Ordering::Relaxed) >= stage, "{NOT_DURABLE}");
    }
}

fn model(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let block = Arc::new(Block {
            protocol,
            waiting: Mutex::new(()),
            lock: AtomicU64::new(0),
            fingerprint: AtomicU64::new(0),
            is_built: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            slot: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        });
        let [first, second] = [Arc::clone(&block), Arc::clone(&block)];
        let builder = thread::spawn(move || first.build());
        let writer = thread::spawn(move || second.update());
        block.look_up();
        builder.join().unwrap();
        writer.join().unwrap();
    }
}

#[test]
fn two_threads_build_a_block_while_a_third_looks_a_key_up() {
    holds(Some(3), model(PRODUCTION));
}

#[test]
fn a_look_up_that_does_not_ask_again_answers_what_is_not_durable() {
    breaks(NOT_DURABLE, Some(3), model(Protocol { asks_again: false, ..PRODUCTION }));
}

#[test]
fn a_block_that_is_said_to_be_built_too_early_hides_a_key() {
    breaks(MISSED, Some(3), model(Protocol { say_built: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn who_builds_without_asking_under_the_lock_builds_twice() {
    breaks(COUNTED_TWICE, Some(3), model(Protocol { builds_once: false, ..PRODUCTION }));
}

/// Whole operations. A look-up reads all slots of a block that is not built, and a model may turn to another thread at
/// each: with more than one such turn it would not come to an end.
#[test]
fn key_is_found_while_a_writer_builds_its_block() {
    let filled = filled(of_one_block(), 2.0, 2);
    beside(
        1,
        move || filled().reopened(),
        |table| table.try_put(KEY, NEW),
        |table| table.get(2),
        |_, (), found| assert_eq!(found, Some(FILLING), "missed a key that was there all the time"),
    );
}
