//! A pool on its way from its file to its user.

use super::memory::Beginning;
use crate::companions::Companions;
use crate::{Engine, Error, Options, Result};
use pmem::Pool;
use pmem::durability::{Durable, LogEnd};
use pmem::file::PoolFile;
use pmem::medium::Memory;
use pmem::meeting::Door;
use std::sync::Arc;
use std::time::Instant;

/// What may be at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    Open,
    OpenOrCreate,
}

/// A pool that was found or made, before its engine is opened.
pub(crate) struct Ready {
    pub(super) pool: Arc<Pool<Memory>>,
    pub(super) engine: Engine,
    pub(super) in_file: Option<InFile>,
    pub(super) began: Instant,
}

pub(super) struct InFile {
    /// A log that goes on. First, so that it is dropped before the file: its threads write until then, and the file has
    /// the lock that keeps other processes out.
    pub(super) resumed: Option<Durable>,
    pub(super) file: PoolFile,
    pub(super) companions: Companions,
    pub(super) beginning: Option<Beginning>,
    /// Where the log ended, if the pool was closed and its log may go on.
    pub(super) log_end: Option<LogEnd>,
}

impl Ready {
    pub(super) fn in_file(
        pool: Pool<Memory>,
        engine: Engine,
        file: PoolFile,
        companions: Companions,
        beginning: Option<Beginning>,
    ) -> Ready {
        let in_file = Some(InFile { resumed: None, file, companions, beginning, log_end: None });
        Ready { in_file, ..Ready::without_a_file(pool, engine) }
    }

    /// Of a pool that was closed, and whose log ended there.
    pub(super) fn closed_at(mut self, log_end: Option<LogEnd>) -> Ready {
        if let Some(in_file) = &mut self.in_file {
            in_file.log_end = log_end;
        }
        self
    }

    /// One in memory, or one whose file somebody else looks after.
    pub(crate) fn without_a_file(pool: Pool<Memory>, engine: Engine) -> Ready {
        Ready { pool: Arc::new(pool), engine, in_file: None, began: Instant::now() }
    }

    /// Where guests are to come in, if the options let them. Who comes waits until the pool is open. Otherwise removes
    /// what a process has left of it that was killed.
    pub(super) fn door(&self, options: &Options) -> Result<Option<Door>> {
        let Some(InFile { file, .. }) = self.in_file.as_ref().filter(|_| !options.read_only) else {
            return Ok(None);
        };
        let (uuid, inode) = (self.pool.superblock().uuid, file.place().inode);
        if !options.guests {
            pmem::meeting::remove(file.located(), inode, uuid);
            return Ok(None);
        }
        let door = Door::open(file.located(), inode, uuid, file.ownership()?);
        let io = |source| Error::Io { action: "making a place to meet guests at", source };
        Ok(Some(door.map_err(io)?))
    }

    /// Whether its making may have found no room. A full disk then leaves nothing to remove.
    pub(super) fn is_new(&self) -> bool {
        self.in_file.as_ref().is_none_or(|found| found.file.is_unnamed())
    }
}
