//! Epochs: the code of `pmem/src/epoch.rs` itself.
//!
//! Property: an item is not reclaimed while a reader that pinned before it was unlinked may still
//! use it. The item is plain memory: its use and its reclamation must not race. Besides, what waits in large amounts is
//! seen by a helper.

use pmem::epoch::{Epochs, Guard};
use pmem::sync::loom::{Plain, begin, end, explore, spawn};
use pmem::sync::{Asymmetric, AtomicU64, Numbered, Ordering, THREADS_MAX};
use std::sync::Arc;

/// An item so large that a thread that retires it scans for pins.
const LARGE_BYTES: u64 = 1 << 40;
/// The item to which the slot leads; others stand for nothing.
const ITEM: u64 = 1;
const OTHER: u64 = 2;

struct Model {
    epochs: Epochs,
    slot: AtomicU64,
    item: Plain,
}

impl Model {
    fn new() -> Arc<Model> {
        let slot = AtomicU64::new(ITEM);
        Arc::new(Model { epochs: Epochs::new().unwrap(), slot, item: Plain::default() })
    }

    fn read(&self) {
        let _guard = self.epochs.pin();
        self.read_pinned();
    }

    /// As a look-up of the hot path.
    fn read_here(&self) {
        let _guard = self.pin_here();
        self.read_pinned();
    }

    fn pin_here(&self) -> Guard<'_> {
        let thread = Numbered::this_thread().unwrap();
        self.epochs.pin_here(thread, Asymmetric::granted().unwrap())
    }

    fn read_pinned(&self) {
        if self.slot.load(Ordering::Acquire) == ITEM {
            self.item.read();
        }
    }

    fn unlink_and_retire(&self, bytes: u64) {
        let guard = self.epochs.pin();
        self.slot.store(0, Ordering::Release);
        guard.retire(ITEM, bytes, |item| self.reclaim(item));
    }

    /// Scans, and reclaims what this thread retired, if that is possible.
    fn retire_another(&self) {
        self.epochs.pin().retire(OTHER, LARGE_BYTES, |item| self.reclaim(item));
    }

    fn reclaim(&self, item: u64) {
        if item == ITEM {
            self.item.write();
        }
    }
}

type Work = fn(&Model);

/// Runs threads with these numbers along with the model's first one, which has number 0.
fn model<const N: usize>(
    first: Work,
    others: [(usize, Work); N],
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let model = Model::new();
        begin();
        let others = others.map(|(number, work)| {
            let shared = Arc::clone(&model);
            spawn(number, move || work(&shared))
        });
        first(&model);
        others.into_iter().for_each(|other| other.join().unwrap());
        end();
        model.epochs.collect(drop);
        assert!(model.epochs.retired().is_empty());
    }
}

/// Retires the item, and scans as often as it takes to reclaim it.
fn retire_and_scan(model: &Model) {
    model.unlink_and_retire(LARGE_BYTES);
    (0..3).for_each(|_| model.retire_another());
}

/// The same without pins between the scans.
fn retire_and_collect(model: &Model) {
    model.unlink_and_retire(1);
    model.epochs.collect(|item| model.reclaim(item));
}

#[test]
fn an_item_in_use_is_not_reclaimed() {
    explore(Some(4), model(retire_and_scan, [(1, Model::read)]));
}

#[test]
fn an_item_in_use_is_not_collected() {
    explore(None, model(retire_and_collect, [(1, Model::read)]));
}

#[test]
fn an_item_in_use_is_not_reclaimed_beside_a_scan_of_the_reader() {
    let scan_and_read = |model: &Model| {
        model.retire_another();
        model.read();
    };
    explore(Some(2), model(retire_and_scan, [(1, scan_and_read)]));
}

#[test]
fn an_item_in_use_is_not_reclaimed_after_scans_of_another_thread() {
    let retire = |model: &Model| {
        model.unlink_and_retire(1);
        model.retire_another();
    };
    let collect = |model: &Model| {
        model.epochs.collect(|item| model.reclaim(item));
    };
    explore(Some(2), model(retire, [(1, Model::read), (THREADS_MAX, collect)]));
}

#[test]
fn an_item_in_use_by_a_thread_without_a_number_is_not_reclaimed() {
    explore(Some(2), model(retire_and_scan, [(THREADS_MAX, Model::read)]));
    explore(Some(2), model(retire_and_collect, [(THREADS_MAX, Model::read)]));
}

#[test]
fn an_item_in_use_under_the_outer_one_of_two_pins_is_not_reclaimed() {
    let read = |model: &Model| {
        let _outer = model.epochs.pin();
        drop(model.epochs.pin());
        model.read();
    };
    for reader in [1, THREADS_MAX] {
        explore(Some(2), model(retire_and_collect, [(reader, read)]));
    }
}

