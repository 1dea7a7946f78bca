//! Futures that are ready when something survives power loss.

use crate::guests::Beside;
use crate::handle::Handle;
use crate::ticket::Ticket;
use crate::{Error, Result};
use pmem::durability;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::Builder;

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
    /// The pool's owner is asked, by a thread of its own.
    Asked(Arc<Mutex<Told>>),
    Over(Option<Result<()>>),
}

/// What the owner has said.
#[derive(Debug, Default)]
struct Told {
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

/// Has a thread ask the owner. A guest's futures are few: who has many of them is a server, and owns its pool.
fn ask(link: Arc<dyn Beside>, ticket: Ticket) -> Wait {
    let told = Arc::new(Mutex::new(Told::default()));
    let tells = Arc::clone(&told);
    let ask = move || {
        let result = link.wait_durable(ticket);
        let mut told = tells.lock().unwrap_or_else(PoisonError::into_inner);
        told.result = Some(result);
        let waker = told.waker.take();
        drop(told);
        waker.into_iter().for_each(Waker::wake);
    };
    match Builder::new().name("firndex-waits".into()).spawn(ask) {
        Ok(_) => Wait::Asked(told),
        Err(source) => {
            Wait::Over(Some(Err(Error::Io { action: "starting a thread that waits", source })))
        }
    }
}

impl Future for WhenDurable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if pmem::sync::forks() != self.forks_at_begin {
            return Poll::Ready(Err(Error::Forked));
        }
        match &mut self.wait {
            Wait::For(log) => Pin::new(log).poll(context).map_err(Error::Log),
            Wait::Asked(told) => {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                match told.result.take() {
                    Some(result) => Poll::Ready(result),
                    None => {
                        told.waker = Some(context.waker().clone());
                        Poll::Pending
                    }
                }
            }
            Wait::Over(result) => {
                Poll::Ready(result.take().expect("a future is not polled after it was ready"))
            }
        }
    }
}

impl Handle {
    /// As [`Pool::when_durable`](crate::Pool::when_durable).
    pub(crate) fn when_durable(&self, ticket: Ticket) -> WhenDurable {
        let wait = match (self.shared_link(), self.durable()) {
            (Some(link), _) => ask(link, ticket),
            (None, Ok(Some(durable))) => {
                Wait::For(durable.when_durable(self.epoch_of(ticket, durable)))
            }
            (None, Ok(None)) => Wait::Over(Some(Ok(()))),
            (None, Err(error)) => Wait::Over(Some(Err(error))),
        };
        WhenDurable { wait, forks_at_begin: pmem::sync::forks() }
    }
}
