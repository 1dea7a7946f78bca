//! Who may write now: the gate that every mutation passes.
//!
//! Protocol. A writer announces itself with a store in its thread's line, passes a light barrier and reads the
//! gate. A closer stores the gate's new state, passes a heavy barrier and waits until no announcement is left. So
//! either the writer sees the closed gate and withdraws, or the closer sees the writer and waits. A writer pays two
//! stores to a line that only its thread writes, and no atomic read-modify-write.

use crate::sync::{
    Asymmetric, AtomicU32, AtomicU64, Numbered, Ordering, PerThread, THREADS_MAX, heavy_barrier,
    light_barrier, spin, thread_index,
};
use std::io;

/// Bits of a thread's word that count how often it is inside. The bits above count its entries from outside.
const COUNT_BITS: u32 = 32;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Once.
const ONE: u64 = 1;

/// State of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum GateState {
    /// Writers pass.
    Open = 0,
    /// The superblock says clean: the first writer must change it before it stores.
    Clean = 1,
    /// A sync is about to say clean: writers wait.
    Syncing = 2,
    /// The pool was opened for reading.
    ReadOnly = 3,
}

/// The right to change the pool, until dropped. Hold it for one operation only, and run no caller's code meanwhile: a
/// sync waits for it. It is counted under the thread's number, which a thread gives back when it ends.
#[derive(Debug)]
pub struct Write<'a> {
    /// Writers announced in the line of this thread, or in the one that many share.
    writers: &'a AtomicU64,
    is_shared: bool,
    /// The announcement is in this thread's line.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for Write<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_shared {
            self.writers.fetch_sub(ONE, Ordering::Release);
        } else {
            self.writers.store(self.writers.load(Ordering::Relaxed) - ONE, Ordering::Release);
        }
    }
}

/// Keeps writers out while a sync says that the pool is clean.
#[derive(Debug)]
pub struct Gate {
    state: AtomicU32,
    announced: PerThread,
}

impl Gate {
    /// A gate that stands open: of a process that changes nothing in the pool itself.
    pub fn open() -> io::Result<Gate> {
        Gate::new(GateState::Open)
    }

    pub(super) fn new(state: GateState) -> io::Result<Gate> {
        Ok(Gate { state: AtomicU32::new(state as u32), announced: PerThread::new()? })
    }

    pub(super) fn state(&self) -> GateState {
        match self.state.load(Ordering::Acquire) {
            0 => GateState::Open,
            1 => GateState::Clean,
            2 => GateState::Syncing,
            _ => GateState::ReadOnly,
        }
    }

    /// The right to mutate, if the gate is open; else [`Pool::write`](super::Pool::write) says
    /// why not, or waits.
    #[inline(always)]
    pub fn enter(&self) -> Option<Write<'_>> {
        let thread = thread_index();
        let (writers, is_shared) = match self.announced.own_line(thread) {
            Some(line) => {
                let writers = &line.0[0];
                let before = writers.load(Ordering::Relaxed);
                let arrival = u64::from(before & COUNT == 0) << COUNT_BITS;
                // Release: who waits for an earlier departure may find this arrival in its place.
                writers.store(before.wrapping_add(arrival) + ONE, Ordering::Release);
                (writers, false)
            }
            None => {
                let writers = &self.announced.line(THREADS_MAX).0[0];
                writers.fetch_add(ONE, Ordering::Relaxed);
                (writers, true)
            }
        };
        let write = Write { writers, is_shared, _not_send: std::marker::PhantomData };
        light_barrier();
        (self.state.load(Ordering::Acquire) == GateState::Open as u32).then_some(write)
    }

    /// As [`Gate::enter`], in fewer instructions, for code that is compiled into its callers. `None` also if the thread
    /// is inside already.
    #[inline(always)]
    pub fn enter_here(&self, thread: Numbered, asymmetric: Asymmetric) -> Option<Write<'_>> {
        let writers = &self.announced.of(thread).0[0];
        let before = writers.load(Ordering::Relaxed);
        if before & COUNT != 0 {
            return None;
        }
        // Release: as above.
        writers.store(before.wrapping_add((1 << COUNT_BITS) + ONE), Ordering::Release);
        let write = Write { writers, is_shared: false, _not_send: std::marker::PhantomData };
        asymmetric.light_barrier();
        (self.state.load(Ordering::Acquire) == GateState::Open as u32).then_some(write)
    }

    /// Whether who wants to change something would wait now: a sync is making the pool clean.
    pub fn is_syncing(&self) -> bool {
        self.state() == GateState::Syncing
    }

    pub(super) fn set(&self, state: GateState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Closes the gate and waits for the writers inside.
    pub(super) fn close(&self) {
        self.set(GateState::Syncing);
        heavy_barrier();
        for line in self.announced.used() {
            let mut turn = 0;
            while line.0[0].load(Ordering::Acquire) & COUNT != 0 {
                spin(&mut turn);
            }
        }
    }

    /// Returns when everybody has left who is inside now; others go in and out meanwhile.
    pub(super) fn wait_for_writers(&self) {
        heavy_barrier();
        for line in self.announced.used() {
            let word = &line.0[0];
            let before = word.load(Ordering::Acquire);
            let mut turn = 0;
            // In the line that many share nobody counts arrivals: there all have to be out for a moment.
            let is_inside =
                |now: u64| now & COUNT != 0 && now >> COUNT_BITS == before >> COUNT_BITS;
            while is_inside(word.load(Ordering::Acquire)) {
                spin(&mut turn);
            }
        }
    }
}
