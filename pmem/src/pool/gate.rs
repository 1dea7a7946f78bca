//! Who may write now: the gate that every mutation passes.
//!
//! Protocol. A writer announces itself in its thread's own line by a plain store, passes a light
//! barrier and reads the gate; whoever closes the gate stores its new state, passes a heavy
//! barrier and waits until no announcement is left. So either the writer sees the closed gate
//! and withdraws, or the closer sees the writer and waits. A writer pays two stores to a line of
//! its own and no atomic read-modify-write.

use crate::sync::{
    AtomicU32, Ordering, PerThread, THREADS_MAX, heavy_barrier, light_barrier, spin, thread_index,
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

#[derive(Debug)]
pub(super) struct Gate {
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

    /// Announces a writer. `Err`: the gate was not open, and nothing is announced.
    #[inline(always)]
    pub(super) fn enter(&self) -> Result<usize, GateState> {
        let thread = thread_index();
        let writers = &self.announced.line(thread).0[0];
        if thread < THREADS_MAX {
            writers.store(writers.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            writers.fetch_add(1, Ordering::Relaxed);
        }
        light_barrier();
        if self.state.load(Ordering::Acquire) == GateState::Open as u32 {
            return Ok(thread);
        }
        self.leave(thread);
        Err(self.state())
    }

    #[inline(always)]
    pub(super) fn leave(&self, thread: usize) {
        let writers = &self.announced.line(thread).0[0];
        if thread < THREADS_MAX {
            writers.store(writers.load(Ordering::Relaxed) - 1, Ordering::Release);
        } else {
            writers.fetch_sub(1, Ordering::Release);
        }
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
