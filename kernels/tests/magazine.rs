//! A thread's magazine of freed slots, another thread that takes all of them, and the emptying of a segment whose slots
//! are in a magazine: `Magazine::take`, `add` and `take_all` of `pmem/src/heap/magazine.rs`, and `Heap::drain` of
//! `pmem/src/heap/compact.rs`.
//!
//! Property: no slot belongs to two threads, and what a thread reads in a segment that it empties does not change
//! meanwhile. A slot is plain memory, which the thread that gets it writes.

use crate::explore::{breaks, holds};
use crate::plain::{Plain, RACE};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    takes_by_exchange: bool,
    adds_a_version: bool,
    add: Ordering,
    /// What the thread that empties the segment does.
    waits_before_recall: bool,
    waits_after_recall: bool,
    recalls: bool,
}

const PRODUCTION: Protocol = Protocol {
    takes_by_exchange: true,
    adds_a_version: true,
    add: Ordering::Release,
    waits_before_recall: true,
    waits_after_recall: true,
    recalls: true,
};

const LEN_MASK: u64 = 0xff;
const VERSION: u64 = 0x100;

struct Heap {
    protocol: Protocol,
    count: AtomicU64,
    slots: [AtomicU64; 2],
    /// Each slot's bit in the segment's bitmap.
    free: [AtomicBool; 3],
    memory: [Plain; 3],
    is_draining: AtomicBool,
    is_pinned: AtomicBool,
}

impl Heap {
    /// The slots below `len` are in the magazine, the others are the owner's.
    fn new(protocol: Protocol, len: u64) -> Arc<Heap> {
        Arc::new(Heap {
            protocol,
            count: AtomicU64::new(len),
            slots: [AtomicU64::new(0), AtomicU64::new(1)],
            free: Default::default(),
            memory: Default::default(),
            is_draining: AtomicBool::new(false),
            is_pinned: AtomicBool::new(false),
        })
    }

    fn fill(&self, slot: u64) {
        self.memory[slot as usize].write();
        self.memory[slot as usize].read();
    }

    fn take(&self) -> Option<u64> {
        loop {
            let count = self.count.load(Ordering::Relaxed);
            let last = (count & LEN_MASK).checked_sub(1)?;
            let slot = self.slots[last as usize].load(Ordering::Relaxed);
            let is_taken = if self.protocol.takes_by_exchange {
                let (relaxed, less) = (Ordering::Relaxed, count - 1);
                self.count.compare_exchange(count, less, relaxed, relaxed).is_ok()
            } else {
                self.count.store(count - 1, Ordering::Relaxed);
                true
            };
            if is_taken {
                return Some(slot);
            }
        }
    }

    fn add(&self, slot: u64) {
        loop {
            let count = self.count.load(Ordering::Relaxed);
            self.slots[(count & LEN_MASK) as usize].store(slot, Ordering::Relaxed);
            let more = count + 1 + if self.protocol.adds_a_version { VERSION } else { 0 };
            let shown =
                self.count.compare_exchange(count, more, self.protocol.add, Ordering::Relaxed);
            if shown.is_ok() {
                return;
            }
        }
    }

    fn take_all(&self) -> Vec<u64> {
        loop {
            let count = self.count.load(Ordering::Acquire);
            let slots: Vec<u64> = self.slots[..(count & LEN_MASK) as usize]
                .iter()
                .map(|slot| slot.load(Ordering::Relaxed))
                .collect();
            let none = count & !LEN_MASK;
            let taken = slots.is_empty()
                || self
                    .count
                    .compare_exchange(count, none, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if taken {
                return slots;
            }
        }
    }

    fn pinned(&self, act: impl FnOnce()) {
        self.is_pinned.store(true, Ordering::Relaxed);
        // Like the barriers of an epoch's pin and scan.
        fence(Ordering::SeqCst);
        act();
        self.is_pinned.store(false, Ordering::Release);
    }

    /// Whether the owner was unpinned once since the call.
    fn has_passed(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.is_pinned.load(Ordering::Acquire)
    }

    /// The owner frees a slot whose item nobody can hold.
    fn reclaim(&self, slot: u64) {
        if self.is_draining.load(Ordering::SeqCst) {
            self.free[slot as usize].store(true, Ordering::Release);
        } else {
            self.add(slot);
        }
    }

    /// Empties the segment of all slots; gives up if it would have to wait for the owner.
    fn empty_segment(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        if self.protocol.waits_before_recall && !self.has_passed() {
            return;
        }
        if self.protocol.recalls {
            for slot in self.take_all() {
                self.free[slot as usize].store(true, Ordering::Release);
            }
        }
        if self.protocol.waits_after_recall && !self.has_passed() {
            return;
        }
        for (is_free, memory) in self.free.iter().zip(&self.memory) {
            // A free slot is the segment's next user's; a taken one holds a whole item.
            if is_free.load(Ordering::Acquire) { memory.write() } else { memory.read() }
        }
    }
}

/// The owner holds the last slot, takes another one, and frees the one it held; another thread takes all.
fn owner_and_thief(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let heap = Heap::new(protocol, 2);
        let shared = Arc::clone(&heap);
        let thief = thread::spawn(move || {
            shared.take_all().into_iter().for_each(|slot| shared.fill(slot));
        });
        let taken = heap.take();
        heap.fill(2);
        heap.add(2);
        taken.into_iter().for_each(|slot| heap.fill(slot));
        thief.join().unwrap();
    }
}

/// The owner frees a slot, and later fills one, pinned each time; another thread empties their segment.
fn owner_and_compactor(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let heap = Heap::new(protocol, 1);
        let shared = Arc::clone(&heap);
        let compactor = thread::spawn(move || shared.empty_segment());
        heap.pinned(|| heap.reclaim(1));
        heap.pinned(|| heap.take().into_iter().for_each(|slot| heap.fill(slot)));
        compactor.join().unwrap();
    }
}

#[test]
fn no_slot_is_two_threads() {
    holds(None, owner_and_thief(PRODUCTION));
}

#[test]
fn an_emptied_segment_is_still() {
    holds(None, owner_and_compactor(PRODUCTION));
}

#[test]
fn spoilt_take_by_a_store() {
    breaks(RACE, None, owner_and_thief(Protocol { takes_by_exchange: false, ..PRODUCTION }));
}

/// A count that comes back may have other slots under it.
#[test]
fn spoilt_count_without_version() {
    breaks(RACE, None, owner_and_thief(Protocol { adds_a_version: false, ..PRODUCTION }));
}

/// The thief may not see which slots they are, nor what was done with them before.
#[test]
fn spoilt_relaxed_add() {
    breaks(RACE, None, owner_and_thief(Protocol { add: Ordering::Relaxed, ..PRODUCTION }));
}

/// A thread that has not seen the mark adds a slot to the magazine after the recall.
#[test]
fn spoilt_recall_at_once() {
    let protocol = Protocol { waits_before_recall: false, ..PRODUCTION };
    breaks(RACE, None, owner_and_compactor(protocol));
}

/// A thread that took a slot before the recall may still fill it.
#[test]
fn spoilt_look_at_once() {
    breaks(RACE, None, owner_and_compactor(Protocol { waits_after_recall: false, ..PRODUCTION }));
}

/// A slot that stays in a magazine may be filled at any time.
#[test]
fn spoilt_magazines_not_recalled() {
    breaks(RACE, None, owner_and_compactor(Protocol { recalls: false, ..PRODUCTION }));
}
