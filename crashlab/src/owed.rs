//! What a recovered table must hold.

use crate::history::{Key, Value};
use std::collections::HashSet;
use std::rc::Rc;
use workload::mix;

/// The state of every key; `None` if there is no pool.
pub(crate) type Contents = Option<Rc<[Option<Value>]>>;

/// Which states are allowed for each key.
pub(crate) struct Owed {
    pub(crate) states: Vec<HashSet<Option<Value>>>,
    pub(crate) may_be_missing: bool,
}

impl Owed {
    pub(crate) fn exactly(contents: &[Option<Value>]) -> Owed {
        let states = contents.iter().map(|&state| HashSet::from([state])).collect();
        Owed { states, may_be_missing: false }
    }

    /// Of what is there any may have gone.
    pub(crate) fn at_most(contents: &[Option<Value>]) -> Owed {
        let states = contents.iter().map(|&state| HashSet::from([None, state])).collect();
        Owed { states, may_be_missing: false }
    }

    /// Whether these are allowed.
    pub(crate) fn allows(&self, contents: &[Option<Value>]) -> bool {
        contents.iter().zip(&self.states).all(|(state, allowed)| allowed.contains(state))
    }

    /// A hash of everything.
    pub(crate) fn hash(&self) -> u64 {
        let states = self.states.iter().map(|states| {
            let state = |state: &Option<Value>| mix(state.map_or(1 << 16, u64::from));
            states.iter().map(state).fold(0, u64::wrapping_add)
        });
        states.fold(self.may_be_missing.into(), |hash, states| mix(hash ^ states))
    }

    /// Says what of `contents` is not allowed.
    pub(crate) fn violation(&self, contents: &Contents) -> Option<String> {
        let Some(contents) = contents else {
            return (!self.may_be_missing).then(|| "there is no pool any more".into());
        };
        let mut keys = (0..).zip(contents.iter().zip(&self.states));
        let (key, (state, allowed)) =
            keys.find(|(_, (state, allowed))| !allowed.contains(state))?;
        let key: Key = key;
        if allowed.is_empty() {
            return Some(format!("nothing explains what the calls on k{key} were answered"));
        }
        let mut allowed: Vec<_> = allowed.iter().collect();
        allowed.sort();
        Some(format!("k{key} is {state:?}, allowed: {allowed:?}"))
    }
}
