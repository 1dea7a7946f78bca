//! The thread that has segments at hand, makes checkpoints, and begins a broken log anew.

use super::super::checkpoint::{Checkpoint, Continued};
use super::super::held;
use super::super::names;
use super::{Rejoining, Shared, State, begin_log};
use crate::durability::{HoldError, LogError, RestoreError, SafeCopy};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How often the keeper looks for work by itself.
const KEEPER_INTERVAL: Duration = Duration::from_millis(200);
/// How often a log that could not be written is begun anew.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Unless the user chose another threshold, a checkpoint is made when the log has this many times the pool's bytes,
const LOG_PER_POOL: u64 = 16;
/// or this many, whichever is less, and never before it is as large as the pool.
const LOG_BYTES: u64 = 256 << 20;

impl Shared {
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let pool = self.checkpoint_bytes.load(Ordering::Relaxed);
        let usual = LOG_BYTES.min(pool.saturating_mul(LOG_PER_POOL));
        self.log_bytes() >= pool.max(self.checkpoint_bytes_min.unwrap_or(usual))
    }

    pub(super) fn keep(&self) {
        let mut failed: Option<Instant> = None;
        let mut has_looked = false;
        while !self.is_stopping.load(Ordering::Acquire) {
            if has_looked {
                self.take_rest();
            }
            has_looked = true;
            let may_retry = failed.is_none_or(|failed| failed.elapsed() >= RETRY_INTERVAL);
            if self.keep_once(may_retry).is_err() && may_retry {
                failed = Some(Instant::now());
            }
            self.tell_futures();
            std::thread::park_timeout(KEEPER_INTERVAL);
        }
    }

    /// Takes the second place, if the opening has left that for later.
    pub(super) fn take_rest(&self) {
        self.places.take_rest(self.image.bytes_at_hand());
    }

    /// Prepares segments, makes checkpoints, and restarts a broken log. Retries what failed before only if it
    /// `may_retry`.
    pub(super) fn keep_once(&self, may_retry: bool) -> Result<(), LogError> {
        let (state, is_waited_for) = {
            let waiting = held(&self.waiting);
            (waiting.state, waiting.is_making_room)
        };
        if let Err(displaced) = self.segments.disk.demand_names() {
            let displaced = LogError::io("writing", self.segments.disk.path(""))(displaced);
            self.refuse(Some(displaced.clone()));
            self.give_up_making_room();
            return Err(displaced);
        }
        if state == State::Broken {
            // No checkpoint could be made of what is left.
            if !may_retry && !is_waited_for {
                return Ok(());
            }
            let begun = self.demand_whole().and_then(|()| self.begin_anew());
            // If it has begun, it may have run out of room again by now.
            return begun.inspect_err(|_| self.give_up_making_room());
        }
        let mut provided = self.provide_spare();
        let lacks_room = matches!(provided, Err(LogError::Full { .. })) && state == State::Based;
        let is_new_lack = match &provided {
            Err(lacking) if lacks_room => self.make_room_first(lacking.clone()),
            _ => false,
        };
        let is_due = state == State::Begun || self.is_checkpoint_due() || lacks_room;
        let may_try = may_retry || is_new_lack;
        let make = |one: &MutexGuard<'_, ()>| match state {
            State::Begun => self.base_as(one),
            State::Based | State::Broken => self.checkpoint_as(one),
        };
        let made = if is_due && may_try { self.unless_held(make) } else { Ok(false) };
        if lacks_room && matches!(made, Ok(true)) {
            provided = self.provide_spare();
            if provided.is_err() && self.places.is_alone() {
                provided = self.turn_over();
            }
            if let Err(lacking) = &provided {
                // There is but one segment.
                self.fail(lacking.clone());
                self.begin_anew().inspect_err(|_| self.give_up_making_room())?;
                provided = self.provide_spare();
            }
        }
        let lacking = match state {
            // Without the new checkpoint there is the one before.
            State::Based | State::Broken => provided.clone().err(),
            State::Begun => provided.clone().and(made.clone().map(drop)).err(),
        };
        // What failed before is still lacking if it was not tried again.
        if lacking.is_some() || state == State::Based || may_retry {
            self.refuse(lacking);
        }
        provided.and(made.map(drop))
    }

    /// Makes the segment that follows the one being written, if it is needed soon.
    pub(super) fn provide_spare(&self) -> Result<(), LogError> {
        let (supply, is_needed, mut obsolete) = {
            let mut writing = held(&self.writing);
            let before = writing.obsolete_before;
            let is_obsolete = |number: &u64| *number < before;
            let obsolete: Vec<u64> = writing.others.iter().copied().filter(is_obsolete).collect();
            writing.others.retain(|number| !is_obsolete(number));
            let writer = &writing.writer;
            (Arc::clone(writer.supply()), writer.needs_spare(), obsolete)
        };
        let provided = {
            let mut supply = held(&supply);
            let bytes = self.segments.bytes(self.image.bytes());
            let is_scarce = self.places.is_alone();
            supply.provide(&self.segments, bytes, is_needed, is_scarce, &mut obsolete)
        };
        obsolete.into_iter().for_each(|number| self.segments.remove(number));
        provided
    }

    /// Has a log whose only segment is half full go on in the reserve, and then in that segment again: once it is
    /// merged up to the reserve, nothing in the other one counts. Nobody may change the pool meanwhile, since the
    /// reserve is small. With one place for checkpoints there is no other way: a log that begins anew needs a copy.
    fn turn_over(&self) -> Result<(), LogError> {
        // Those that were under way when changes had to wait.
        self.image.wait_for_operations();
        {
            let mut writing = held(&self.writing);
            let supply = Arc::clone(writing.writer.supply());
            let has_next = held(&supply).use_reserve(&self.segments);
            if has_next {
                let former = writing.writer.segment();
                writing.writer.turn_over().inspect_err(|error| self.fail(error.clone()))?;
                let segment = writing.writer.segment();
                writing.others.extend(former..segment);
                // What is merged ends with a frame.
                self.write_epoch(&mut writing, true)?;
            }
        }
        self.unless_held(|one| self.checkpoint_as(one))?;
        self.provide_spare()
    }

    pub(super) fn provide_spare_if_lacking(&self) -> Result<(), LogError> {
        let lacks_spare = held(&self.writing).writer.lacks_spare();
        if lacks_spare { self.provide_spare() } else { Ok(()) }
    }

    /// Makes a checkpoint, unless one is being made or read; whether it did.
    fn unless_held(
        &self,
        make: impl FnOnce(&MutexGuard<'_, ()>) -> Result<(), LogError>,
    ) -> Result<bool, LogError> {
        let one = match self.checkpointing.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        make(&one).map(|()| true)
    }

    /// Makes a checkpoint in the way that writes less.
    pub(super) fn checkpoint(&self) -> Result<(), LogError> {
        self.checkpoint_as(&held(&self.checkpointing))
    }

    /// The same for who is the one to do it.
    fn checkpoint_as(&self, one: &MutexGuard<'_, ()>) -> Result<(), LogError> {
        if self.is_rejoining() {
            self.base_as(one)?;
        }
        // What has failed in the present image is no matter to another one.
        if self.merge_as(one, true).is_ok_and(|is_merged| is_merged) {
            return Ok(());
        }
        match self.copy_as(one) {
            // A pool whose disk was filled while it was closed has no second place.
            Err(LogError::Full { .. }) if self.merge_as(one, false).is_ok_and(|it| it) => Ok(()),
            copied => copied,
        }
    }

    /// Makes a checkpoint that is a copy of the pool: see the [module](super::super).
    pub(super) fn copy(&self) -> Result<(), LogError> {
        self.copy_as(&held(&self.checkpointing))
    }

    pub(super) fn copy_as(&self, _one: &MutexGuard<'_, ()>) -> Result<(), LogError> {
        let (log, from_epoch, generation, log_bytes) = {
            let mut writing = held(&self.writing);
            if writing.rejoining != Rejoining::Done {
                // Epochs of the one before do not end, and the copy has what it would have caught up with.
                self.begin_other(&mut writing).inspect_err(|error| self.fail(error.clone()))?;
            }
            let (writer, from_epoch) = (&writing.writer, writing.in_log(writing.written + 1));
            (writer.position(), from_epoch, writer.generation(), writer.written_bytes())
        };
        // What was in flight when fences began to append may have been fenced, and not appended.
        self.image.wait_for_operations();
        // After the place in the log was noted: what the pool grows by later is in the log.
        let image_bytes = self.image.bytes();
        let mut draft = self.places.draft(image_bytes)?;
        // A large image takes longer than the log takes to fill its next segments. If this fails, the keeper tries
        // again and says so.
        let written = draft.copy(&*self.image, || drop(self.provide_spare_if_lacking()))?;
        self.image.wait_for_operations();
        let (epoch, to_epoch) = {
            let mut writing = held(&self.writing);
            if writing.writer.generation() != generation {
                return Err(LogError::Closed);
            }
            self.write_epoch(&mut writing, true)?;
            (writing.written, writing.in_log(writing.written))
        };
        self.turnstile.release(epoch);
        self.name_checkpoints(generation)?;
        self.is_in_doubt.store(true, Ordering::Relaxed);
        draft.publish(Continued { generation, log, from_epoch, to_epoch })?;
        self.named(self.image.name_checkpoints(Some(generation), None))?;
        self.is_in_doubt.store(false, Ordering::Relaxed);
        draft.retire_former()?;
        self.checkpoint_bytes.store(image_bytes, Ordering::Relaxed);
        self.checkpoint_written_bytes.fetch_add(written, Ordering::Relaxed);
        self.count_checkpoint(log_bytes);
        self.continue_from(generation, log.segment);
        Ok(())
    }

    /// Counts a checkpoint that has been made of what there was when the log had so many bytes.
    pub(super) fn count_checkpoint(&self, log_bytes: u64) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.log_bytes_at_checkpoint.store(log_bytes, Ordering::Relaxed);
        self.former_log_bytes.store(0, Ordering::Relaxed);
    }

    /// The checkpoint is continued by the log of this generation, from this segment on: those before are of no use.
    pub(super) fn continue_from(&self, generation: u128, segment: u64) {
        let mut writing = held(&self.writing);
        writing.obsolete_before = segment;
        let mut waiting = held(&self.waiting);
        if writing.writer.generation() == generation && !writing.writer.has_failed() {
            waiting.state = State::Based;
            waiting.failure = None;
            waiting.is_making_room = false;
            self.is_refusing.store(false, Ordering::Release);
        }
        drop(waiting);
        self.publish(&writing);
        drop(writing);
        self.turnstile.release_all();
    }

    /// Records in the pool the existing checkpoint, and one of this generation. Whichever of the two a power loss
    /// leaves, the pool recognises it as its own, and no other checkpoint from another time. While it is uncertain
    /// which one is on the device, the pool names none, and accepts what it finds.
    fn name_checkpoints(&self, generation: u128) -> Result<(), LogError> {
        if self.is_in_doubt.load(Ordering::Relaxed) {
            return self.named(self.image.name_checkpoints(None, None));
        }
        let current = match Checkpoint::open(&*self.segments.disk) {
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
        done.map_err(LogError::io("naming", self.segments.disk.path(names::CHECKPOINTS[0])))
    }

    /// See [`Durable::hold`](super::Durable::hold).
    pub(super) fn hold<R>(&self, read: impl FnOnce(SafeCopy) -> R) -> Result<R, HoldError> {
        if held(&self.waiting).state == State::Begun {
            self.base_as(&held(&self.checkpointing))?;
        }
        // No other checkpoint gets its name meanwhile, so that no segment behind this one is used again.
        let _one = held(&self.checkpointing);
        let (written, epoch) = {
            let mut writing = held(&self.writing);
            let waiting = held(&self.waiting);
            if waiting.state != State::Based {
                return Err(waiting.failure.clone().unwrap_or(LogError::Closed).into());
            }
            drop(waiting);
            // Also if it is empty: it is looked for.
            self.write_epoch(&mut writing, true)?;
            (writing.written, writing.in_log(writing.written))
        };
        self.turnstile.release(written);
        Ok(read(SafeCopy::up_to(Arc::clone(&self.segments.disk), epoch)?))
    }

    /// After a failure: a log of a new generation, and a checkpoint that it continues. Until that has its name, nothing
    /// of the new log survives, and the log is said to be broken.
    pub(super) fn begin_anew(&self) -> Result<(), LogError> {
        // Whoever makes another checkpoint meanwhile would publish it for a log whose segments are used again here.
        let one = held(&self.checkpointing);
        {
            // Who writes to the old log may need another segment, whose number the new log's first one has.
            let mut writing = held(&self.writing);
            let failure = held(&self.waiting).failure.clone().unwrap_or(LogError::Closed);
            writing.writer.end(failure);
            held(writing.writer.supply()).end();
        }
        let (writer, others) = begin_log(&self.places, &self.segments, self.image.bytes())?;
        {
            let mut writing = held(&self.writing);
            writing.writer = writer;
            writing.others = others;
            (writing.rejoining, writing.epochs_before) = (Rejoining::Done, 0);
        }
        self.log.start();
        self.begin_epochs();
        self.checkpoint_as(&one).inspect_err(|error| self.abandon(error))
    }

    /// Gives up a log for which no checkpoint could be made. It is tried again, and must not leave segments each time.
    pub(super) fn abandon(&self, error: &LogError) {
        self.log.stop();
        let mut writing = held(&self.writing);
        let generation = writing.writer.generation();
        let numbers = writing.writer.end(error.clone());
        // The header may be written, and only its durability be in doubt: then the checkpoint needs its log.
        let is_needed = match Checkpoint::open(&*self.segments.disk) {
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
