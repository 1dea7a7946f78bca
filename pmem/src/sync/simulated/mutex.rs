//! A mutex that waits by letting other simulated threads run.

use super::{access, show_all, spin};
use std::sync::{MutexGuard, PoisonError, TryLockError};

/// As the mutex of this name in production.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
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
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Whoever held it before released it after all that it stored.
        show_all();
        Some(guard)
    }
}
