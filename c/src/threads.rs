//! Threads that call, as far as a close has to know them: which pool a thread's call is using, and how many values and
//! iterators of which pools it holds.
//!
//! A call announces its pool's handle in its thread's `visiting`, and only then looks whether the pool is still open. A
//! close first takes the handle back, and only then looks for announcements, and waits until there are none. All four
//! accesses are sequentially consistent, so either the call finds the pool closed, or the close finds the call.
//!
//! No lock is taken here: a forked child would inherit it as it is, held by a thread that it does not have.

use crate::code::Code;
use crate::failure::Failure;
use crate::held::Held;
use crate::pools::POOLS_MAX;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A thread's place, which another thread gets when this one has ended. Each has lines of its own.
#[repr(align(128))]
pub(crate) struct Thread {
    /// The handle of the pool that a call of this thread is using; 0 between calls.
    visiting: AtomicU64,
    is_taken: AtomicBool,
    /// The process that the thread belongs to.
    process: AtomicU32,
    /// Numbers count from 0.
    pub(crate) number: u32,
    /// How many handles of values and iterators were given out here.
    given: AtomicU32,
    /// How many values and iterators of the pool in each slot it holds. Only this thread writes to it.
    holds: Box<[AtomicU32]>,
    /// The place that was made before this one.
    next: *const Thread,
}

// SAFETY: all that changes is atomic; `next` leads to a place that is never freed.
unsafe impl Sync for Thread {}

/// The place that was made last.
static LAST: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// The thread's place, once it has one and before it ends. A plain word, since every call reads it.
    static CURRENT: Cell<Option<&'static Thread>> = const { Cell::new(None) };
    static OWN: Own = Own::begin();
}

/// What a thread has until it ends.
struct Own {
    thread: &'static Thread,
    held: RefCell<Held>,
}

impl Own {
    fn begin() -> Own {
        Own { thread: Thread::take(), held: RefCell::default() }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        CURRENT.set(None);
        self.held.get_mut().release_all(self.thread);
        self.thread.give_back();
    }
}

/// All places.
fn all() -> impl Iterator<Item = &'static Thread> {
    let mut next: *const Thread = LAST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: a place is published when it is complete, never freed, and changes by atomics only.
        let thread: &'static Thread = unsafe { next.as_ref() }?;
        next = thread.next;
        Some(thread)
    })
}

impl Thread {
    fn take() -> &'static Thread {
        let process = std::process::id();
        // Acquire: what the last owner did is done.
        let is_free = |thread: &&Thread| {
            !thread.is_taken.load(Ordering::Relaxed)
                && !thread.is_taken.swap(true, Ordering::Acquire)
        };
        if let Some(thread) = all().find(is_free) {
            thread.process.store(process, Ordering::SeqCst);
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

    fn give_back(&self) {
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

    /// A number that no other handle of this place has had for long.
    pub(crate) fn next_handle(&self) -> u32 {
        self.given.fetch_add(1, Ordering::Relaxed)
    }
}

/// The calling thread's place, for one call.
pub(crate) struct Current {
    thread: &'static Thread,
    /// The thread is ending, and has this place for one call only.
    is_borrowed: bool,
}

impl Current {
    #[inline(always)]
    pub(crate) fn find() -> Current {
        match CURRENT.get() {
            Some(thread) => Current { thread, is_borrowed: false },
            None => Current::first(),
        }
    }

    #[cold]
    #[inline(never)]
    fn first() -> Current {
        match OWN.try_with(|own| own.thread) {
            Ok(thread) => {
                CURRENT.set(Some(thread));
                Current { thread, is_borrowed: false }
            }
            // A destructor of a thread-local, after ours.
            Err(_) => Current { thread: Thread::take(), is_borrowed: true },
        }
    }

    /// Announces that a call uses the pool with this handle. It is open only if it still is after this.
    #[inline(always)]
    pub(crate) fn visit(self, handle: u64) -> Result<Visiting, Failure> {
        if self.thread.visiting.load(Ordering::Relaxed) != 0 {
            return Err(within_a_call());
        }
        self.thread.visiting.store(handle, Ordering::SeqCst);
        Ok(Visiting(self))
    }
}

impl Drop for Current {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_borrowed {
            self.thread.give_back();
        }
    }
}

#[cold]
fn within_a_call() -> Failure {
    Failure::new(
        Code::Thread,
        "a signal handler called firndex while its thread was in a call of firndex, and one call cannot run within \
         another: let the handler set a flag, and make the call elsewhere",
    )
}

/// A call that uses a pool, until it is dropped.
pub(crate) struct Visiting(Current);

impl Drop for Visiting {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: a close that finds this comes after what the call did.
        self.0.thread.visiting.store(0, Ordering::Release);
    }
}

/// What the calling thread holds, and its place. `None` if the thread is ending.
pub(crate) fn with_held<R>(use_it: impl FnOnce(&mut Held, &'static Thread) -> R) -> Option<R> {
    OWN.try_with(|own| use_it(&mut own.held.borrow_mut(), own.thread)).ok()
}

/// Threads of this process. Those of its parent, as a fork has copied them, do not run here.
fn of_this_process() -> impl Iterator<Item = &'static Thread> {
    let process = std::process::id();
    let own = CURRENT.get().map(ptr::from_ref);
    all().filter(move |thread| {
        own == Some(ptr::from_ref(*thread)) || thread.process.load(Ordering::SeqCst) == process
    })
}

/// Waits until no call uses the pool with this handle, which no call finds open any more.
pub(crate) fn wait_for_calls(handle: u64) {
    for thread in of_this_process() {
        while thread.visiting.load(Ordering::SeqCst) == handle {
            std::thread::yield_now();
        }
    }
}

/// Values and iterators that are held of the pool in a slot.
pub(crate) fn held_of(slot: usize) -> u64 {
    of_this_process().map(|thread| u64::from(thread.holds[slot].load(Ordering::Acquire))).sum()
}
