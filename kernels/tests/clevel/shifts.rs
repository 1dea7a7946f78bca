//! Shifts of Clevel hashing: `take_to` and `complete_move` with `Fingerprints::set` against
//! `search_fast` and `probe`, in `engines/src/clevel`.
//!
//! Property: a search does not miss a key whose item is shifted from the front level to the back one, even if another
//! insertion claims the slot that becomes free and writes another fingerprint there.
//!
//! One slot stands for each level. A store stands for the addition that sets a byte of a fingerprint word. It is
//! weaker, since additions to the other bytes go on with what a release has begun.

use crate::explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    front_first: bool,
    redoes: bool,
    shows_before_moving: bool,
    set: Ordering,
    load_fingerprint: Ordering,
    load_word: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    front_first: true,
    redoes: true,
    shows_before_moving: true,
    set: Ordering::Release,
    load_fingerprint: Ordering::Acquire,
    load_word: Ordering::Acquire,
};

const EMPTY: u64 = 0;
const PENDING: u64 = 1;
const KEY: u64 = 7;
const OTHER: u64 = 8;
const MISSED: &str = "missed a key that was there all the time";

struct Slot {
    fingerprint: AtomicU64,
    word: AtomicU64,
}

impl Slot {
    fn holding(key: u64) -> Slot {
        Slot { fingerprint: AtomicU64::new(key), word: AtomicU64::new(key) }
    }

    fn exchange(&self, before: u64, after: u64) -> bool {
        self.word.compare_exchange(before, after, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

struct Table {
    protocol: Protocol,
    front: Slot,
    back: Slot,
}

impl Table {
    fn set(&self, slot: &Slot, key: u64) {
        slot.fingerprint.store(key, self.protocol.set);
    }

    fn shift(&self) {
        assert!(self.back.exchange(EMPTY, PENDING));
        if self.protocol.shows_before_moving {
            self.set(&self.back, KEY);
        }
        assert!(self.back.exchange(PENDING, KEY) && self.front.exchange(KEY, EMPTY));
        if !self.protocol.shows_before_moving {
            self.set(&self.back, KEY);
        }
    }

    fn insert_other(&self) {
        if self.front.exchange(EMPTY, PENDING) {
            self.set(&self.front, OTHER);
            assert!(self.front.exchange(PENDING, OTHER));
        }
    }

    fn is_shown(&self, slot: &Slot) -> bool {
        slot.fingerprint.load(self.protocol.load_fingerprint) == KEY
    }

    fn has_key(&self, slot: &Slot) -> bool {
        slot.word.load(self.protocol.load_word) == KEY
    }

    fn search(&self) -> bool {
        let (in_front, in_back) = if self.protocol.front_first {
            let in_front = self.is_shown(&self.front);
            (in_front, self.is_shown(&self.back))
        } else {
            let in_back = self.is_shown(&self.back);
            (self.is_shown(&self.front), in_back)
        };
        if in_front && self.has_key(&self.front) || in_back && self.has_key(&self.back) {
            return true;
        }
        let by_level = || {
            let levels = [&self.front, &self.back];
            levels.into_iter().any(|slot| self.is_shown(slot) && self.has_key(slot))
        };
        self.protocol.redoes && in_front && by_level()
    }
}

fn model(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let table = Table { protocol, front: Slot::holding(KEY), back: Slot::holding(EMPTY) };
        let table = Arc::new(table);
        let shared = Arc::clone(&table);
        let shifter = thread::spawn(move || shared.shift());
        let shared = Arc::clone(&table);
        let other = thread::spawn(move || shared.insert_other());
        assert!(table.search(), "{MISSED}");
        shifter.join().unwrap();
        other.join().unwrap();
    }
}

#[test]
fn a_key_that_is_shifted_is_found() {
    holds(None, model(PRODUCTION));
}

#[test]
fn spoilt_fingerprints_from_the_back() {
    breaks(MISSED, None, model(Protocol { front_first: false, ..PRODUCTION }));
}

#[test]
fn spoilt_search_that_is_not_redone() {
    breaks(MISSED, None, model(Protocol { redoes: false, ..PRODUCTION }));
}

#[test]
fn spoilt_shown_after_moving() {
    breaks(MISSED, None, model(Protocol { shows_before_moving: false, ..PRODUCTION }));
}

#[test]
fn spoilt_fingerprint_set_relaxed() {
    breaks(MISSED, None, model(Protocol { set: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_fingerprint_loaded_relaxed() {
    breaks(MISSED, None, model(Protocol { load_fingerprint: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_word_loaded_relaxed() {
    breaks(MISSED, None, model(Protocol { load_word: Ordering::Relaxed, ..PRODUCTION }));
}