#[test]
fn an_item_in_use_on_the_hot_path_is_not_reclaimed() {
    explore(Some(4), model(retire_and_scan, [(1, Model::read_here)]));
}

#[test]
fn an_item_in_use_on_the_hot_path_is_not_collected() {
    explore(None, model(retire_and_collect, [(1, Model::read_here)]));
}

#[test]
fn an_item_in_use_on_the_hot_path_is_not_reclaimed_after_scans_of_another_thread() {
    let retire = |model: &Model| {
        model.unlink_and_retire(1);
        model.retire_another();
    };
    let collect = |model: &Model| {
        model.epochs.collect(|item| model.reclaim(item));
    };
    explore(Some(2), model(retire, [(1, Model::read_here), (THREADS_MAX, collect)]));
}

#[test]
fn an_item_in_use_under_pins_within_each_other_is_not_reclaimed() {
    let here_within = |model: &Model| {
        let _outer = model.epochs.pin();
        drop(model.pin_here());
        model.read_here();
    };
    let here_outside = |model: &Model| {
        let _outer = model.pin_here();
        drop(model.epochs.pin());
        model.read();
    };
    for read in [here_within as Work, here_outside] {
        explore(Some(2), model(retire_and_collect, [(1, read)]));
    }
}

/// The reader holds the item, which is retired. A scan that finds the reader pinned anew knows what it did before.
#[test]
fn an_item_in_use_under_an_earlier_pin_is_not_reclaimed() {
    let pins: [fn(&Model) -> Guard<'_>; 2] = [|model| model.epochs.pin(), Model::pin_here];
    for pin in pins {
        explore(Some(4), move || {
            let model = Model::new();
            let guard = model.epochs.pin();
            guard.retire(ITEM, 1, drop);
            begin();
            let collector = {
                let shared = Arc::clone(&model);
                spawn(1, move || {
                    shared.epochs.collect(|item| shared.reclaim(item));
                })
            };
            model.item.read();
            drop(guard);
            (0..2).for_each(|_| drop(pin(&model)));
            collector.join().unwrap();
            end();
        });
    }
}

/// The reader holds the item, which is retired. One collector learns of the reader's end only from the scans of the
/// other collector.
#[test]
fn an_item_in_use_is_not_reclaimed_beside_two_collectors() {
    explore(Some(2), || {
        let model = Model::new();
        begin();
        let guard = model.epochs.pin();
        model.slot.store(0, Ordering::Release);
        guard.retire(ITEM, 1, drop);
        let collectors = [1, THREADS_MAX].map(|number| {
            let shared = Arc::clone(&model);
            spawn(number, move || {
                shared.epochs.collect(|item| shared.reclaim(item));
            })
        });
        model.item.read();
        drop(guard);
        collectors.into_iter().for_each(|collector| collector.join().unwrap());
        end();
    });
}

/// A helper that finds nothing overdue goes to sleep, and nobody wakes it before still more waits.
#[test]
fn what_is_overdue_under_a_pin_is_so_to_all_who_look() {
    explore(Some(2), || {
        let model = Model::new();
        begin();
        let scan = model.epochs.pin();
        let retire = |item| model.epochs.pin().retire(item, LARGE_BYTES, drop);
        assert!(retire(ITEM));
        let helper = {
            let shared = Arc::clone(&model);
            spawn(1, move || {
                shared.epochs.collect(drop);
                assert!(shared.epochs.is_overdue(), "overlooked");
            })
        };
        assert!(!retire(OTHER), "said twice");
        helper.join().unwrap();
        drop(scan);
        end();
    });
}

/// A helper that sleeps is woken by whoever retires so much that it is overdue.
#[test]
fn nothing_waits_for_long_beside_a_helper_that_sleeps() {
    explore(Some(3), || {
        let model = Model::new();
        let is_woken = Arc::new(AtomicU64::new(0));
        begin();
        let retire = |item| {
            if model.epochs.pin().retire(item, LARGE_BYTES, drop) {
                is_woken.swap(1, Ordering::AcqRel);
            }
        };
        retire(ITEM);
        let helper = {
            let (shared, is_woken) = (Arc::clone(&model), Arc::clone(&is_woken));
            spawn(1, move || {
                (0..3).any(|_| {
                    if shared.epochs.is_overdue() {
                        shared.epochs.collect(drop);
                    }
                    !shared.epochs.is_overdue() && is_woken.swap(0, Ordering::AcqRel) == 0
                })
            })
        };
        retire(OTHER);
        let sleeps = helper.join().unwrap();
        let is_woken = is_woken.load(Ordering::Acquire) != 0;
        let waits = model.epochs.waiting_bytes() > 0;
        assert!(!sleeps || is_woken || !waits, "nobody wakes the helper");
        end();
    });
}
