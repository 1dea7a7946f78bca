//! What a thread of its own reads out of a pool, piece by piece.
//!
//! What holds a scan in place belongs to one thread, and Python may ask for the next pair, or drop the iterator, in
//! any. So each iterator has a thread of its own, which reads one piece ahead. It ends with the scan, with the
//! iterator, or with the handle.

use crate::errors::{self, OrRaise};
use crate::shared::{Closes, Ends, Shared};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tables::Visit;

/// What can be read out.
pub(crate) trait Visits: Closes + 'static {
    /// Fails where the handle may not be used, as in a forked child.
    fn probe(&self) -> firndex::Result<()>;

    /// Shows every pair until `visit` breaks off.
    fn visit(&self, visit: Visit<'_>) -> firndex::Result<ControlFlow<()>>;
}

/// Pairs that are passed on together.
pub(crate) trait Piece: Default + Send + 'static {
    /// What of each pair is kept.
    type Of: Copy + Send;

    fn add(&mut self, of: Self::Of, key: &[u8], value: &[u8]);
    fn is_full(&self) -> bool;
    fn is_empty(&self) -> bool;
}

/// Where the thread puts a piece, and the iterator takes it.
struct Slot<P> {
    piece: Option<P>,
    /// How the scan ended.
    end: Option<firndex::Result<()>>,
    /// Whether nobody asks any more.
    is_given_up: bool,
    /// Whether that is since the handle was closed.
    is_closed: bool,
}

struct Pipe<P> {
    slot: Mutex<Slot<P>>,
    changed: Condvar,
}

impl<P> Pipe<P> {
    fn new() -> Self {
        let slot = Slot { piece: None, end: None, is_given_up: false, is_closed: false };
        Pipe { slot: Mutex::new(slot), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Slot<P>> {
        // No thread panics in between: each changes single fields.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, slot: MutexGuard<'a, Slot<P>>) -> MutexGuard<'a, Slot<P>> {
        self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a piece on once the one before is taken.
    fn put(&self, piece: P) -> ControlFlow<()> {
        let mut slot = self.lock();
        while slot.piece.is_some() && !slot.is_given_up {
            slot = self.wait(slot);
        }
        if slot.is_given_up {
            return ControlFlow::Break(());
        }
        slot.piece = Some(piece);
        self.changed.notify_all();
        ControlFlow::Continue(())
    }

    /// The next piece; `None` if there is none, and how the scan ended.
    fn take(&self) -> (Option<P>, Option<firndex::Result<()>>) {
        let mut slot = self.lock();
        loop {
            if let Some(piece) = slot.piece.take() {
                self.changed.notify_all();
                return (Some(piece), None);
            }
            if slot.end.is_some() || slot.is_closed {
                return (None, slot.end.take());
            }
            slot = self.wait(slot);
        }
    }

    fn give_up(&self, is_closed: bool) {
        let mut slot = self.lock();
        slot.is_given_up = true;
        slot.is_closed |= is_closed;
        self.changed.notify_all();
    }
}

impl<P: Send> Ends for Pipe<P> {
    fn end(&self) {
        self.give_up(true);
    }
}

/// Fills the pipe with what `source` has.
fn fill<P: Piece>(source: &impl Visits, of: P::Of, pipe: &Pipe<P>) -> firndex::Result<()> {
    let mut piece = P::default();
    let visited = source.visit(&mut |key, value| {
        piece.add(of, key, value);
        if piece.is_full() {
            pipe.put(std::mem::take(&mut piece))
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if visited.is_continue() && !piece.is_empty() {
        // Whoever has given up needs no more.
        let _ = pipe.put(piece);
    }
    Ok(())
}

/// Where an iterator takes its pieces from.
pub(crate) struct Reader<P: Piece> {
    /// `None` once it is used up.
    pipe: Option<Arc<Pipe<P>>>,
    process: u32,
}

impl<P: Piece> Reader<P> {
    pub(crate) fn begin<T: Visits>(
        py: Python<'_>,
        shared: &Shared<T>,
        of: P::Of,
    ) -> PyResult<Self> {
        let source = shared.get(py)?;
        py.detach(|| source.probe()).or_raise(py)?;
        let pipe = Arc::new(Pipe::new());
        let ends: Arc<dyn Ends> = pipe.clone();
        shared.adopt(Arc::downgrade(&ends))?;
        if shared.is_closed() {
            // Who closes it has looked for iterators before, and waits for all that share the pool.
            ends.end();
        }
        let filled = Arc::clone(&pipe);
        let scan = move || {
            let end = fill(&*source, of, &filled);
            // Whoever closes the handle waits for this.
            drop(source);
            let mut slot = filled.lock();
            slot.end = Some(end);
            filled.changed.notify_all();
        };
        std::thread::Builder::new().name("firndex-iterator".into()).spawn(scan)?;
        Ok(Reader { pipe: Some(pipe), process: std::process::id() })
    }

    /// The next piece, which is not empty; `None` at the end.
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<P>> {
        let Some(pipe) = self.pipe.clone() else { return Ok(None) };
        if std::process::id() != self.process {
            let message = "this iterator was begun before the process forked; open the pool again in the child";
            return Err(errors::raise(py, "Forked", message));
        }
        let (piece, end) = py.detach(|| pipe.take());
        if piece.is_some() {
            return Ok(piece);
        }
        self.pipe = None;
        if pipe.lock().is_closed {
            let message = "the pool was closed while this iterator was in use; begin a new one on an open handle";
            return Err(errors::raise(py, "Closed", message));
        }
        match end {
            Some(end) => end.or_raise(py).map(|()| None),
            None => {
                Err(PyRuntimeError::new_err("the iterator's thread has ended without a result"))
            }
        }
    }
}

impl<P: Piece> Drop for Reader<P> {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            if std::process::id() == self.process {
                pipe.give_up(false);
            } else {
                // Its thread does not exist here, and may have held the lock.
                std::mem::forget(pipe);
            }
        }
    }
}
