//! Moving a pair: `carry_out` and `move_block_1` of `engines/src/iceberg/resize.rs` against
//! `search` and `search_1` of `engines/src/iceberg/search.rs`.
//!
//! Property: a reader that looks at the source and then at the destination does not miss a key that is there all the
//! time. It may pass by the source because the fingerprint is gone or because the key is gone. Either way it must then
//! find the copy.
//!
//! Each slot is one atomic, as in `fingerprint_then_slot.rs`: the key, or 0 if it is empty.

use crate::explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    shows_before_erasing: bool,
    sources_first: bool,
    erase: Ordering,
    hide: Ordering,
    match_fence: bool,
    load_pair: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    shows_before_erasing: true,
    sources_first: true,
    erase: Ordering::Release,
    hide: Ordering::Release,
    match_fence: true,
    load_pair: Ordering::Acquire,
};

const KEY: u64 = 7;
const MISSED: &str = "missed a key that was there all the time";

struct Block {
    fingerprint: AtomicU64,
    key: AtomicU64,
}

struct Table {
    protocol: Protocol,
    source: Block,
    destination: Block,
}

impl Table {
    fn carry_out(&self) {
        let Protocol { erase, hide, shows_before_erasing, .. } = self.protocol;
        let show = || self.destination.fingerprint.store(1, Ordering::Release);
        self.destination.key.store(KEY, Ordering::Release);
        if shows_before_erasing {
            show();
        }
        self.source.key.store(0, erase);
        if !shows_before_erasing {
            show();
        }
        self.source.fingerprint.store(0, hide);
    }

    fn search_in(&self, block: &Block) -> bool {
        let is_shown = block.fingerprint.load(Ordering::Relaxed) == 1;
        if self.protocol.match_fence {
            fence(Ordering::Acquire);
        }
        is_shown && block.key.load(self.protocol.load_pair) == KEY
    }

    fn search(&self) -> bool {
        let (first, second) = if self.protocol.sources_first {
            (&self.source, &self.destination)
        } else {
            (&self.destination, &self.source)
        };
        self.search_in(first) || self.search_in(second)
    }
}

fn model(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    let block =
        |key| Block { fingerprint: AtomicU64::new(u64::from(key != 0)), key: AtomicU64::new(key) };
    move || {
        let table = Arc::new(Table { protocol, source: block(KEY), destination: block(0) });
        let shared = Arc::clone(&table);
        let mover = thread::spawn(move || shared.carry_out());
        let shared = Arc::clone(&table);
        let reader = thread::spawn(move || assert!(shared.search(), "{MISSED}"));
        mover.join().unwrap();
        reader.join().unwrap();
    }
}

#[test]
fn a_key_that_is_moved_is_found() {
    holds(None, model(PRODUCTION));
}

#[test]
fn spoilt_shown_after_erasing() {
    breaks(MISSED, None, model(Protocol { shows_before_erasing: false, ..PRODUCTION }));
}

#[test]
fn spoilt_search_that_begins_at_the_destination() {
    breaks(MISSED, None, model(Protocol { sources_first: false, ..PRODUCTION }));
}

#[test]
fn spoilt_key_erased_relaxed() {
    breaks(MISSED, None, model(Protocol { erase: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_fingerprint_erased_relaxed() {
    breaks(MISSED, None, model(Protocol { hide: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_match_without_fence() {
    breaks(MISSED, None, model(Protocol { match_fence: false, ..PRODUCTION }));
}
