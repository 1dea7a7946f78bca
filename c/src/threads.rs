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
use crate::places::{Thread, all};
use pmem::sync::{heavy_barrier, light_barrier};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::Ordering;

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
