//! What serving guests takes of an owner's handle, for a thread of its own.

use super::figures::OfPool;
use crate::ticket::Tickets;
use crate::{Durability, Error, Result};
use pmem::OpenError;
use pmem::Write;
use pmem::durability::{Attendant, LogUse};
use pmem::medium::{Medium as _, MediumKind, Memory};
use std::sync::Arc;
use std::time::Duration;

/// The right to change a pool for others.
pub(crate) struct Rights {
    pub(crate) pool: Arc<pmem::Pool<Memory>>,
    pub(crate) log: Option<Attendant>,
    /// Whether each change waits until it survives power loss.
    pub(crate) commits: bool,
    pub(crate) recovery: Duration,
    pub(crate) tickets: Tickets,
}

impl Rights {
    /// Refuses a pool that has lost a page, or turned out to be damaged.
    pub(super) fn look(&self) -> Result<()> {
        if let Some(damage) = self.pool.damage() {
            return Err(OpenError::from(damage).into());
        }
        if self.pool.has_failed() {
            let pool_bytes = self.pool.medium().size();
            return Err(Error::Vanished { file_bytes: 0, pool_bytes });
        }
        Ok(())
    }

    /// The right to change the pool once.
    pub(super) fn enter(&self) -> Result<Write<'_>> {
        if let Some(log) = &self.log {
            log.admit()?;
        }
        Ok(self.pool.write()?)
    }

    /// The log. `None` where everything that returned survives without one.
    pub(super) fn log(&self) -> Result<Option<&Attendant>> {
        match (&self.log, self.pool.medium().kind()) {
            (None, MediumKind::Mapped | MediumKind::Dram) => Err(Error::NotLogged),
            (log, _) => Ok(log.as_ref()),
        }
    }

    pub(super) fn tickets(&self) -> Tickets {
        self.tickets
    }

    pub(super) fn log_use(&self) -> Option<LogUse> {
        self.log.as_ref().map(Attendant::usage)
    }

    pub(super) fn of_pool(&self) -> OfPool {
        let superblock = self.pool.superblock();
        OfPool {
            pool_bytes: self.pool.medium().size(),
            incarnation: superblock.incarnation,
            durability: superblock.logged().map_or(Durability::Process, |found| found.durability),
            recovery: self.recovery,
        }
    }
}
