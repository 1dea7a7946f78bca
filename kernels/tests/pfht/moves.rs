//! Moves of an item beside a look-up of it: `free_slot`, `delete_copied` (`engines/src/pfht/ops.rs`), `put_locked`,
//! `hide_slot`, `show_of` and `show_node` (`bucket.rs`), `link`, `unlink`, `erase` and `find` (`stash.rs`);
//! `insert_moving`, `probe` and `find_slow` (`engines/src/kit`).
//!
//! Property: a key that is there all the time is found, with its value, while it goes from one bucket to another and
//! another item takes its slot, or from a node of the stash to a slot and another item takes the node.
//!
//! Two places, each a slot or a node, and each of one bucket. The place `from`, which the item leaves, has a version. A
//! node is shown by its link instead of a fingerprint; the version of its chain is that of its bucket here. A look-up
//! that would look again gives up: in another execution it comes later.

use crate::explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    /// The item is hidden in its old place before another one takes that place.
    hides: bool,
    /// The place goes to another item only after the new version.
    gives_back_last: bool,
    /// The copy is shown before the original is erased.
    shows_first: bool,
    /// A negative search checks the versions again.
    rechecks: bool,
    /// The erasure of the key, or of the state of the node.
    erase: Ordering,
    version: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    hides: true,
    gives_back_last: true,
    shows_first: true,
    rechecks: true,
    erase: Ordering::Release,
    version: Ordering::Release,
};

const KEY: u64 = 1;
const VALUE: u64 = 10;
const OTHER_KEY: u64 = 2;
const OTHER_VALUE: u64 = 20;

const MISSED: &str = "missed a key that was there all the time";
const FOREIGN: &str = "found another key's value";

#[derive(Default)]
struct Place {
    version: AtomicU64,
    /// The fingerprint, or the link.
    is_shown: AtomicU64,
    key: AtomicU64,
    value: AtomicU64,
}

impl Place {
    fn with(key: u64, value: u64) -> Place {
        let words = [1, key, value].map(AtomicU64::new);
        let [is_shown, key, value] = words;
        Place { version: AtomicU64::new(0), is_shown, key, value }
    }

    fn fill(&self, key: u64, value: u64) {
        fence(Ordering::Release);
        self.value.store(value, Ordering::Release);
        self.key.store(key, Ordering::Release);
    }

    fn new_version(&self, protocol: Protocol) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, protocol.version);
    }

    fn show(&self, protocol: Protocol, is_shown: u64) {
        self.is_shown.store(is_shown, Ordering::Release);
        self.new_version(protocol);
    }

    /// What this place says of the key, and the version; `None`: ask again.
    fn probe(&self) -> Option<(Option<u64>, u64)> {
        let version = self.version.load(Ordering::Acquire);
        let is_there =
            self.is_shown.load(Ordering::Acquire) == 1 && self.key.load(Ordering::Acquire) == KEY;
        let value = is_there.then(|| self.value.load(Ordering::Acquire));
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some((value, version))
    }
}

struct Places {
    protocol: Protocol,
    from: Place,
    to: Place,
}

impl Places {
    /// A displacement: the same thread fills the slot again.
    fn displace(&self) {
        let Places { protocol, from, to } = self;
        self.copy();
        if protocol.hides {
            from.show(*protocol, 0);
        }
        from.key.store(0, protocol.erase);
        from.fill(OTHER_KEY, OTHER_VALUE);
        if !protocol.shows_first {
            to.show(*protocol, 1);
        }
        from.show(*protocol, 1);
    }

    /// A move out of a node. Another key of another bucket takes the node when it is free.
    fn move_out_of_node(&self) {
        let Places { protocol, from, to } = self;
        self.copy();
        from.key.store(0, protocol.erase);
        if !protocol.shows_first {
            to.show(*protocol, 1);
        }
        from.is_shown.store(0, Ordering::Release);
        if protocol.gives_back_last {
            from.new_version(*protocol);
        }
        from.fill(OTHER_KEY, OTHER_VALUE);
        if !protocol.gives_back_last {
            from.new_version(*protocol);
        }
    }

    fn copy(&self) {
        self.to.fill(KEY, VALUE);
        if self.protocol.shows_first {
            self.to.show(self.protocol, 1);
        }
    }

    /// Looks the key up in both places; `None`: it would look again.
    fn find(&self, order: [&Place; 2]) -> Option<Option<u64>> {
        let mut versions = [0; 2];
        for (place, version) in order.iter().zip(&mut versions) {
            let (found, seen) = place.probe()?;
            if found.is_some() {
                return Some(found);
            }
            *version = seen;
        }
        fence(Ordering::Acquire);
        let is_same = order
            .iter()
            .zip(versions)
            .all(|(place, version)| place.version.load(Ordering::Relaxed) == version);
        (is_same || !self.protocol.rechecks).then_some(None)
    }
}

/// A look-up during a move. It first probes where the item was, or where it goes.
fn model(
    protocol: Protocol,
    is_from_first: bool,
    moves: fn(&Places),
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let from = Place::with(KEY, VALUE);
        let places = Arc::new(Places { protocol, from, to: Place::default() });
        let shared = Arc::clone(&places);
        let mover = thread::spawn(move || moves(&shared));
        let (from, to) = (&places.from, &places.to);
        let found = places.find(if is_from_first { [from, to] } else { [to, from] });
        if let Some(found) = found {
            let value = found.expect(MISSED);
            assert_eq!(value, VALUE, "{FOREIGN}");
        }
        mover.join().unwrap();
        assert_eq!(places.find([&places.from, &places.to]), Some(Some(VALUE)), "{MISSED}");
    }
}

fn either(protocol: Protocol, is_from_first: bool) -> [impl Fn() + Send + Sync + 'static; 2] {
    [Places::displace as fn(&Places), Places::move_out_of_node]
        .map(|moves| model(protocol, is_from_first, moves))
}

#[test]
fn key_is_found_beside_a_displacement() {
    for is_from_first in [true, false] {
        holds(None, model(PRODUCTION, is_from_first, Places::displace));
    }
}

#[test]
fn key_is_found_beside_a_move_out_of_the_stash() {
    for is_from_first in [true, false] {
        holds(None, model(PRODUCTION, is_from_first, Places::move_out_of_node));
    }
}

#[test]
fn spoilt_erasure_without_release() {
    for model in either(Protocol { erase: Ordering::Relaxed, ..PRODUCTION }, true) {
        breaks(MISSED, None, model);
    }
}

#[test]
fn spoilt_copy_shown_after_the_erasure() {
    for model in either(Protocol { shows_first: false, ..PRODUCTION }, true) {
        breaks(MISSED, None, model);
    }
}

#[test]
fn spoilt_absence_not_looked_at_again() {
    for model in either(Protocol { rechecks: false, ..PRODUCTION }, false) {
        breaks(MISSED, None, model);
    }
}

#[test]
fn spoilt_slot_filled_again_before_it_is_hidden() {
    let protocol = Protocol { hides: false, ..PRODUCTION };
    breaks(FOREIGN, None, model(protocol, true, Places::displace));
}

#[test]
fn spoilt_node_given_back_before_the_new_version() {
    let protocol = Protocol { gives_back_last: false, ..PRODUCTION };
    breaks(FOREIGN, None, model(protocol, true, Places::move_out_of_node));
}
