//! A place for each thread that calls: what others have to know of it.

use crate::handle::POOLS_MAX;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A thread's place, which another thread gets when this one has ended. Each has lines of its own.
#[repr(align(128))]
pub(crate) struct Thread {
    /// The handle of the pool that a call of this thread is using; 0 between calls.
    pub(crate) visiting: AtomicU64,
    pub(crate) is_taken: AtomicBool,
    /// The process that the thread belongs to.
    pub(crate) process: AtomicU32,
    /// Numbers count from 0.
    pub(crate) number: u32,
    /// How many handles of values and iterators were given out here. Only this thread writes to it.
    given: AtomicU32,
    /// How many values and iterators of the pool in each slot it holds. Only this thread writes to it.
    pub(crate) holds: Box<[AtomicU32]>,
    /// The place that was made before this one.
    next: *const Thread,
}

// SAFETY: all that changes is atomic; `next` leads to a place that is never freed.
unsafe impl Sync for Thread {}

/// The place that was made last.
static LAST: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());

/// All places.
pub(crate) fn all() -> impl Iterator<Item = &'static Thread> {
    let mut next: *const Thread = LAST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: a place is published when it is complete, never freed, and changes by atomics only.
        let thread: &'static Thread = unsafe { next.as_ref() }?;
        next = thread.next;
        Some(thread)
    })
}

impl Thread {
    pub(crate) fn take() -> &'static Thread {
        let process = std::process::id();
        // Acquire: what the last owner did is done.
        let is_free = |thread: &&Thread| {
            !thread.is_taken.load(Ordering::Relaxed)
                && !thread.is_taken.swap(true, Ordering::Acquire)
        };
        if let Some(thread) = all().find(is_free) {
            thread.process.store(process, Ordering::Relaxed);
            return thread;
        }
        let mut last = LAST.load(Ordering::Acquire);
        loop {
            // SAFETY: a place is published when it is complete, never freed, and changes by atomics only.
            let number = unsafe { last.as_ref() }.map_or(0, |last| last.number + 1);
            let made = Box::into_raw(Box::new(Thread {
                visiting: AtomicU64::new(0),
                is_taken: AtomicBool::new(true),
                process: AtomicU32::new(process),
                number,
                given: AtomicU32::new(0),
                holds: (0..POOLS_MAX).map(|_| AtomicU32::new(0)).collect(),
                next: last,
            }));
            match LAST.compare_exchange(last, made, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it is never freed from here on.
                Ok(_) => return unsafe { &*made },
                Err(newer) => {
                    // SAFETY: it was made here, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(made) });
                    last = newer;
                }
            }
        }
    }

    pub(crate) fn give_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    /// Counts one more value or iterator of the pool in a slot.
    pub(crate) fn hold(&self, slot: usize) {
        let count = &self.holds[slot];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Counts one less. Release: the closer that reads the count comes after what was done with the pool.
    pub(crate) fn let_go(&self, slot: usize) {
        let count = &self.holds[slot];
        count.store(count.load(Ordering::Relaxed) - 1, Ordering::Release);
    }

    /// A number that no other handle of this place has had for long. Only this thread calls it, so two plain accesses
    /// will do.
    pub(crate) fn next_handle(&self) -> u32 {
        let given = self.given.load(Ordering::Relaxed);
        self.given.store(given.wrapping_add(1), Ordering::Relaxed);
        given
    }
}
