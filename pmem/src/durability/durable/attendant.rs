//! A log for a thread that changes the pool for others and must not wait for the disk.

use super::{Durable, LogUse, Shared, WhenDurable};
use crate::durability::LogError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The log of a [`Durable`], which must not end before the last use of this.
#[derive(Clone)]
pub struct Attendant {
    shared: Arc<Shared>,
    forks_at_start: u32,
}

impl Durable {
    /// For a thread of its own.
    pub fn attendant(&self) -> Attendant {
        Attendant { shared: Arc::clone(&self.shared), forks_at_start: self.forks_at_start }
    }
}

impl Attendant {
    /// As [`Durable::admit`].
    #[inline]
    pub fn admit(&self) -> Result<(), LogError> {
        self.shared.admit()
    }

    /// As [`Durable::ticket`].
    pub fn ticket(&self) -> u64 {
        self.shared.log.epoch()
    }

    /// As [`Durable::durable_up_to`].
    pub fn durable_up_to(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// As [`Durable::when_durable`].
    pub fn when_durable(&self, ticket: u64) -> WhenDurable {
        self.shared.when_durable(ticket, self.forks_at_start)
    }

    /// As [`Durable::usage`].
    pub fn usage(&self) -> LogUse {
        self.shared.usage()
    }
}

impl std::fmt::Debug for Attendant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendant").finish_non_exhaustive()
    }
}
