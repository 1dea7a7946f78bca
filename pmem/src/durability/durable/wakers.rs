//! Futures that wait for the disk. No thread is blocked for any of them: whoever writes an epoch wakes them.
//!
//! What they ask for is copied here, apart from the log: a future may outlive its pool, and must not keep it open.

use super::super::held;
use super::{Durable, Shared, State};
use crate::durability::LogError;
use crate::sync::forks;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;

/// Where futures of a log wait.
#[derive(Default)]
pub(super) struct Wakers {
    told: Mutex<Told>,
    /// The thread that writes the log when nobody else does.
    writer: OnceLock<Thread>,
}

#[derive(Default)]
struct Told {
    /// Epochs up to this one survive.
    durable: u64,
    /// Why nothing more will, if that is so.
    refusal: Option<LogError>,
    /// By the epoch that is waited for, and a number of the future.
    waiting: BTreeMap<(u64, u64), Waker>,
    futures: u64,
}

impl Told {
    /// Those whose wait is over.
    fn due(&mut self) -> BTreeMap<(u64, u64), Waker> {
        if self.refusal.is_some() {
            return std::mem::take(&mut self.waiting);
        }
        let later = self.waiting.split_off(&(self.durable + 1, 0));
        std::mem::replace(&mut self.waiting, later)
    }
}

impl Wakers {
    pub(super) fn written_by(&self, thread: Thread) {
        let _ = self.writer.set(thread);
    }
}

impl Shared {
    pub(super) fn when_durable(&self, ticket: u64, forks_at_start: u32) -> WhenDurable {
        WhenDurable {
            wakers: Arc::clone(&self.wakers),
            ticket,
            is_durable: self.durable.load(Ordering::Acquire) >= ticket,
            number: None,
            forks_at_start,
        }
    }

    /// Tells futures how far the log is. The caller holds no lock: a waker is other people's code.
    pub(super) fn tell_futures(&self) {
        let due = {
            // Held until it is told, so that nothing older is told later.
            let waiting = held(&self.waiting);
            let mut told = held(&self.wakers.told);
            told.durable = told.durable.max(self.durable.load(Ordering::Acquire));
            told.refusal = match &waiting.failure {
                // While room is being made, the keeper may still mend it.
                Some(failure) if waiting.state != State::Based && !waiting.is_making_room => {
                    Some(failure.clone())
                }
                _ => self.is_stopping.load(Ordering::Acquire).then_some(LogError::Closed),
            };
            told.due()
        };
        due.into_values().for_each(Waker::wake);
    }
}

impl Durable {
    /// A future that is ready as soon as [`Durable::wait`] would return. It does not keep the log from ending: then it
    /// is ready, too.
    pub fn when_durable(&self, ticket: u64) -> WhenDurable {
        self.shared.when_durable(ticket, self.forks_at_start)
    }
}

/// See [`Durable::when_durable`].
#[must_use = "a future does nothing unless it is polled"]
pub struct WhenDurable {
    wakers: Arc<Wakers>,
    ticket: u64,
    /// Whether it was there from the beginning: futures are told of an epoch a moment later than others.
    is_durable: bool,
    /// Its own among those that wait for the same epoch, once it was polled.
    number: Option<u64>,
    forks_at_start: u32,
}

impl Future for WhenDurable {
    type Output = Result<(), LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if forks() != self.forks_at_start {
            // The lock's holder and the log's writer may not be in this process.
            return Poll::Ready(Err(LogError::Closed));
        }
        if self.is_durable {
            return Poll::Ready(Ok(()));
        }
        let wakers = Arc::clone(&self.wakers);
        let mut told = held(&wakers.told);
        let over =
            if told.durable >= self.ticket { Some(Ok(())) } else { told.refusal.clone().map(Err) };
        if let Some(over) = over {
            drop(told);
            return Poll::Ready(over);
        }
        let is_new = self.number.is_none();
        let number = *self.number.get_or_insert_with(|| {
            told.futures += 1;
            told.futures
        });
        let former = told.waiting.insert((self.ticket, number), context.waker().clone());
        drop(told);
        // A waker's end is other people's code, too.
        drop(former);
        if is_new && let Some(writer) = wakers.writer.get() {
            writer.unpark();
        }
        Poll::Pending
    }
}

impl Drop for WhenDurable {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && forks() == self.forks_at_start
        {
            let left = held(&self.wakers.told).waiting.remove(&(self.ticket, number));
            drop(left);
        }
    }
}

impl std::fmt::Debug for WhenDurable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WhenDurable").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
