//! Futures that are ready when something survives power loss.

use crate::handle::{Handle, Ticket};
use crate::{Error, Result};
use pmem::durability;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is ready when everything up to a ticket survives power loss:
/// [`Pool::when_durable`](crate::Pool::when_durable).
///
/// It needs no runtime, borrows nothing, and blocks no thread. The thread that writes the log wakes it. Dropping it
/// gives up waiting and nothing else: what was done becomes durable all the same.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct WhenDurable {
    wait: Wait,
    forks_at_begin: u32,
}

#[derive(Debug)]
enum Wait {
    For(durability::WhenDurable),
    Over(Option<Result<()>>),
}

impl Future for WhenDurable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if pmem::sync::forks() != self.forks_at_begin {
            return Poll::Ready(Err(Error::Forked));
        }
        match &mut self.wait {
            Wait::For(log) => Pin::new(log).poll(context).map_err(Error::Log),
            Wait::Over(result) => {
                Poll::Ready(result.take().expect("a future is not polled after it was ready"))
            }
        }
    }
}

impl Handle {
    /// As [`Pool::when_durable`](crate::Pool::when_durable).
    pub(crate) fn when_durable(&self, ticket: Ticket) -> WhenDurable {
        let wait = match self.durable() {
            Ok(Some(durable)) => Wait::For(durable.when_durable(ticket.0)),
            Ok(None) => Wait::Over(Some(Ok(()))),
            Err(error) => Wait::Over(Some(Err(error))),
        };
        WhenDurable { wait, forks_at_begin: pmem::sync::forks() }
    }
}
