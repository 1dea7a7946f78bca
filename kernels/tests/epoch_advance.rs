//! The epoch's advance: `pin`, `unpin`, `try_advance` and `reclaimable` of `pmem/src/epoch.rs`, restated for one
//! ordering.
//!
//! `epoch.rs` runs that code itself, but does not notice if the exchange that advances the epoch is relaxed: loom
//! backtracks only to the last load of the epoch, and there that is not the one that matters.
//!
//! Property: an item is not reclaimed while a reader that pinned before it was unlinked may still
//! use it. The item is plain memory: its use and its reclamation must not race.

use crate::explore::{breaks, holds};
use crate::plain::{Plain, RACE};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

const PRODUCTION: Ordering = Ordering::AcqRel;

struct Epochs {
    advance: Ordering,
    global: AtomicU64,
    pin: AtomicU64,
    item: Plain,
}

impl Epochs {
    fn try_advance(&self) {
        let epoch = self.global.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let pin = self.pin.load(Ordering::Acquire);
        if pin == 0 || pin == epoch << 1 | 1 {
            let _ = self.global.compare_exchange(epoch, epoch + 1, self.advance, Ordering::Acquire);
        }
    }
}

/// The reader holds the item, which is retired, and the one scan that its pin lets pass has passed. Two threads do the
/// other scans; the retiring thread does none.
fn scanned_by_two_others(advance: Ordering) -> impl Fn() + Send + Sync + 'static {
    move || {
        let epochs = Arc::new(Epochs {
            advance,
            global: AtomicU64::new(0),
            pin: AtomicU64::new(1),
            item: Plain::default(),
        });
        let tag = 1;
        epochs.try_advance();
        let shared = Arc::clone(&epochs);
        let reader = thread::spawn(move || {
            shared.item.read();
            shared.pin.store(0, Ordering::Release);
        });
        let scanners = [(); 2].map(|()| {
            let shared = Arc::clone(&epochs);
            thread::spawn(move || shared.try_advance())
        });
        // Loom backtracks only to the last load of the epoch. This one must be the last.
        thread::yield_now();
        if tag + 2 <= epochs.global.load(Ordering::Acquire) {
            epochs.item.write();
        }
        reader.join().unwrap();
        scanners.into_iter().for_each(|scanner| scanner.join().unwrap());
    }
}

#[test]
fn an_item_in_use_is_not_reclaimed_after_scans_of_two_other_threads() {
    holds(None, scanned_by_two_others(PRODUCTION));
}

#[test]
fn spoilt_advance_relaxed() {
    breaks(RACE, None, scanned_by_two_others(Ordering::Relaxed));
}
