//! Tickets: moments of a pool.

/// A moment of a pool: everything that a thread had done or seen by then. See [`Pool::ticket`](crate::Pool::ticket).
/// Of two tickets of one pool the later one is larger, whichever processes have given them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// Bits of an epoch of the log. Above are those of the pool's incarnation: each process counts its epochs anew.
const EPOCH_BITS: u32 = 40;
const EPOCHS: u64 = 1 << EPOCH_BITS;

/// The tickets that one process gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tickets {
    incarnation: u64,
}

impl Tickets {
    /// Those of the process that has opened the pool for the so many-th time.
    pub(crate) fn of(incarnation: u64) -> Tickets {
        Tickets { incarnation: incarnation << EPOCH_BITS }
    }

    /// The ticket of an epoch.
    pub(crate) fn ticket(self, epoch: u64) -> Ticket {
        Ticket(self.incarnation | epoch.min(EPOCHS - 1))
    }

    /// The ticket up to which everything survives if epochs up to this one do. If none does, even what was there
    /// before may not.
    pub(crate) fn durable(self, epoch: u64) -> Ticket {
        if epoch == 0 { Ticket(0) } else { self.ticket(epoch) }
    }

    /// The epoch to wait for, for what a ticket says, `now` being the one that has begun. What another process has
    /// given is about what was there before: it needs all there is.
    pub(crate) fn epoch(self, ticket: u64, now: u64) -> u64 {
        let is_own = ticket & !(EPOCHS - 1) == self.incarnation;
        if is_own { (ticket & (EPOCHS - 1)).min(now) } else { now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_tickets_are_larger_and_those_of_others_wait_for_everything() {
        let (former, own) = (Tickets::of(6), Tickets::of(7));
        let late = former.ticket(1_000_000);
        assert!(late < own.ticket(0) && own.ticket(3) < own.ticket(4));
        assert_eq!(own.epoch(own.ticket(3).0, 9), 3);
        assert_eq!(own.epoch(late.0, 9), 9);
        // One of a process that was never there waits for no epoch that will never come.
        assert_eq!(own.epoch(u64::MAX, 9), 9);
        assert_eq!(own.epoch(own.ticket(20).0, 9), 9);
        assert!(own.durable(0) < late && own.durable(1) > late);
    }
}
