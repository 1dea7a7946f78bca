//! Segment status and freed bits: `refill`, `list_if_full` and `free_slot` of `pmem/src/heap/alloc.rs`, `give_up` of
//! `pmem/src/heap/cache.rs`, `has_free` of `pmem/src/heap/segment.rs`.
//!
//! Property: a slot that is freed while its segment is given up is not lost. Either the owner takes the bit, or the
//! segment is listed, once. The thread that takes the bit comes after the last use of the slot, which is plain memory.
//!
//! Production relies on the one order of all `SeqCst` accesses, which loom does not know: it treats them as acquire and
//! release. The order matters here for two threads that each change one word and then read the other's: one of them
//! sees the other's change. So a `SeqCst` fence stands between the two `SeqCst` accesses of each thread.

use crate::explore::{breaks, holds};
use crate::plain::{Plain, RACE};
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    give_up_is_seq_cst: bool,
    release_is_seq_cst: bool,
    looks_again: bool,
    lists_by_exchange: bool,
    free: Ordering,
    take: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    give_up_is_seq_cst: true,
    release_is_seq_cst: true,
    looks_again: true,
    lists_by_exchange: true,
    free: Ordering::AcqRel,
    take: Ordering::Acquire,
};

const FULL: u32 = 1;
const LISTED: u32 = 2;
const OWNED: u32 = 3;

const LOST: &str = "lost a freed slot";
const LISTED_TWICE: &str = "listed a segment twice";

struct Segment {
    protocol: Protocol,
    status: AtomicU32,
    bits: AtomicU64,
    /// How often the segment was put on its list; a mutex protects the list.
    listings: AtomicU32,
    slots: [Plain; 2],
}

impl Segment {
    /// Returns the bits taken.
    fn take_bits(&self) -> u64 {
        if self.bits.load(Ordering::Relaxed) != 0 {
            let bits = self.bits.swap(0, self.protocol.take);
            let taken = (0..2).filter(|slot| bits & 1 << slot != 0);
            taken.for_each(|slot| self.slots[slot].write());
            return bits;
        }
        self.status.store(FULL, Ordering::Release);
        if self.protocol.give_up_is_seq_cst {
            fence(Ordering::SeqCst);
        }
        if self.protocol.looks_again && self.bits.load(Ordering::Acquire) != 0 {
            self.list_if_full();
        }
        0
    }

    fn list_if_full(&self) {
        let is_mine = if self.protocol.lists_by_exchange {
            let orderings = (Ordering::AcqRel, Ordering::Acquire);
            self.status.compare_exchange(FULL, LISTED, orderings.0, orderings.1).is_ok()
        } else {
            let is_full = self.status.load(Ordering::Acquire) == FULL;
            if is_full {
                self.status.store(LISTED, Ordering::Release);
            }
            is_full
        };
        if is_mine {
            self.listings.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn release(&self, slot: usize) {
        self.slots[slot].read();
        self.bits.fetch_or(1 << slot, self.protocol.free);
        if self.protocol.release_is_seq_cst {
            fence(Ordering::SeqCst);
        }
        if self.status.load(Ordering::Acquire) == FULL {
            self.list_if_full();
        }
    }
}

/// The owner looks at its segment `looks` times, while each of `freers` threads frees one slot of it.
fn model(protocol: Protocol, freers: usize, looks: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let segment = Arc::new(Segment {
            protocol,
            status: AtomicU32::new(OWNED),
            bits: AtomicU64::new(0),
            listings: AtomicU32::new(0),
            slots: [Plain::default(), Plain::default()],
        });
        let freers = (0..freers).map(|slot| {
            let shared = Arc::clone(&segment);
            thread::spawn(move || shared.release(slot))
        });
        let freers: Vec<_> = freers.collect();
        for _ in 0..looks {
            if segment.take_bits() == 0 {
                break;
            }
        }
        let all_freed = freers.into_iter().all(|freer| freer.join().is_ok());
        assert!(all_freed);
        let listings = segment.listings.load(Ordering::Relaxed);
        let status = segment.status.load(Ordering::Relaxed);
        let is_left = segment.bits.load(Ordering::Relaxed) != 0;
        assert!(!is_left || status != FULL, "{LOST}");
        assert!(listings <= 1, "{LISTED_TWICE}");
    }
}

#[test]
fn a_freed_slot_is_not_lost() {
    holds(None, model(PRODUCTION, 1, 2));
}

#[test]
fn a_segment_is_listed_once() {
    holds(Some(2), model(PRODUCTION, 2, 2));
}

#[test]
fn spoilt_given_up_by_release_and_acquire() {
    breaks(LOST, None, model(Protocol { give_up_is_seq_cst: false, ..PRODUCTION }, 1, 2));
}

#[test]
fn spoilt_freed_by_release_and_acquire() {
    breaks(LOST, None, model(Protocol { release_is_seq_cst: false, ..PRODUCTION }, 1, 2));
}

#[test]
fn spoilt_owner_that_does_not_look_again() {
    breaks(LOST, None, model(Protocol { looks_again: false, ..PRODUCTION }, 1, 2));
}

#[test]
fn spoilt_listing_without_exchange() {
    let protocol = Protocol { lists_by_exchange: false, ..PRODUCTION };
    breaks(LISTED_TWICE, Some(2), model(protocol, 2, 2));
}

#[test]
fn spoilt_bit_freed_relaxed() {
    breaks(RACE, None, model(Protocol { free: Ordering::Relaxed, ..PRODUCTION }, 1, 2));
}

#[test]
fn spoilt_bit_taken_relaxed() {
    breaks(RACE, None, model(Protocol { take: Ordering::Relaxed, ..PRODUCTION }, 1, 2));
}
