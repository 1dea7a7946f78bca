//! How many keys a store had when it was opened.
//!
//! The index finds the slots, the sweep the keys of groups. Only both tell whether there are as many as were recorded
//! when the pool was closed: a slot less may be a key more in some group.

use crate::traits::{Found, WhenBuilt};
use pmem::sync::Mutex;

/// Tells one asker the number of keys, when it is known.
#[derive(Default)]
pub(super) struct Tally(Mutex<State>);

#[derive(Default)]
struct State {
    slots: Option<Found>,
    /// Keys beyond the first of each hash.
    collisions: Option<u64>,
    asker: Option<WhenBuilt>,
}

impl State {
    fn keys(&self) -> Option<u64> {
        match self.slots? {
            Found { slots, groups: 0 } => Some(slots),
            Found { slots, .. } => Some(slots + self.collisions?),
        }
    }
}

impl Tally {
    /// The index has found these.
    pub(super) fn tell_slots(&self, found: Found) {
        self.change(|state| state.slots = Some(found));
    }

    /// The sweep has found this many keys beyond the first of each hash.
    pub(super) fn tell_collisions(&self, collisions: u64) {
        self.change(|state| state.collisions = Some(collisions));
    }

    /// Calls `then` when the number is known, or now.
    pub(super) fn ask(&self, then: WhenBuilt) {
        self.change(|state| state.asker = Some(then));
    }

    /// The number, if it is known.
    pub(super) fn keys(&self) -> Option<u64> {
        self.0.lock().keys()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        change(&mut state);
        if let Some(keys) = state.keys()
            && let Some(then) = state.asker.take()
        {
            drop(state);
            then(Found { slots: keys, groups: 0 });
        }
    }
}
