//! A thread's cache of free slots, and another thread that empties it: `Cache::take`, `lock` and `set`, and
//! `Heap::recall_caches`, of `pmem/src/heap/cache.rs`.
//!
//! Property: no slot belongs to two threads. A slot is plain memory, which the thread that gets it writes.

use crate::explore::{breaks, holds};
use crate::plain::{Plain, RACE};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    takes_by_exchange: bool,
    thief_locks: bool,
}

const PRODUCTION: Protocol = Protocol { takes_by_exchange: true, thief_locks: true };

const LOCKED: u64 = 1 << 7;
/// Slots of a segment.
const SLOTS: u32 = 2;
const NO_PLACE: u64 = 0;

/// Two segments of two slots; a place is a segment's number, from 1.
struct Heap {
    protocol: Protocol,
    place: AtomicU64,
    bits: AtomicU64,
    free: [AtomicU64; 2],
    slots: [Plain; 4],
}

impl Heap {
    /// The first segment's slots are in the cache, the second one's are free.
    fn new(protocol: Protocol) -> Arc<Heap> {
        Arc::new(Heap {
            protocol,
            place: AtomicU64::new(1),
            bits: AtomicU64::new(0b11),
            free: [AtomicU64::new(0), AtomicU64::new(0b11)],
            slots: Default::default(),
        })
    }

    fn use_slot(&self, segment: u64, bit: u32) {
        let slot = &self.slots[(segment as u32 - 1) as usize * SLOTS as usize + bit as usize];
        slot.write();
        slot.read();
    }

    fn take(&self) -> Option<(u64, u32)> {
        loop {
            let bits = self.bits.load(Ordering::Relaxed);
            if bits == 0 {
                return None;
            }
            let place = self.place.load(Ordering::Acquire) & !LOCKED;
            let rest = bits & (bits - 1);
            let is_taken = if self.protocol.takes_by_exchange {
                self.bits.compare_exchange(bits, rest, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            } else {
                self.bits.store(rest, Ordering::Relaxed);
                true
            };
            if is_taken && place != NO_PLACE {
                return Some((place, bits.trailing_zeros()));
            }
        }
    }

    fn try_lock(&self, locks: bool) -> Option<u64> {
        let place = self.place.load(Ordering::Relaxed);
        if place == NO_PLACE || place & LOCKED != 0 {
            return None;
        }
        let locked = if locks { place | LOCKED } else { place };
        self.place
            .compare_exchange(place, locked, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then_some(place)
    }

    fn set(&self, place: u64, bits: u64) {
        if bits != 0 {
            self.bits.store(bits, Ordering::Relaxed);
        }
        self.place.store(place, Ordering::Release);
    }

    /// The owner takes a slot: from its cache, else from the second segment.
    fn allocate(&self) {
        loop {
            if let Some((segment, bit)) = self.take() {
                return self.use_slot(segment, bit);
            }
            while self.try_lock(true).is_none() && self.place.load(Ordering::Acquire) != NO_PLACE {
                thread::yield_now();
            }
            // With or without a place, go on to the second segment: the first one has nothing left.
            let bits = self.free[1].swap(0, Ordering::Acquire);
            if bits == 0 {
                return self.set(NO_PLACE, 0);
            }
            self.set(2, bits);
        }
    }

    /// Another thread puts back what is in the cache, and takes one free slot of that segment.
    fn recall(&self) {
        let Some(segment) = self.try_lock(self.protocol.thief_locks) else { return };
        let bits = self.bits.swap(0, Ordering::Relaxed);
        let free = &self.free[segment as usize - 1];
        free.fetch_or(bits, Ordering::SeqCst);
        self.set(NO_PLACE, 0);
        let bits = free.swap(0, Ordering::Acquire);
        if bits != 0 {
            self.use_slot(segment, bits.trailing_zeros());
        }
    }
}

/// The owner takes this many slots while the other thread empties its cache.
fn owner_and_thief(protocol: Protocol, allocations: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let heap = Heap::new(protocol);
        let shared = Arc::clone(&heap);
        let thief = thread::spawn(move || shared.recall());
        (0..allocations).for_each(|_| heap.allocate());
        thief.join().unwrap();
    }
}

#[test]
fn no_slot_is_two_threads() {
    for allocations in 1..=3 {
        holds(None, owner_and_thief(PRODUCTION, allocations));
    }
}

#[test]
fn spoilt_take_by_a_store() {
    let protocol = Protocol { takes_by_exchange: false, ..PRODUCTION };
    breaks(RACE, None, owner_and_thief(protocol, 2));
}

/// A thief that does not lock the place may have taken bits of another one.
#[test]
fn spoilt_thief_without_lock() {
    let protocol = Protocol { thief_locks: false, ..PRODUCTION };
    breaks(RACE, None, owner_and_thief(protocol, 3));
}
