//! A mutex that is loom's once a model has begun.

use super::{Followable, enter, is_loom, number_followable, spin, touch};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};

#[derive(Debug, Default)]
struct Followed(OnceLock<::loom::sync::Mutex<()>>);

impl Followable for Followed {
    fn follow(&self) {
        self.0.get_or_init(::loom::sync::Mutex::default);
    }
}

/// As the mutex of this name in production.
#[derive(Debug)]
pub struct Mutex<T> {
    number: u64,
    shared: Option<Arc<Followed>>,
    inner: std::sync::Mutex<T>,
}

/// As std's: gives access, and the mutex back when dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    inner: Option<std::sync::MutexGuard<'a, T>>,
    followed: Option<::loom::sync::MutexGuard<'a, ()>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("taken by drop only")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("taken by drop only")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // First: who is let in by loom finds it free.
        self.inner = None;
        if std::thread::panicking() {
            // loom may not be there any more.
            std::mem::forget(self.followed.take());
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub fn new(value: T) -> Self {
        let (number, is_touched) = number_followable();
        let shared = (is_touched || is_loom()).then(|| {
            let shared = Arc::new(Followed::default());
            enter(Arc::<Followed>::clone(&shared));
            shared
        });
        Mutex { number, shared, inner: std::sync::Mutex::new(value) }
    }

    fn followed(&self) -> Option<&::loom::sync::Mutex<()>> {
        if !is_loom() {
            return None;
        }
        let followed = self.shared.as_ref().and_then(|shared| shared.0.get());
        if followed.is_none() {
            touch(self.number);
        }
        followed
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let followed =
            self.followed().map(|mutex| mutex.lock().unwrap_or_else(PoisonError::into_inner));
        let mut turn = 0;
        loop {
            if let Some(inner) = self.acquire() {
                return MutexGuard { inner: Some(inner), followed };
            }
            spin(&mut turn);
        }
    }

    /// The value if nobody holds the mutex now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let followed = match self.followed().map(|mutex| mutex.try_lock()) {
            None => None,
            Some(Ok(guard)) => Some(guard),
            Some(Err(_)) => return None,
        };
        self.acquire().map(|inner| MutexGuard { inner: Some(inner), followed })
    }

    fn acquire(&self) -> Option<std::sync::MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
