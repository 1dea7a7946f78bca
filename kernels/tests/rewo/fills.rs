//! Fills of the cached table: `fill_cache` of `engines/src/rewo/search.rs`, `mark_busy`, `complete`, `insert` and
//! `search` of `engines/src/rewo/cache/mod.rs`, and the steps of a writer in `engines/src/rewo/ops.rs` and `bucket.rs`.
//!
//! Property: a look-up that comes after one that found the new value does not find the old one, whatever another
//! look-up's fill does meanwhile. Nobody finds a value that is not durable.
//!
//! One bucket of each table, one slot in each, and one key, whose value is two words in the cached table. A look-up
//! that meets a bucket in the middle of a change gives up instead of looking again: in another execution it comes
//! later. Fills that do not get the home give up, too, as in production.

use crate::explore::{breaks, holds};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    /// The writer marks the entry before its change can be seen.
    marks_busy: bool,
    /// The writer corrects the entry only when its change is durable.
    completes_last: bool,
    /// The fill takes the home's lock.
    locks_home: bool,
    /// The fill checks the bucket's version again, under that lock.
    looks_again: bool,
    /// A look-up checks the entry's version again.
    rechecks: bool,
    lock: Ordering,
    unlock: Ordering,
    change: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    marks_busy: true,
    completes_last: true,
    locks_home: true,
    looks_again: true,
    rechecks: true,
    lock: Ordering::Acquire,
    unlock: Ordering::Release,
    change: Ordering::Release,
};

const OLD: u64 = 1;
const NEW: u64 = 2;

const USED: u64 = 1;
const BUSY: u64 = 2;
const VERSION: u64 = 4;

const WENT_BACK: &str = "found the old value after the new one";
const TORN: &str = "found half a value";
const NOT_DURABLE: &str = "found a value that is not durable";
const STALE: &str = "the old value is left in the cached table";

struct Tables {
    protocol: Protocol,
    home: AtomicBool,
    /// The bucket in the pool: its version, 1 while it is locked.
    state: AtomicU64,
    value: AtomicU64,
    is_durable: AtomicBool,
    /// The entry: version, busy, used.
    head: AtomicU64,
    cached: [AtomicU64; 2],
}

impl Tables {
    fn try_lock(&self) -> bool {
        let free = self.home.compare_exchange(false, true, self.protocol.lock, Ordering::Relaxed);
        free.is_ok()
    }

    fn change(&self, marks: u64) {
        let head = self.head.load(Ordering::Relaxed);
        let version = (head & !(VERSION - 1)) + VERSION;
        self.head.store(version | marks, self.protocol.change);
    }

    fn fill(&self, value: u64) {
        fence(Ordering::Release);
        self.cached.iter().for_each(|word| word.store(value, Ordering::Relaxed));
    }

    fn write(&self) {
        if !self.try_lock() {
            return;
        }
        let is_cached = self.head.load(Ordering::Relaxed) & USED != 0;
        if self.protocol.marks_busy && is_cached {
            self.change(USED | BUSY);
        }
        let version = self.state.load(Ordering::Relaxed);
        self.state.store(version | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.value.store(NEW, Ordering::Relaxed);
        if !self.protocol.completes_last && is_cached {
            self.fill(NEW);
            self.change(USED);
        }
        self.is_durable.store(true, Ordering::Release);
        self.state.store(version + VERSION, Ordering::Release);
        if self.protocol.completes_last && is_cached {
            self.fill(NEW);
            self.change(USED);
        }
        self.home.store(false, self.protocol.unlock);
    }

    /// What the cached table says.
    fn search_cached(&self) -> Option<u64> {
        let head = self.head.load(Ordering::Acquire);
        if head & USED == 0 || head & BUSY != 0 {
            return None;
        }
        let [value, rest] = [0, 1].map(|word: usize| self.cached[word].load(Ordering::Acquire));
        fence(Ordering::Acquire);
        let is_same = self.head.load(Ordering::Relaxed) == head;
        if !is_same && self.protocol.rechecks {
            return None;
        }
        assert_eq!(value, rest, "{TORN}");
        Some(value)
    }

    /// What the pool says, and the version. A thread that meets the writer in its change makes it durable.
    fn search_pool(&self) -> Option<(u64, u64)> {
        let state = self.state.load(Ordering::Acquire);
        let value = self.value.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let now = self.state.load(Ordering::Relaxed);
        if now & 1 != 0 {
            self.is_durable.store(true, Ordering::Release);
        }
        ((now ^ state) & !1 == 0).then_some((value, state & !1))
    }

    fn get(&self) -> Option<u64> {
        if let Some(value) = self.search_cached() {
            let is_durable = value == OLD || self.is_durable.load(Ordering::Acquire);
            assert!(is_durable, "{NOT_DURABLE}");
            return Some(value);
        }
        let (value, version) = self.search_pool()?;
        if !self.protocol.locks_home || self.try_lock() {
            let is_as_it_was = self.state.load(Ordering::Acquire) == version;
            if (is_as_it_was || !self.protocol.looks_again)
                && self.head.load(Ordering::Relaxed) & USED == 0
            {
                self.fill(value);
                self.change(USED);
            }
            if self.protocol.locks_home {
                self.home.store(false, self.protocol.unlock);
            }
        }
        Some(value)
    }
}

/// A writer, and a thread that looks up twice. At first the entry is there or not.
fn model(protocol: Protocol, is_cached: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let tables = Arc::new(Tables {
            protocol,
            home: AtomicBool::new(false),
            state: AtomicU64::new(0),
            value: AtomicU64::new(OLD),
            is_durable: AtomicBool::new(false),
            head: AtomicU64::new(if is_cached { USED } else { 0 }),
            cached: [AtomicU64::new(OLD), AtomicU64::new(OLD)],
        });
        let shared = Arc::clone(&tables);
        let writer = thread::spawn(move || shared.write());
        let found = [tables.get(), tables.get()];
        assert!(found != [Some(NEW), Some(OLD)], "{WENT_BACK}");
        writer.join().unwrap();
        if let Some(value) = tables.search_cached() {
            assert_eq!(value, tables.value.load(Ordering::Relaxed), "{STALE}");
        }
    }
}

#[test]
fn a_fill_does_not_bring_back_what_was_replaced() {
    for is_cached in [false, true] {
        holds(None, model(PRODUCTION, is_cached));
    }
}

#[test]
fn spoilt_entry_not_marked() {
    breaks(TORN, None, model(Protocol { marks_busy: false, ..PRODUCTION }, true));
}

#[test]
fn spoilt_entry_right_before_it_is_durable() {
    breaks(NOT_DURABLE, None, model(Protocol { completes_last: false, ..PRODUCTION }, true));
}

#[test]
fn spoilt_fill_without_the_home() {
    breaks(STALE, None, model(Protocol { locks_home: false, ..PRODUCTION }, false));
}

#[test]
fn spoilt_fill_of_what_was_read_before() {
    breaks(STALE, None, model(Protocol { looks_again: false, ..PRODUCTION }, false));
}

#[test]
fn spoilt_look_up_that_does_not_look_again() {
    breaks(TORN, None, model(Protocol { rechecks: false, ..PRODUCTION }, true));
}
