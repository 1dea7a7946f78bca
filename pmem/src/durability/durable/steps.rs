//! A log that somebody else moves on.

use super::super::{HoldError, SafeCopy, Sizes, held};
#[cfg(doc)]
use super::Durable;
use super::{Config, Image, LogUse, Shared};
use crate::durability::LogError;
use crate::line_log::LineLog;
use crate::superblock::LogEnd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A log and its checkpoints without threads of their own: each step is a call. For simulations, which decide what
/// happens in between.
pub struct Steps {
    shared: Shared,
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steps").finish_non_exhaustive()
    }
}

impl Steps {
    /// As [`Durable::start`], before the first checkpoint.
    pub fn begin(
        config: Config,
        sizes: Sizes,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
    ) -> Result<Steps, LogError> {
        Ok(Steps { shared: Shared::begin(config, sizes, log, image)? })
    }

    /// As [`Durable::start`] where the log of a killed process goes on; `None` if it cannot.
    pub fn rejoin(
        config: Config,
        sizes: Sizes,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
    ) -> Result<Option<Steps>, LogError> {
        let rejoined = Shared::rejoin(config, sizes, log, image)?;
        Ok(rejoined.map(|shared| Steps { shared }))
    }

    /// As [`Durable::resume`].
    pub fn resume(
        config: Config,
        sizes: Sizes,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
        end: LogEnd,
    ) -> Result<Option<Steps>, LogError> {
        let resumed = Shared::resume(config, sizes, log, image, end)?;
        Ok(resumed.map(|shared| Steps { shared }))
    }

    /// As [`Durable::prepare_end`].
    pub fn prepare_end(&self) {
        self.shared.prepare_end();
    }

    /// As [`Durable::end`].
    pub fn end(&self) -> Option<LogEnd> {
        let end = self.shared.end();
        self.shared.log.stop();
        end
    }

    /// Writes what was appended so far; whether there was anything.
    pub fn flush(&self) -> Result<bool, LogError> {
        self.shared.write_epoch(&mut held(&self.shared.writing), false)
    }

    /// Makes a checkpoint that is a copy of the pool.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.shared.copy()
    }

    /// Merges the log into the checkpoint there is; whether that could be.
    pub fn merge(&self) -> Result<bool, LogError> {
        self.shared.merge()
    }

    /// Has the segment at hand that follows.
    pub fn provide_spare(&self) -> Result<(), LogError> {
        self.shared.provide_spare()
    }

    /// Does once what the thread behind a [`Durable`] does all the time: checkpoints, segments, beginning anew.
    pub fn keep(&self) -> Result<(), LogError> {
        self.shared.take_rest();
        self.shared.keep_once(true)
    }

    /// Whether a mutation may begin, as [`Durable::admit`].
    pub fn admit(&self) -> Result<(), LogError> {
        if self.shared.is_refusing.load(Ordering::Acquire) { self.shared.refusal() } else { Ok(()) }
    }

    /// As [`Durable::wait`]. Where something is lacking that only another step gives, this waits forever.
    pub fn wait(&self, ticket: u64) -> Result<(), LogError> {
        self.shared.flush(ticket, true)
    }

    /// As [`Durable::hold`].
    pub fn hold<R>(&self, read: impl FnOnce(SafeCopy) -> R) -> Result<R, HoldError> {
        self.shared.hold(read)
    }

    /// The last epoch that survives power loss.
    pub fn durable_up_to(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Figures.
    pub fn usage(&self) -> LogUse {
        self.shared.usage()
    }
}
