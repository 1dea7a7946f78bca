//! Fingerprint, then slot, then lock bit: `fill_slot`, `change_slot`, `set_lane` and `matches_1` of
//! `engines/src/iceberg/block.rs`, `read`, `is_locked` and `persist_observed` of `engines/src/iceberg/search.rs`.
//!
//! Property: what a look-up answers, a value or an absence, is durable by then, and it never answers a value that was
//! not stored with the key. A reader that meets a pair whose writer is not done sees the lock bit and persists the pair
//! itself.
//!
//! A slot's pair is read in one step and changed word by word, for which loom has no access. Here one atomic holds the
//! number of the stage that the pair has reached in a mutation. This assumes that both words of a pair are coherent as
//! one, which the medium promises for `load_pair` and `store_release`. The durable copy is another atomic, which a
//! flush with its fence brings up to the slot. It is read relaxed, so a reader must know of the writer's flush, not
//! only come after it. The fingerprint is not in the word of the lock bit, which is the weaker of the two cases.

use crate::explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    /// The store of the key or value by which a mutation takes effect.
    store: Ordering,
    show: Ordering,
    unlock: Ordering,
    match_fence: bool,
    load_pair: Ordering,
    look_at_lock: Ordering,
    helps: bool,
    persists_empty: bool,
}

const PRODUCTION: Protocol = Protocol {
    store: Ordering::Release,
    show: Ordering::Release,
    unlock: Ordering::Release,
    match_fence: true,
    load_pair: Ordering::Acquire,
    look_at_lock: Ordering::Acquire,
    helps: true,
    persists_empty: true,
};

/// A pair of key and value at each stage of a mutation; key 0 is an empty slot.
#[derive(Clone, Copy)]
struct Mutation {
    stages: &'static [(u64, u64)],
    shown_before: bool,
    shown_after: bool,
}

const INSERTION: Mutation =
    Mutation { stages: &[(0, OLD), (0, NEW), (KEY, NEW)], shown_before: false, shown_after: true };
/// An insertion into a slot under whose old, equal fingerprint a reader may still look.
const REINSERTION: Mutation = Mutation { shown_before: true, ..INSERTION };
const UPDATE: Mutation =
    Mutation { stages: &[(KEY, OLD), (KEY, NEW)], shown_before: true, shown_after: true };
const REMOVAL: Mutation =
    Mutation { stages: &[(KEY, OLD), (0, OLD)], shown_before: true, shown_after: false };

const KEY: u64 = 7;
const OLD: u64 = 1;
const NEW: u64 = 2;
const LOCK: u64 = 1;

const NOT_DURABLE: &str = "answered what is not durable";
const TORN: &str = "answered a value that was not stored with the key";

struct Block {
    protocol: Protocol,
    mutation: Mutation,
    flags: AtomicU64,
    fingerprint: AtomicU64,
    slot: AtomicUsize,
    durable: AtomicUsize,
}

impl Block {
    fn persist(&self) {
        self.durable.fetch_max(self.slot.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn mutate(&self) {
        let Mutation { stages, shown_before, shown_after } = self.mutation;
        assert_eq!(self.flags.fetch_or(LOCK, Ordering::Acquire), 0);
        let last = stages.len() - 1;
        (1..last).for_each(|stage| self.slot.store(stage, Ordering::Relaxed));
        self.slot.store(last, self.protocol.store);
        self.persist();
        if shown_before != shown_after {
            self.fingerprint.store(shown_after.into(), self.protocol.show);
        }
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags & !LOCK, self.protocol.unlock);
    }

    /// Looks the key up; fails if a crash may take the answer back.
    fn look_up(&self) {
        let is_shown = self.fingerprint.load(Ordering::Relaxed) == 1;
        if self.protocol.match_fence {
            fence(Ordering::Acquire);
        }
        let answered = if is_shown {
            let stage = self.slot.load(self.protocol.load_pair);
            let (key, value) = self.mutation.stages[stage];
            if key == KEY {
                let flags = self.flags.load(self.protocol.look_at_lock);
                if flags & LOCK != 0 && self.protocol.helps {
                    self.persist();
                }
                let (key_before, _) = self.mutation.stages[0];
                assert!(key_before == KEY || value == NEW, "{TORN}");
            } else if self.protocol.persists_empty {
                self.persist();
            }
            stage
        } else if self.mutation.shown_before {
            self.mutation.stages.len() - 1
        } else {
            0
        };
        assert!(self.durable.load(Ordering::Relaxed) >= answered, "{NOT_DURABLE}");
    }
}

fn model(protocol: Protocol, mutation: Mutation) -> impl Fn() + Send + Sync + 'static {
    move || {
        let block = Arc::new(Block {
            protocol,
            mutation,
            flags: AtomicU64::new(0),
            fingerprint: AtomicU64::new(mutation.shown_before.into()),
            slot: AtomicUsize::new(0),
            durable: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&block);
        let writer = thread::spawn(move || shared.mutate());
        let reader = thread::spawn(move || block.look_up());
        writer.join().unwrap();
        reader.join().unwrap();
    }
}

fn spoilt(complaint: &str, protocol: Protocol, mutation: Mutation) {
    breaks(complaint, None, model(protocol, mutation));
}

#[test]
fn what_is_answered_beside_an_insertion_is_durable() {
    holds(None, model(PRODUCTION, INSERTION));
    holds(None, model(PRODUCTION, REINSERTION));
}

#[test]
fn what_is_answered_beside_an_update_is_durable() {
    holds(None, model(PRODUCTION, UPDATE));
}

#[test]
fn what_is_answered_beside_a_removal_is_durable() {
    holds(None, model(PRODUCTION, REMOVAL));
}

#[test]
fn spoilt_key_stored_before_the_value() {
    // Under a fingerprint that is shown already: that of the slot's last pair, or another key's.
    let stages = &[(0, OLD), (KEY, OLD), (KEY, NEW)];
    spoilt(TORN, PRODUCTION, Mutation { stages, ..REINSERTION });
}

#[test]
fn spoilt_update_stored_relaxed() {
    spoilt(NOT_DURABLE, Protocol { store: Ordering::Relaxed, ..PRODUCTION }, UPDATE);
}

#[test]
fn spoilt_pair_loaded_relaxed() {
    spoilt(NOT_DURABLE, Protocol { load_pair: Ordering::Relaxed, ..PRODUCTION }, UPDATE);
}

#[test]
fn spoilt_lock_bit_read_relaxed() {
    spoilt(NOT_DURABLE, Protocol { look_at_lock: Ordering::Relaxed, ..PRODUCTION }, UPDATE);
}

#[test]
fn spoilt_unlock_relaxed() {
    spoilt(NOT_DURABLE, Protocol { unlock: Ordering::Relaxed, ..PRODUCTION }, UPDATE);
}

#[test]
fn spoilt_reader_that_does_not_help() {
    spoilt(NOT_DURABLE, Protocol { helps: false, ..PRODUCTION }, UPDATE);
}

#[test]
fn spoilt_reader_that_does_not_persist_an_empty_key() {
    spoilt(NOT_DURABLE, Protocol { persists_empty: false, ..PRODUCTION }, REMOVAL);
}

#[test]
fn spoilt_fingerprint_stored_relaxed() {
    spoilt(NOT_DURABLE, Protocol { show: Ordering::Relaxed, ..PRODUCTION }, REMOVAL);
}

#[test]
fn spoilt_match_without_fence() {
    spoilt(NOT_DURABLE, Protocol { match_fence: false, ..PRODUCTION }, REMOVAL);
}
