//! Who may write now: the gate that every mutation passes.
//!
//! Protocol. A writer announces itself in its thread's own line by a plain store, passes a light
//! barrier and reads the gate; whoever closes the gate stores its new state, passes a heavy
//! barrier and waits until no announcement is left. So either the writer sees the closed gate
//! and withdraws, or the closer sees the writer and waits. A writer pays two stores to a line of
//! its own and no atomic read-modify-write.

use crate::sync::{
    AtomicU32, AtomicU64, Ordering, PerThread, THREADS_MAX, heavy_barrier, light_barrier, spin,
    thread_index,
};
use std::io;

/// State of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum GateState {
    /// Writers pass.
    Open = 0,
    /// The superblock says clean: the first writer must have it changed before it stores.
    Clean = 1,
    /// A sync is about to say clean: writers wait.
    Syncing = 2,
    /// The pool was opened for reading.
    ReadOnly = 3,
}

/// The right to mutate the pool, until dropped. Hold it across one operation only, and run no
/// caller's code meanwhile: a sync waits for it, and it is counted under the thread's number, which a
/// thread that ends gives back.
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
            self.writers.fetch_sub(1, Ordering::Release);
        } else {
            self.writers.store(self.writers.load(Ordering::Relaxed) - 1, Ordering::Release);
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
        let writers = &self.announced.line(thread).0[0];
        let is_shared = thread >= THREADS_MAX;
        if is_shared {
            writers.fetch_add(1, Ordering::Relaxed);
        } else {
            writers.store(writers.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let write = Write { writers, is_shared, _not_send: std::marker::PhantomData };
        light_barrier();
        (self.state.load(Ordering::Acquire) == GateState::Open as u32).then_some(write)
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
            while line.0[0].load(Ordering::Acquire) != 0 {
                spin(&mut turn);
            }
        }
    }
}
