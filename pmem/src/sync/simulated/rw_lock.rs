//! A reader-writer lock that waits by letting other simulated threads run.

use super::{Touch, access, show_all, spin};
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult};

/// As the lock of this name in production.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

fn acquired<G>(result: TryLockResult<G>) -> Option<G> {
    let guard = match result {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        Err(TryLockError::WouldBlock) => return None,
    };
    // The previous holder, which is not known, released it after all its stores.
    show_all();
    Some(guard)
}

fn wait<G>(mut attempt: impl FnMut() -> Option<G>) -> G {
    let mut turn = 0;
    loop {
        match attempt() {
            Some(guard) => return guard,
            None => spin(&mut turn),
        }
    }
}

impl<T> RwLock<T> {
    fn access(&self) {
        access(std::ptr::from_ref(self).addr(), Touch::Modifies);
    }

    /// Waits until nobody writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.access();
        wait(|| acquired(self.0.try_read()))
    }

    /// Waits until nobody else holds the lock.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.access();
        wait(|| acquired(self.0.try_write()))
    }

    /// The right to write if nobody holds the lock now.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.access();
        acquired(self.0.try_write())
    }
}
