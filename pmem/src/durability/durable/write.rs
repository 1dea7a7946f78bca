//! Writes epochs, and says how far the log has got.

use super::super::frame::FRAME_HEADER_WORDS;
use super::super::held;
use super::{Shared, State, Writing};
use crate::durability::LogError;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Empty epochs in a row after which the flusher sleeps until something is appended.
const IDLE_EPOCHS: u32 = 50;
/// How long it sleeps then, if nobody wakes it.
const DOZE: Duration = Duration::from_secs(1);

impl Shared {
    /// Writes what was appended so far, as the epoch that is open. Whether there was anything. Those who wait for the
    /// epoch are released by the caller, when it has dropped the lock that they may need next.
    pub(super) fn write_epoch(
        &self,
        writing: &mut Writing,
        even_if_empty: bool,
    ) -> Result<bool, LogError> {
        let pages = &mut writing.pages;
        pages.resize(0);
        pages.resize(FRAME_HEADER_WORDS);
        let sealed_ms = self.now_ms();
        let epoch = self.log.seal_into(pages);
        let is_empty = pages.words().len() == FRAME_HEADER_WORDS;
        if let Err(error) = self.demand_whole() {
            // What threads have read as zeros, and appended, must not get into the log. Nor may it get into a
            // checkpoint, which writes an epoch after it has copied the pool.
            self.fail(error.clone());
            return Err(error);
        }
        if !is_empty || even_if_empty {
            let written = self.place(writing).and_then(|()| {
                let in_log = writing.in_log(epoch);
                let Writing { writer, pages, others, .. } = writing;
                let former = writer.segment();
                let written = writer.write_epoch(in_log, pages);
                others.extend(former..writer.segment());
                written
            });
            written.inspect_err(|error| self.fail(error.clone()))?;
        }
        let Writing { writer, written, began_ms, .. } = writing;
        *written = epoch;
        *began_ms = sealed_ms;
        self.log_written_bytes.store(writer.written_bytes(), Ordering::Relaxed);
        let needs_keeper = writing.writer.lacks_spare() || self.is_checkpoint_due();
        self.publish(writing);
        if needs_keeper && let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
        Ok(!is_empty)
    }

    /// An error if a part of the pool has vanished.
    pub(super) fn demand_whole(&self) -> Result<(), LogError> {
        if !self.image.has_failed() {
            return Ok(());
        }
        let vanished = io::Error::other(
            "a page of the pool's file has vanished, or another program has written over the file",
        );
        Err(LogError::io("writing", self.segments.disk.path(""))(vanished))
    }

    /// Says how far the log has got, if it continues a checkpoint.
    pub(super) fn publish(&self, writing: &Writing) {
        let waiting = held(&self.waiting);
        if waiting.state == State::Based {
            self.durable.store(writing.written, Ordering::Release);
            self.durable_until_ms.store(writing.began_ms, Ordering::Relaxed);
        }
    }

    /// Ends the log: a block that could not be written is never written again, since the kernel may have dropped it and
    /// told so once.
    ///
    /// If only room was lacking, the keeper begins the log anew in the reserve, with a checkpoint that has everything.
    /// Then nothing is lost, and whoever waits is told nothing until that is done or has failed.
    pub(super) fn fail(&self, error: LogError) {
        self.log.stop();
        let mut waiting = held(&self.waiting);
        waiting.state = State::Broken;
        let keeper = self.keeper.get().filter(|_| matches!(error, LogError::Full { .. }));
        waiting.is_making_room = keeper.is_some();
        waiting.failure = Some(match error {
            LogError::Full { path, source } => LogError::Io { action: "making", path, source },
            error => error,
        });
        self.is_refusing.store(true, Ordering::Release);
        drop(waiting);
        if let Some(keeper) = keeper {
            keeper.unpark();
        }
        self.turnstile.release_all();
    }

    /// Room could not be made: who waits for it is told why.
    pub(super) fn give_up_making_room(&self) {
        held(&self.waiting).is_making_room = false;
        self.turnstile.release_all();
    }

    /// Refuses mutations because something is lacking that the log will need, or does so no longer.
    pub(super) fn refuse(&self, lacking: Option<LogError>) {
        let mut waiting = held(&self.waiting);
        if waiting.state != State::Broken {
            self.is_refusing.store(lacking.is_some(), Ordering::Release);
            waiting.failure = lacking;
            waiting.is_making_room = false;
            drop(waiting);
            // Who waits for the first checkpoint waits no longer if that cannot be made.
            self.turnstile.release_all();
        }
    }

    /// Has mutations wait, while a checkpoint is made that will give the log room; whether it does. Those that are
    /// refused already stay so.
    pub(super) fn make_room_first(&self, lacking: LogError) -> bool {
        let mut waiting = held(&self.waiting);
        let is_new = waiting.state == State::Based && waiting.failure.is_none();
        if is_new {
            waiting.failure = Some(lacking);
            waiting.is_making_room = true;
            self.is_refusing.store(true, Ordering::Release);
        }
        is_new
    }

    pub(super) fn flush_periodically(&self) {
        let mut empty_epochs = 0;
        while !self.is_stopping.load(Ordering::Acquire) {
            let is_failed = self.is_refusing.load(Ordering::Acquire) && !self.log.is_on();
            let is_dozing = empty_epochs >= IDLE_EPOCHS || is_failed;
            if is_dozing {
                self.log.wake_on_append(true);
            }
            if !is_failed {
                // The failure is kept for who asks.
                let (some, written) = {
                    let mut writing = held(&self.writing);
                    let some = self.write_epoch(&mut writing, false).unwrap_or(false);
                    (some, writing.written)
                };
                self.turnstile.release(written);
                self.tell_futures();
                empty_epochs = if some { 0 } else { empty_epochs.saturating_add(1) };
                if some && is_dozing {
                    self.log.wake_on_append(false);
                    continue;
                }
            }
            std::thread::park_timeout(if is_dozing { DOZE } else { self.interval });
            self.log.wake_on_append(false);
        }
    }
}
