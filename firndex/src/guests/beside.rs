//! What a handle asks of a guest's way to the owner.

use super::figures::Figures;
use crate::stats::Stats;
use crate::ticket::Ticket;
use crate::{Result, Role};
use index::CheckReport;
use pmem::durability::LogUse;
use std::any::Any;
use std::sync::Arc;

/// A way to whoever is the owner of a pool, be it this process by now.
pub(crate) trait Beside: Send + Sync {
    fn role(&self) -> Role;

    /// The table or store by which this process owns the pool, if it does by now.
    fn own(&self) -> Option<&dyn Any>;

    /// Its statistics, and the result of a check.
    fn own_stats(&self) -> Option<Result<Stats>>;
    fn own_check(&self) -> Option<Result<CheckReport>>;

    /// Why a look-up of this thread has failed since this was asked last.
    fn failure(&self) -> Result<()>;

    /// What a guest's statistics are made of; nothing if this process owns the pool.
    fn figures(&self) -> Result<Option<Figures>>;

    /// Permissions of the pool's file, nine bits.
    fn mode(&self) -> u32;

    fn ticket(&self) -> Result<Ticket>;
    fn durable_up_to(&self) -> Result<Ticket>;
    fn wait_durable(&self, ticket: Ticket) -> Result<()>;
    fn sync(&self) -> Result<()>;
    fn log(&self) -> Result<Option<LogUse>>;

    /// Has all calls fail that wait in other threads.
    fn end_waits(&self);

    /// Closes the pool if this process owns it. Threads that wait for the disk end first.
    fn close(self: Arc<Self>) -> Result<()>;
}
