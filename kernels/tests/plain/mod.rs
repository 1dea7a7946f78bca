//! Memory that is not atomic.

use loom::cell::UnsafeCell;
use std::sync::{Mutex, PoisonError};

/// Loom's message for two accesses, one of them a write, neither of which happens before the other.
pub(crate) const RACE: &str = "Causality violation";

/// A place that loom watches for racing accesses; it holds nothing. The mutex makes it shareable without unsafe code.
/// Loom does not know of the mutex, so it orders nothing in a model.
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
