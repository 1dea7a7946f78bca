//! A mutex that waits by letting other simulated threads run.

use super::{access, context, show, spin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError, TryLockError};

/// As the mutex of this name in production.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: std::sync::Mutex<T>,
    /// Who held it last.
    holder: AtomicUsize,
}

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex { inner: std::sync::Mutex::new(value), holder: AtomicUsize::new(0) }
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        access();
        let mut turn = 0;
        loop {
            if let Some(guard) = self.acquire() {
                return guard;
            }
            spin(&mut turn);
        }
    }

    /// The value if nobody holds the mutex now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        access();
        self.acquire()
    }

    fn acquire(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Whoever held it before released it after all that it stored.
        show(self.holder.swap(context().thread, Ordering::Relaxed));
        Some(guard)
    }
}
