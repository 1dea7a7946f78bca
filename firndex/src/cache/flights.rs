//! One computation of a value at a time for each key: others that want it wait for that one.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

const PARTS: usize = 64;

/// Computations by their keys.
type ByKey = HashMap<Box<[u8]>, Arc<Flight>>;

/// The computations under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    parts: Box<[Mutex<ByKey>]>,
    hasher: RandomState,
}

/// One of them.
#[derive(Debug, Default)]
pub(super) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    value: Option<Arc<[u8]>>,
    wakers: Vec<Waker>,
}

/// What a caller has to do.
pub(super) enum Part<'a> {
    /// Compute the value.
    Compute(Computing<'a>),
    /// Wait for another one who does.
    Wait(Arc<Flight>),
}

/// The right to compute the value of a key. Dropped without a value, it is somebody else's turn.
pub(super) struct Computing<'a> {
    flights: &'a Flights,
    key: Box<[u8]>,
    flight: Arc<Flight>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    pub(super) fn new() -> Flights {
        Flights { parts: (0..PARTS).map(|_| Mutex::default()).collect(), ..Flights::default() }
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, ByKey> {
        lock(&self.parts[self.hasher.hash_one(key) as usize % PARTS])
    }

    /// Joins the computation of a key's value, or begins one.
    pub(super) fn join(&self, key: &[u8]) -> Part<'_> {
        let mut part = self.part(key);
        if let Some(flight) = part.get(key) {
            return Part::Wait(Arc::clone(flight));
        }
        let flight = Arc::new(Flight::default());
        part.insert(key.into(), Arc::clone(&flight));
        Part::Compute(Computing { flights: self, key: key.into(), flight })
    }
}

impl Computing<'_> {
    /// Gives the value to all who wait. It is where later ones look by now.
    pub(super) fn end(self, value: Arc<[u8]>) {
        lock(&self.flight.state).value = Some(value);
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.flights.part(&self.key).remove(&self.key);
        let wakers = {
            let mut state = lock(&self.flight.state);
            state.is_over = true;
            std::mem::take(&mut state.wakers)
        };
        self.flight.ended.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Flight {
    /// The value, when it is there. `None`: it could not be computed, and somebody else is to try.
    pub(super) fn wait(&self) -> Option<Arc<[u8]>> {
        let mut state = lock(&self.state);
        while !state.is_over {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.value.clone()
    }
}

/// [`Flight::wait`], for asynchronous programs.
pub(super) struct Arrival(pub(super) Arc<Flight>);

impl Future for Arrival {
    type Output = Option<Arc<[u8]>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0.state);
        if state.is_over {
            return Poll::Ready(state.value.clone());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
