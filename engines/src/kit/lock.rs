//! A lock that is one bit of a word.

use pmem::sync::{AtomicU64, Ordering, spin};

/// The lock in bits `LOCK` of a word of a sidecar, held until dropped.
pub(crate) struct Locked<'a, const LOCK: u64>(&'a AtomicU64);

impl<'a, const LOCK: u64> Locked<'a, LOCK> {
    pub(crate) fn wait(word: &'a AtomicU64) -> Self {
        let mut spins = 0;
        loop {
            if let Some(locked) = Locked::attempt(word) {
                return locked;
            }
            spin(&mut spins);
        }
    }

    #[inline(always)]
    pub(crate) fn attempt(word: &'a AtomicU64) -> Option<Self> {
        let is_free = word.load(Ordering::Relaxed) & LOCK == 0
            && word.fetch_or(LOCK, Ordering::Acquire) & LOCK == 0;
        // Not `then_some`: a guard made too early would unlock for another holder when dropped.
        is_free.then(|| Locked(word))
    }

    /// Locks a word that is as it was seen, unlocked; else not.
    #[inline(always)]
    pub(crate) fn attempt_from(word: &'a AtomicU64, seen: u64) -> Option<Self> {
        let unlocked = seen & !LOCK;
        word.compare_exchange(unlocked, seen | LOCK, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Locked(word))
    }
}

impl<const LOCK: u64> Drop for Locked<'_, LOCK> {
    #[inline(always)]
    fn drop(&mut self) {
        // The holder alone changes the word: others that try for the lock leave it as it is.
        self.0.store(self.0.load(Ordering::Relaxed) & !LOCK, Ordering::Release);
    }
}
