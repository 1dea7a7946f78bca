//! Threads that wait for the disk: one of them leads, and writes for all.

use super::super::held;
use super::{Shared, State};
use crate::durability::LogError;
use rustix::thread::futex::{self, Flags, Timespec};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often a waiter checks by itself whether it must lead.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Words of a turnstile. Nearly all waiters wait for the epoch that is being written or for the open one.
const EPOCHS: u64 = 4;

/// Who waits for room waits as for this epoch: like everybody, they are told when things change.
const ROOM: u64 = 0;

/// Where threads wait for epochs, grouped by epoch. With a condition variable, all would contend for its lock whenever
/// some of them are released.
#[derive(Default)]
pub(super) struct Turnstile {
    changes: [AtomicU32; EPOCHS as usize],
}

impl Turnstile {
    fn word(&self, epoch: u64) -> &AtomicU32 {
        &self.changes[(epoch % EPOCHS) as usize]
    }

    /// To be asked before the look that decides on waiting.
    fn changes(&self, epoch: u64) -> u32 {
        self.word(epoch).load(Ordering::SeqCst)
    }

    /// Waits for some time, unless those of this epoch were told something since `changes` was asked for.
    fn wait(&self, epoch: u64, changes: u32) {
        let time = Timespec { tv_sec: 0, tv_nsec: WAIT_MAX.subsec_nanos().into() };
        // Woken or not, and for whatever reason: the caller looks again.
        let _ = futex::wait(self.word(epoch), Flags::PRIVATE, changes, Some(&time));
    }

    fn wake(&self, epoch: u64, count: u32) {
        let word = self.word(epoch);
        word.fetch_add(1, Ordering::SeqCst);
        // It cannot fail on a word of ours.
        let _ = futex::wake(word, Flags::PRIVATE, count);
    }

    /// Has one of those who wait for this epoch look again.
    fn call(&self, epoch: u64) {
        self.wake(epoch, 1);
    }

    /// Has all who wait for this epoch look again.
    pub(super) fn release(&self, epoch: u64) {
        self.wake(epoch, i32::MAX as u32);
    }

    /// Has everybody look again.
    pub(super) fn release_all(&self) {
        (0..EPOCHS).for_each(|epoch| self.release(epoch));
    }
}

impl Shared {
    /// Why mutations are refused. Waits while room is being made, after which they may not be.
    #[cold]
    pub(super) fn refusal(&self) -> Result<(), LogError> {
        loop {
            let changes = self.turnstile.changes(ROOM);
            let waiting = held(&self.waiting);
            if !waiting.is_making_room || self.is_stopping.load(Ordering::Acquire) {
                return waiting.failure.clone().map_or(Ok(()), Err);
            }
            drop(waiting);
            self.turnstile.wait(ROOM, changes);
        }
    }

    /// Returns when everything up to epoch `wanted` is in the log, and, if `is_final`, survives power loss.
    pub(super) fn flush(&self, wanted: u64, is_final: bool) -> Result<(), LogError> {
        loop {
            let changes = self.turnstile.changes(wanted);
            if self.durable.load(Ordering::Acquire) >= wanted {
                return Ok(());
            }
            let mut waiting = held(&self.waiting);
            let is_based = waiting.state == State::Based;
            if self.is_stopping.load(Ordering::Acquire) {
                return Err(LogError::Closed);
            }
            if !is_based && waiting.is_making_room {
                drop(waiting);
                self.turnstile.wait(wanted, changes);
                continue;
            }
            // As long as a checkpoint is there, it takes more than a want of room to end the log.
            if let (false, Some(failure)) = (is_based, &waiting.failure) {
                return Err(failure.clone());
            }
            if waiting.is_led {
                drop(waiting);
                self.turnstile.wait(wanted, changes);
                continue;
            }
            waiting.is_led = true;
            drop(waiting);
            let written = self.lead(wanted);
            if written.is_err() {
                // Whether this failed for good is seen above: the keeper may have mended it.
                continue;
            }
            if !is_final {
                return Ok(());
            }
            self.wait_for_checkpoint(wanted);
        }
    }

    /// Waits for some time if there is no checkpoint yet: nothing more can be written for what is wanted.
    fn wait_for_checkpoint(&self, wanted: u64) {
        let changes = self.turnstile.changes(wanted);
        let is_coming = {
            let waiting = held(&self.waiting);
            waiting.state != State::Based && waiting.failure.is_none()
        };
        if is_coming {
            self.turnstile.wait(wanted, changes);
        }
    }

    /// Has everything up to epoch `wanted` in the log, and hands over to the next leader.
    fn lead(&self, wanted: u64) -> Result<(), LogError> {
        let (result, written) = {
            let mut writing = held(&self.writing);
            // Somebody else may have done it since.
            let is_needed = writing.written < wanted;
            let result = if is_needed { self.write_epoch(&mut writing, false) } else { Ok(true) };
            (result, writing.written)
        };
        held(&self.waiting).is_led = false;
        // First: the disk is idle until the next leader runs, and these have to wait for it.
        self.turnstile.call(written + 1);
        self.turnstile.release(written);
        self.tell_futures();
        result.map(drop)
    }
}
