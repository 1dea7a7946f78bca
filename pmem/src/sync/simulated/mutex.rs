//! A mutex that waits by letting other simulated threads run.

use super::{Touch, access, context, show, spin};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, TryLockError};

thread_local! {
    /// Mutexes that each simulated thread holds.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// How many mutexes a simulated thread holds now: while it does, others may have to wait for it.
pub fn mutexes_held(thread: usize) -> usize {
    HELD.with_borrow(|held| held.get(thread).copied().unwrap_or(0))
}

/// As the mutex of this name in production.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: std::sync::Mutex<T>,
    /// Who held it last.
    holder: AtomicUsize,
}

/// As std's: gives access, and the mutex back when dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    inner: std::sync::MutexGuard<'a, T>,
    thread: usize,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| held[self.thread] -= 1);
    }
}

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex { inner: std::sync::Mutex::new(value), holder: AtomicUsize::new(0) }
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        access(std::ptr::from_ref(self).addr(), Touch::Modifies);
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
        access(std::ptr::from_ref(self).addr(), Touch::Modifies);
        self.acquire()
    }

    fn acquire(&self) -> Option<MutexGuard<'_, T>> {
        let inner = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        let thread = context().thread;
        // The previous holder released it after all its stores.
        show(self.holder.swap(thread, Ordering::Relaxed));
        HELD.with_borrow_mut(|held| {
            let len = held.len().max(thread + 1);
            held.resize(len, 0);
            held[thread] += 1;
        });
        Some(MutexGuard { inner, thread })
    }
}
