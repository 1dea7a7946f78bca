//! Lock, then geometry: `Locked`, `lock_home` of `engines/src/iceberg/ops.rs` against
//! `begin_resize`, `ensure_moved_1` and `move_if_unmoved_1` of `engines/src/iceberg/resize.rs`.
//!
//! Property: a writer that has locked its block and then finds the geometry unchanged does not write to a block that
//! has been moved. It writes to a destination only after the move, and then knows where the destination is (`base`
//! stands for the area's new extent).
//!
//! One block is doubled, and every key in it goes to the destination. What is in the blocks is plain memory. Nobody
//! waits: a thread that does not get a lock gives up, since other executions cover what it would do after waiting. An
//! attempt at a lock is a compare-and-swap here. Production sets the bit whatever it was, but loom does not order a
//! store that leaves a locked word as it is against the holder's unlocking.

use crate::explore::{breaks, holds};
use crate::plain::{Plain, RACE};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    rechecks: bool,
    lock: Ordering,
    unlock: Ordering,
    publish: Ordering,
    geometry: Ordering,
    mark_moved: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    rechecks: true,
    lock: Ordering::Acquire,
    unlock: Ordering::Release,
    publish: Ordering::Release,
    geometry: Ordering::Acquire,
    mark_moved: Ordering::Release,
};

const LOCK: u64 = 1;
const MOVED: u64 = 2;
const SMALL: u64 = 0;
const RESIZING: u64 = 1;
const SOURCE: usize = 0;
const DESTINATION: usize = 1;

const WROTE_TO_MOVED: &str = "wrote to a block that had been moved";
const NO_BASE: &str = "does not know where the destination is";

struct Table {
    protocol: Protocol,
    geometry: AtomicU64,
    base: AtomicU64,
    flags: [AtomicU64; 2],
    slots: [Plain; 2],
}

impl Table {
    fn geometry(&self) -> u64 {
        self.geometry.load(self.protocol.geometry)
    }

    fn try_lock(&self, block: usize) -> bool {
        let word = &self.flags[block];
        let free = word.load(Ordering::Relaxed) & !LOCK;
        word.compare_exchange(free, free | LOCK, self.protocol.lock, Ordering::Relaxed).is_ok()
    }

    fn unlock(&self, block: usize) {
        let word = &self.flags[block];
        word.store(word.load(Ordering::Relaxed) & !LOCK, self.protocol.unlock);
    }

    fn ensure_moved(&self, geometry: u64) -> bool {
        if self.flags[SOURCE].load(Ordering::Acquire) & MOVED != 0 {
            return true;
        }
        if !self.try_lock(SOURCE) {
            return false;
        }
        let is_current = self.geometry() == geometry;
        if is_current {
            self.move_if_unmoved();
        }
        self.unlock(SOURCE);
        is_current
    }

    fn move_if_unmoved(&self) {
        let flags = self.flags[SOURCE].load(Ordering::Relaxed);
        if flags & MOVED != 0 {
            return;
        }
        self.slots[SOURCE].read();
        self.slots[DESTINATION].write();
        self.slots[SOURCE].write();
        let kept = self.flags[DESTINATION].load(Ordering::Relaxed);
        self.flags[DESTINATION].store(kept | MOVED, self.protocol.mark_moved);
        self.flags[SOURCE].store(flags | MOVED, self.protocol.mark_moved);
    }

    fn write(&self) {
        let geometry = self.geometry();
        let home = if geometry == RESIZING { DESTINATION } else { SOURCE };
        if home == DESTINATION && !self.ensure_moved(geometry) || !self.try_lock(home) {
            return;
        }
        if !self.protocol.rechecks || self.geometry() == geometry {
            let is_moved = self.flags[home].load(Ordering::Relaxed) & MOVED != 0;
            match home {
                SOURCE => assert!(!is_moved, "{WROTE_TO_MOVED}"),
                _ => assert_eq!(self.base.load(Ordering::Relaxed), 1, "{NO_BASE}"),
            }
            self.slots[home].write();
        }
        self.unlock(home);
    }

    fn resize(&self) {
        self.base.store(1, Ordering::Relaxed);
        self.geometry.store(RESIZING, self.protocol.publish);
        self.ensure_moved(RESIZING);
    }
}

/// Writers, each with `writes` writes, during a resize.
fn model(protocol: Protocol, writers: usize, writes: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let table = Arc::new(Table {
            protocol,
            geometry: AtomicU64::new(SMALL),
            base: AtomicU64::new(0),
            flags: [AtomicU64::new(0), AtomicU64::new(0)],
            slots: [Plain::default(), Plain::default()],
        });
        let writers = (0..writers).map(|_| {
            let shared = Arc::clone(&table);
            thread::spawn(move || (0..writes).for_each(|_| shared.write()))
        });
        let writers: Vec<_> = writers.collect();
        table.resize();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
}

fn spoilt(complaint: &str, protocol: Protocol) {
    breaks(complaint, None, model(protocol, 1, 2));
}

#[test]
fn a_moved_block_is_not_written_to() {
    holds(None, model(PRODUCTION, 1, 2));
}

#[test]
fn a_moved_block_is_not_written_to_by_two_writers() {
    holds(Some(2), model(PRODUCTION, 2, 1));
}

#[test]
fn spoilt_geometry_read_before_the_lock_only() {
    spoilt(WROTE_TO_MOVED, Protocol { rechecks: false, ..PRODUCTION });
}

#[test]
fn spoilt_lock_relaxed() {
    spoilt(WROTE_TO_MOVED, Protocol { lock: Ordering::Relaxed, ..PRODUCTION });
}

#[test]
fn spoilt_unlock_relaxed() {
    spoilt(WROTE_TO_MOVED, Protocol { unlock: Ordering::Relaxed, ..PRODUCTION });
}

#[test]
fn spoilt_geometry_stored_relaxed() {
    spoilt(NO_BASE, Protocol { publish: Ordering::Relaxed, ..PRODUCTION });
}

#[test]
fn spoilt_geometry_loaded_relaxed() {
    spoilt(NO_BASE, Protocol { geometry: Ordering::Relaxed, ..PRODUCTION });
}

#[test]
fn spoilt_moved_mark_relaxed() {
    spoilt(RACE, Protocol { mark_moved: Ordering::Relaxed, ..PRODUCTION });
}
