//! Threads that call, as far as a close has to know them: which pool a thread's call is using, and how many values and
//! iterators of which pools it holds.
//!
//! A call announces its pool's handle in its thread's `visiting`, and only then looks whether the pool is still open. A
//! close first takes the handle back, and only then looks for announcements, and waits until there are none. Between
//! the two are a light barrier in the call, and a heavy one in the close. So either the call finds the pool closed, or
//! the close finds the call. A fence in the call would keep the processor from overlapping the cache misses of calls
//! that follow one another: look-ups in a table then took 1.7 times as long.
//!
//! No lock is taken here: a forked child would inherit it as it is, held by a thread that it does not have.

use crate::code::Code;
use crate::failure::Failure;
use crate::held::Held;
use crate::pools::POOLS_MAX;
use pmem::sync::{heavy_barrier, light_barrier};
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
    /// How many handles of values and iterators were given out here. Only this thread writes to it.
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
    /// The thread's `OWN`, once it has one and before it ends. A plain word, since every call reads it, whereas `OWN`,
    /// which has a destructor, is asked each time whether it is alive.
    static CURRENT: Cell<*const Own> = const { Cell::new(ptr::null()) };
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
        CURRENT.set(ptr::null());
        self.held.get_mut().release_all(self.thread);
        self.thread.give_back();
    }
}

/// What the calling thread has, if it has made a call, and is not ending.
#[inline(always)]
fn own<'a>() -> Option<&'a Own> {
    // SAFETY: it is this thread's `OWN`, which stays in place until its destructor has set this to NULL. No caller
    // keeps the reference beyond a call of the interface, and none runs the destructor, which is the end of the
    // thread.
    unsafe { CURRENT.get().as_ref() }
}

/// The same, of a thread that may be making its first call. `None` in the destructor of a thread-local that is
/// destroyed after ours.
#[cold]
#[inline(never)]
fn begin_own<'a>() -> Option<&'a Own> {
    OWN.try_with(|own| CURRENT.set(own)).ok()?;
    own()
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

    /// A number that no other handle of this place has had for long. Only this thread calls it, so two plain accesses
    /// will do.
    pub(crate) fn next_handle(&self) -> u32 {
        let given = self.given.load(Ordering::Relaxed);
        self.given.store(given.wrapping_add(1), Ordering::Relaxed);
        given
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
        match own() {
            Some(own) => Current { thread: own.thread, is_borrowed: false },
            None => Current::first(),
        }
    }

    #[cold]
    #[inline(never)]
    fn first() -> Current {
        match begin_own() {
            Some(own) => Current { thread: own.thread, is_borrowed: false },
            None => Current { thread: Thread::take(), is_borrowed: true },
        }
    }

    /// Announces that a call uses the pool with this handle. It is open only if it still is after this.
    #[inline(always)]
    pub(crate) fn visit(self, handle: u64) -> Result<Visiting, Failure> {
        if self.thread.visiting.load(Ordering::Relaxed) != 0 {
            return Err(within_a_call());
        }
        self.thread.visiting.store(handle, Ordering::Relaxed);
        light_barrier();
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
        "the call was made within another one of the same thread, as by a signal handler, which is not possible: let \
         the handler set a flag, and make the call elsewhere",
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
#[inline(always)]
pub(crate) fn with_held<R>(use_it: impl FnOnce(&mut Held, &'static Thread) -> R) -> Option<R> {
    let own = own().or_else(begin_own)?;
    Some(use_it(&mut own.held.borrow_mut(), own.thread))
}

/// Threads of this process. Those of its parent, as a fork has copied them, do not run here.
fn of_this_process() -> impl Iterator<Item = &'static Thread> {
    let process = std::process::id();
    let own = own().map(|own| ptr::from_ref(own.thread));
    all().filter(move |thread| {
        own == Some(ptr::from_ref(*thread)) || thread.process.load(Ordering::Relaxed) == process
    })
}

/// Waits until no call uses the pool with this handle, which no call finds open any more.
pub(crate) fn wait_for_calls(handle: u64) {
    heavy_barrier();
    for thread in of_this_process() {
        while thread.visiting.load(Ordering::Acquire) == handle {
            std::thread::yield_now();
        }
    }
}

/// Values and iterators that are held of the pool in a slot.
pub(crate) fn held_of(slot: usize) -> u64 {
    of_this_process().map(|thread| u64::from(thread.holds[slot].load(Ordering::Acquire))).sum()
}
