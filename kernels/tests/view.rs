//! What guests see: the code of `pmem/src/view.rs`, with that of the epochs.
//!
//! Property: a look-up between two looks that agree has read what was there: an item that nobody else's bytes had
//! replaced, and a pair that had not been moved. The guest pins nothing, and stores nothing.

use pmem::epoch::Epochs;
use pmem::sync::loom::{begin, end, explore, spawn};
use pmem::sync::{AtomicU64, Ordering};
use pmem::view::View;
use std::sync::Arc;

/// An item so large that a thread that retires it scans for pins.
const LARGE_BYTES: u64 = 1 << 40;
/// The item to which the slot leads, and what is in it; others stand for nothing.
const ITEM: u64 = 1;
const OTHER: u64 = 2;
/// What the engine shows, one after the other.
const WORDS: [u64; 2] = [5, 6];

struct Model {
    view: Arc<View>,
    epochs: Epochs,
    slot: AtomicU64,
    item: AtomicU64,
    /// Where a pair is, and where it moves to.
    places: [AtomicU64; 2],
}

impl Model {
    fn new() -> Arc<Model> {
        let view = Arc::new(View::make(&[]).unwrap());
        view.show(WORDS[0]);
        let epochs = Epochs::seen_in(Some(Arc::clone(&view))).unwrap();
        let [slot, item] = [ITEM; 2].map(AtomicU64::new);
        let places = [1, 0].map(AtomicU64::new);
        Arc::new(Model { view, epochs, slot, item, places })
    }

    fn copy_item(&self) {
        let Some(look) = self.view.look_at_items() else { return };
        if self.slot.load(Ordering::Acquire) == ITEM {
            let copied = self.item.load(Ordering::Relaxed);
            assert!(!self.view.are_items_as(look) || copied == ITEM, "copied what replaced it");
        }
    }

    fn look_up(&self) {
        let Some(look) = self.view.look() else { return };
        let place = usize::from(look.word() & 7 == WORDS[1]);
        let found = self.places[place].load(Ordering::Relaxed);
        assert!(!self.view.is_as(look) || found == 1, "did not find what is there throughout");
    }

    fn retire(&self, item: u64) {
        self.epochs.pin().retire(item, LARGE_BYTES, |item| self.reclaim(item));
    }

    fn unlink_and_retire(&self) {
        let guard = self.epochs.pin();
        self.slot.store(0, Ordering::Release);
        guard.retire(ITEM, LARGE_BYTES, |item| self.reclaim(item));
    }

    /// Its space serves another one at once.
    fn reclaim(&self, item: u64) {
        if item == ITEM {
            self.item.store(OTHER, Ordering::Relaxed);
        }
    }

    fn replace_item(&self) {
        self.unlink_and_retire();
        (0..3).for_each(|_| self.retire(OTHER));
    }

    fn move_pair(&self) {
        self.view.hide();
        self.places[1].store(1, Ordering::Relaxed);
        self.places[0].store(0, Ordering::Relaxed);
        self.view.show(WORDS[1]);
    }
}

fn beside(owner: fn(&Model), guest: fn(&Model)) -> impl Fn() + Send + Sync + 'static {
    move || {
        let model = Model::new();
        begin();
        let looking = {
            let shared = Arc::clone(&model);
            spawn(1, move || guest(&shared))
        };
        owner(&model);
        looking.join().unwrap();
        end();
        model.epochs.collect(drop);
    }
}

#[test]
fn no_item_is_copied_that_was_replaced() {
    explore(Some(4), beside(Model::replace_item, Model::copy_item));
}

/// Another thread of the owner advances the epoch.
#[test]
fn no_item_is_copied_that_was_replaced_after_scans_of_another_thread() {
    explore(Some(2), || {
        let model = Model::new();
        begin();
        let others: [fn(&Model); 2] = [Model::copy_item, |model| {
            model.epochs.collect(|item| model.reclaim(item));
        }];
        let others = [1, 2].map(|number| {
            let shared = Arc::clone(&model);
            spawn(number, move || others[number - 1](&shared))
        });
        model.unlink_and_retire();
        model.retire(OTHER);
        others.into_iter().for_each(|other| other.join().unwrap());
        end();
        model.epochs.collect(drop);
    });
}

#[test]
fn a_pair_that_moves_is_found_or_asked_for() {
    explore(None, beside(Model::move_pair, Model::look_up));
}
