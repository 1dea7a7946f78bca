//! Who wants to know what the building of a sidecar has found.

use index::{Found, WhenBuilt};
use pmem::sync::Mutex;

/// Tells one asker what was found, whichever comes first.
#[derive(Default)]
pub(crate) struct Built(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Building,
    Asked(WhenBuilt),
    Built(Found),
}

impl Built {
    /// All is built.
    pub(crate) fn tell(&self, found: Found) {
        let before = std::mem::replace(&mut *self.0.lock(), State::Built(found));
        if let State::Asked(then) = before {
            then(found);
        }
    }

    /// Calls `then` when all is built, or now.
    pub(crate) fn ask(&self, then: WhenBuilt) {
        let mut state = self.0.lock();
        match *state {
            State::Built(found) => {
                drop(state);
                then(found);
            }
            State::Building | State::Asked(_) => *state = State::Asked(then),
        }
    }
}
