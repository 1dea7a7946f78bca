//! The thread that has segments at hand, makes checkpoints, and begins a broken log anew.

use super::super::checkpoint::{Checkpoint, Draft, Header};
use super::super::held;
use super::super::writer::Segments;
use super::{Shared, State, begin_log};
use crate::durability::{HoldError, LogError, RestoreError, SafeCopy};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How often the keeper looks for work by itself.
const KEEPER_INTERVAL: Duration = Duration::from_millis(200);
/// How often some of the space of former files is freed.
const FREE_INTERVAL: Duration = Duration::from_millis(4);
/// How often a log that could not be written is begun anew.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Shared {
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let since = self.log_bytes_at_checkpoint.load(Ordering::Relaxed);
        let grown = self.log_written_bytes.load(Ordering::Relaxed).saturating_sub(since);
        let pool = self.checkpoint_bytes.load(Ordering::Relaxed);
        grown >= pool.max(self.checkpoint_bytes_min)
    }

    pub(super) fn keep(&self) {
        let mut failed: Option<Instant> = None;
        while !self.is_stopping.load(Ordering::Acquire) {
            let may_retry = failed.is_none_or(|failed| failed.elapsed() >= RETRY_INTERVAL);
            if self.keep_once(may_retry).is_err() && may_retry {
                failed = Some(Instant::now());
            }
            self.tell_futures();
            let has_more = self.segments.disk.free_some();
            std::thread::park_timeout(if has_more { FREE_INTERVAL } else { KEEPER_INTERVAL });
        }
    }

    /// Prepares segments, makes checkpoints, and restarts a broken log. Retries what failed before only if it
    /// `may_retry`.
    pub(super) fn keep_once(&self, may_retry: bool) -> Result<(), LogError> {
        let state = held(&self.waiting).state;
        if state == State::Broken {
            // No checkpoint could be made of what is left.
            self.demand_whole()?;
            return if may_retry { self.begin_anew() } else { Ok(()) };
        }
        let is_due = state == State::Begun || self.is_checkpoint_due();
        let made = if is_due && may_retry { self.checkpoint_unless_held() } else { Ok(()) };
        let provided = self.provide_spare();
        let lacking = match state {
            // Without the new checkpoint there is the one before.
            State::Based | State::Broken => provided.clone().err(),
            State::Begun => provided.clone().and(made.clone()).err(),
        };
        // What failed before is still lacking if it was not tried again.
        if lacking.is_some() || state == State::Based || may_retry {
            self.refuse(lacking);
        }
        provided.and(made)
    }

    /// Makes the segment that follows the one being written.
    pub(super) fn provide_spare(&self) -> Result<(), LogError> {
        let (supply, mut obsolete) = {
            let mut writing = held(&self.writing);
            let before = writing.obsolete_before;
            let is_obsolete = |number: &u64| *number < before;
            let obsolete: Vec<u64> = writing.others.iter().copied().filter(is_obsolete).collect();
            writing.others.retain(|number| !is_obsolete(number));
            (Arc::clone(writing.writer.supply()), obsolete)
        };
        let provided = {
            let mut supply = held(&supply);
            if supply.has_spare() {
                Ok(())
            } else {
                let bytes = self.segments.bytes(self.image.bytes());
                supply.provide(&self.segments, bytes, &mut obsolete)
            }
        };
        obsolete.into_iter().for_each(|number| self.segments.remove(number));
        provided
    }

    fn provide_spare_if_lacking(&self) -> Result<(), LogError> {
        let lacks_spare = held(&self.writing).writer.lacks_spare();
        if lacks_spare { self.provide_spare() } else { Ok(()) }
    }

    /// Makes a checkpoint, unless one is being made or read.
    fn checkpoint_unless_held(&self) -> Result<(), LogError> {
        match self.checkpointing.try_lock() {
            Ok(one) => self.checkpoint_as(one),
            Err(TryLockError::Poisoned(one)) => self.checkpoint_as(one.into_inner()),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    /// See the [module](super).
    pub(super) fn checkpoint(&self) -> Result<(), LogError> {
        self.checkpoint_as(held(&self.checkpointing))
    }

    /// The same for who is the one to do it.
    fn checkpoint_as(&self, _one: MutexGuard<'_, ()>) -> Result<(), LogError> {
        let (log, from_epoch, generation, log_bytes) = {
            let writing = held(&self.writing);
            let writer = &writing.writer;
            (writer.position(), writing.written + 1, writer.generation(), writer.written_bytes())
        };
        // What was in flight when fences began to append may have been fenced, and not appended.
        self.image.wait_for_operations();
        // After the place in the log was noted: what the pool grows by later is in the log.
        let image_bytes = self.image.bytes();
        let Segments { disk, names, uuid, sizes } = &*self.segments;
        let chunk_bytes = sizes.chunk;
        let mut draft = Draft::begin(&**disk, names, image_bytes, chunk_bytes)?;
        // A large image takes longer than the log takes to fill its next segments. If this fails, the keeper tries
        // again and says so.
        let written = draft.copy(&*self.image, || drop(self.provide_spare_if_lacking()))?;
        self.image.wait_for_operations();
        let to_epoch = {
            let mut writing = held(&self.writing);
            if writing.writer.generation() != generation {
                return Err(LogError::Closed);
            }
            self.write_epoch(&mut writing, true)?;
            writing.written
        };
        self.turnstile.release(to_epoch);
        self.name_checkpoints(generation)?;
        self.is_in_doubt.store(true, Ordering::Relaxed);
        draft.publish(Header {
            uuid: *uuid,
            generation,
            log,
            from_epoch,
            to_epoch,
            chunk_bytes,
            image_bytes,
            sums_crc: 0,
        })?;
        self.named(self.image.name_checkpoints(Some(generation), None))?;
        self.is_in_doubt.store(false, Ordering::Relaxed);
        self.checkpoint_bytes.store(image_bytes, Ordering::Relaxed);
        self.checkpoint_written_bytes.fetch_add(written, Ordering::Relaxed);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.log_bytes_at_checkpoint.store(log_bytes, Ordering::Relaxed);
        let mut writing = held(&self.writing);
        writing.obsolete_before = log.segment;
        let mut waiting = held(&self.waiting);
        if writing.writer.generation() == generation && !writing.writer.has_failed() {
            waiting.state = State::Based;
            waiting.failure = None;
            self.is_refusing.store(false, Ordering::Release);
        }
        drop(waiting);
        self.publish(&writing);
        drop(writing);
        self.turnstile.release_all();
        Ok(())
    }

    /// Records in the pool the existing checkpoint, and one of this generation. Whichever of the two a power loss
    /// leaves, the pool recognises it as its own, and no other checkpoint from another time. While it is uncertain
    /// which one is on the device, the pool names none, and accepts what it finds.
    fn name_checkpoints(&self, generation: u128) -> Result<(), LogError> {
        if self.is_in_doubt.load(Ordering::Relaxed) {
            return self.named(self.image.name_checkpoints(None, None));
        }
        let Segments { disk, names, .. } = &*self.segments;
        let current = match Checkpoint::open(&**disk, names) {
            Ok(found) => found.map(|found| found.header.generation),
            // It may be read again after the power loss.
            Err(RestoreError::Io { path, source }) => {
                return Err(LogError::io("reading", path)(source));
            }
            Err(_) => None,
        };
        let next = (current != Some(generation)).then_some(generation);
        self.named(self.image.name_checkpoints(current, next))
    }

    fn named(&self, done: io::Result<()>) -> Result<(), LogError> {
        let Segments { disk, names, .. } = &*self.segments;
        done.map_err(LogError::io("naming", disk.path(&names.checkpoint())))
    }

    /// See [`Durable::hold`](super::Durable::hold).
    pub(super) fn hold<R>(&self, read: impl FnOnce(SafeCopy) -> R) -> Result<R, HoldError> {
        if held(&self.waiting).state == State::Begun {
            self.checkpoint()?;
        }
        // No other checkpoint gets its name meanwhile, so that no segment behind this one is used again.
        let _one = held(&self.checkpointing);
        let epoch = {
            let mut writing = held(&self.writing);
            let waiting = held(&self.waiting);
            if waiting.state != State::Based {
                return Err(waiting.failure.clone().unwrap_or(LogError::Closed).into());
            }
            drop(waiting);
            // Also if it is empty: it is looked for.
            self.write_epoch(&mut writing, true)?;
            writing.written
        };
        self.turnstile.release(epoch);
        let Segments { disk, names, .. } = &*self.segments;
        Ok(read(SafeCopy::up_to(Arc::clone(disk), names.clone(), epoch)?))
    }

    /// After a failure: a log of a new generation, and a checkpoint that it continues. Until that has its name, nothing
    /// of the new log survives, and the log is said to be broken.
    pub(super) fn begin_anew(&self) -> Result<(), LogError> {
        let (writer, others) = begin_log(&self.segments, self.image.bytes())?;
        {
            let mut writing = held(&self.writing);
            writing.writer = writer;
            writing.others = others;
        }
        self.begin_epochs();
        self.checkpoint().inspect_err(|error| self.abandon(error))
    }

    /// Gives up a log for which no checkpoint could be made. It is tried again, and must not leave segments each time.
    pub(super) fn abandon(&self, error: &LogError) {
        self.log.stop();
        let mut writing = held(&self.writing);
        let generation = writing.writer.generation();
        let numbers = writing.writer.end(error.clone());
        let Segments { disk, names, .. } = &*self.segments;
        // The renaming may have been done, and only its durability be in doubt: then the checkpoint needs its log.
        let is_needed = match Checkpoint::open(&**disk, names) {
            Ok(found) => found.is_some_and(|found| found.header.generation == generation),
            Err(_) => true,
        };
        if is_needed {
            writing.others.extend(numbers);
        } else {
            numbers.for_each(|number| self.segments.remove(number));
        }
    }
}
