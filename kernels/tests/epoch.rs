//! Epochs: `pin`, `unpin`, `try_advance`, `reclaimable` and `Guard::retire` of
//! `pmem/src/epoch.rs`.
//!
//! Property: an item is not reclaimed while a reader that pinned before it was unlinked may still
//! use it. The item is plain memory: its use and its reclamation must not race.
//!
//! The light and the heavy barrier (`pmem::sync`) are `SeqCst` fences here: the kernel's membarrier
//! promises a pair of a compiler fence and a system call the same as a pair of such fences.

mod explore;
mod plain;

use explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use plain::{Plain, RACE};
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    pin_barrier: bool,
    scan_barrier: bool,
    looks_at_pins: bool,
    tag_ahead: u64,
    unpin: Ordering,
    scan_pin: Ordering,
    advance: Ordering,
    reclaim: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    pin_barrier: true,
    scan_barrier: true,
    looks_at_pins: true,
    tag_ahead: 1,
    unpin: Ordering::Release,
    scan_pin: Ordering::Acquire,
    advance: Ordering::AcqRel,
    reclaim: Ordering::Acquire,
};

const READER: usize = 0;
const WRITER: usize = 1;

fn pin_of(epoch: u64) -> u64 {
    epoch << 1 | 1
}

struct Epochs {
    protocol: Protocol,
    global: AtomicU64,
    pins: [AtomicU64; 2],
    /// 1: leads to the item.
    slot: AtomicU64,
    item: Plain,
}

impl Epochs {
    fn new(protocol: Protocol) -> Arc<Epochs> {
        Arc::new(Epochs {
            protocol,
            global: AtomicU64::new(0),
            pins: [AtomicU64::new(0), AtomicU64::new(0)],
            slot: AtomicU64::new(1),
            item: Plain::default(),
        })
    }

    fn pin(&self, thread: usize) {
        let epoch = self.global.load(Ordering::Relaxed);
        self.pins[thread].store(pin_of(epoch), Ordering::Relaxed);
        if self.protocol.pin_barrier {
            fence(Ordering::SeqCst);
        }
    }

    fn unpin(&self, thread: usize) {
        self.pins[thread].store(0, self.protocol.unpin);
    }

    fn try_advance(&self) {
        let epoch = self.global.load(Ordering::Acquire);
        if self.protocol.scan_barrier {
            fence(Ordering::SeqCst);
        }
        for pin in &self.pins {
            let pin = pin.load(self.protocol.scan_pin);
            if self.protocol.looks_at_pins && pin != 0 && pin != pin_of(epoch) {
                return;
            }
        }
        let advance = self.protocol.advance;
        let _ = self.global.compare_exchange(epoch, epoch + 1, advance, Ordering::Acquire);
    }

    fn read_item(&self) {
        self.pin(READER);
        if self.slot.load(Ordering::Acquire) == 1 {
            self.item.read();
        }
        self.unpin(READER);
    }

    /// Returns the tag.
    fn retire_item(&self) -> u64 {
        self.pin(WRITER);
        self.slot.store(0, Ordering::Release);
        let tag = self.global.load(Ordering::Relaxed) + self.protocol.tag_ahead;
        self.unpin(WRITER);
        tag
    }

    fn reclaim_item(&self, tag: u64) {
        if tag + 2 <= self.global.load(self.protocol.reclaim) {
            self.item.write();
        }
    }
}

/// The retiring thread advances the epoch; the reader has a scan of its own under way meanwhile.
fn two_threads(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let epochs = Epochs::new(protocol);
        let shared = Arc::clone(&epochs);
        let reader = thread::spawn(move || {
            shared.try_advance();
            shared.read_item();
        });
        let tag = epochs.retire_item();
        (0..3).for_each(|_| epochs.try_advance());
        epochs.reclaim_item(tag);
        reader.join().unwrap();
    }
}

/// Another thread scans; the retiring thread learns of these scans by the epoch alone.
fn scanned_by_another(
    protocol: Protocol,
    scans: usize,
    own_scans: usize,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let epochs = Epochs::new(protocol);
        let shared = Arc::clone(&epochs);
        let reader = thread::spawn(move || shared.read_item());
        let shared = Arc::clone(&epochs);
        let scanner = thread::spawn(move || (0..scans).for_each(|_| shared.try_advance()));
        let tag = epochs.retire_item();
        (0..own_scans).for_each(|_| epochs.try_advance());
        epochs.reclaim_item(tag);
        reader.join().unwrap();
        scanner.join().unwrap();
    }
}

/// The reader holds the item, which is retired, and the one scan that its pin lets pass has
/// passed. Two threads do the other scans, the retiring one none.
fn scanned_by_two_others(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let epochs = Epochs::new(protocol);
        epochs.pin(READER);
        let tag = epochs.retire_item();
        epochs.try_advance();
        let shared = Arc::clone(&epochs);
        let reader = thread::spawn(move || {
            shared.item.read();
            shared.unpin(READER);
        });
        let scanners = [(); 2].map(|()| {
            let shared = Arc::clone(&epochs);
            thread::spawn(move || shared.try_advance())
        });
        // Of the loads of the epoch loom backtracks to the last one only: this one is to be it.
        thread::yield_now();
        epochs.reclaim_item(tag);
        reader.join().unwrap();
        scanners.into_iter().for_each(|scanner| scanner.join().unwrap());
    }
}

#[test]
fn an_item_in_use_is_not_reclaimed() {
    holds(None, two_threads(PRODUCTION));
}

#[test]
fn an_item_in_use_is_not_reclaimed_after_scans_of_two_threads() {
    holds(Some(3), scanned_by_another(PRODUCTION, 2, 1));
}

#[test]
fn an_item_in_use_is_not_reclaimed_after_scans_of_another_thread() {
    holds(Some(2), scanned_by_another(PRODUCTION, 3, 0));
}

#[test]
fn an_item_in_use_is_not_reclaimed_after_scans_of_two_other_threads() {
    holds(None, scanned_by_two_others(PRODUCTION));
}

#[test]
fn spoilt_pin_without_barrier() {
    breaks(RACE, None, two_threads(Protocol { pin_barrier: false, ..PRODUCTION }));
}

#[test]
fn spoilt_scan_without_barrier() {
    breaks(RACE, None, two_threads(Protocol { scan_barrier: false, ..PRODUCTION }));
}

#[test]
fn spoilt_scan_that_does_not_look() {
    breaks(RACE, None, two_threads(Protocol { looks_at_pins: false, ..PRODUCTION }));
}

#[test]
fn spoilt_tag_of_the_epoch_as_read() {
    breaks(RACE, None, two_threads(Protocol { tag_ahead: 0, ..PRODUCTION }));
}

#[test]
fn spoilt_unpin_relaxed() {
    let unpin = Ordering::Relaxed;
    breaks(RACE, None, two_threads(Protocol { unpin, ..PRODUCTION }));
}

#[test]
fn spoilt_scan_relaxed() {
    let scan_pin = Ordering::Relaxed;
    breaks(RACE, Some(3), scanned_by_another(Protocol { scan_pin, ..PRODUCTION }, 2, 1));
}

#[test]
fn spoilt_advance_relaxed() {
    let advance = Ordering::Relaxed;
    breaks(RACE, None, scanned_by_two_others(Protocol { advance, ..PRODUCTION }));
}

#[test]
fn spoilt_reclaim_relaxed() {
    let reclaim = Ordering::Relaxed;
    breaks(RACE, Some(3), scanned_by_another(Protocol { reclaim, ..PRODUCTION }, 3, 0));
}
