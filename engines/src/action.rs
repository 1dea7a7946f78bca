//! What a mutation makes of the state that it finds.

use index::{Fixed, is_same_state};

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<V> {
    Keep,
    Put(V),
    Remove,
}

/// `insert`.
#[inline(always)]
pub(crate) fn if_absent<V>(found: Option<V>, value: V) -> Action<V> {
    match found {
        None => Action::Put(value),
        Some(_) => Action::Keep,
    }
}

/// `update`.
#[inline(always)]
pub(crate) fn if_present<V>(found: Option<V>, value: V) -> Action<V> {
    match found {
        None => Action::Keep,
        Some(_) => Action::Put(value),
    }
}

/// `compare_exchange`.
#[inline(always)]
pub(crate) fn exchange<V: Fixed>(
    found: Option<V>,
    expected: Option<V>,
    new: Option<V>,
) -> Action<V> {
    match new {
        _ if !is_same_state(found, expected) => Action::Keep,
        Some(value) => Action::Put(value),
        None => Action::Remove,
    }
}
