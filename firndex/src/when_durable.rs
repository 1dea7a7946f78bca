//! Futures that are ready when something survives power loss.

use crate::handle::{Handle, Ticket};
use crate::{Error, Result, Store, Table};
use index::Fixed;
use pmem::durability;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is ready when everything up to a ticket survives power loss: [`Table::when_durable`].
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
    /// As [`Table::when_durable`].
    pub(crate) fn when_durable(&self, ticket: Ticket) -> WhenDurable {
        let wait = match self.durable() {
            Ok(Some(durable)) => Wait::For(durable.when_durable(ticket.0)),
            Ok(None) => Wait::Over(Some(Ok(()))),
            Err(error) => Wait::Over(Some(Err(error))),
        };
        WhenDurable { wait, forks_at_begin: pmem::sync::forks() }
    }
}

impl<K: Fixed, V: Fixed> Table<K, V> {
    /// A future that is ready when everything up to `ticket` survives power loss, for asynchronous programs: as
    /// [`Table::wait_durable`], but no thread waits, however many futures there are. It has the log written at once,
    /// whatever [`Options::durable_every`](crate::Options::durable_every) is. All that wait at the same time share one
    /// write.
    ///
    /// It ends with the error if the log cannot be written ([`Error::Log`]). It does not keep the table from being
    /// closed, which makes everything durable, and so the future ready.
    ///
    /// With [`Durability::Commit`](crate::Durability::Commit) each change waits for the disk by itself. So use it with
    /// [`Durability::Periodic`](crate::Durability::Periodic).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("accounts.firn");
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use firndex::{Durability, Options};
    ///
    /// let accounts = Options::new().durability(Durability::Periodic).open_or_create_table(&path)?;
    /// accounts.put(1, 100)?;
    /// accounts.when_durable(accounts.ticket()?).await?;
    /// # firndex::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn when_durable(&self, ticket: Ticket) -> WhenDurable {
        self.handle.when_durable(ticket)
    }
}

impl Store {
    /// A future that is ready when everything up to `ticket` survives power loss; see
    /// [`Table::when_durable`](crate::Table::when_durable).
    pub fn when_durable(&self, ticket: Ticket) -> WhenDurable {
        self.handle.when_durable(ticket)
    }
}
