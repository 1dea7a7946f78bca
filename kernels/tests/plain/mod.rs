//! Memory that is not atomic.

use loom::cell::UnsafeCell;
use std::sync::{Mutex, PoisonError};

/// What loom says of two accesses, one of them a write, of which neither happens before the
/// other.
pub(crate) const RACE: &str = "Causality violation";

/// A place that loom watches for accesses that race; it holds nothing. The mutex makes it
/// shareable without unsafe code: loom does not know of it, so it orders nothing in a model.
#[derive(Default)]
pub(crate) struct Plain(Mutex<UnsafeCell<()>>);

impl Plain {
    pub(crate) fn read(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).with_mut(|_| ());
    }
}
