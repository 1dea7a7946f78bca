//! Iterators over a store.
//!
//! What holds a scan in place belongs to one thread, and Python may ask for the next pair, or drop the iterator, in any.
//! So each iterator has a thread of its own, which reads one piece ahead. It ends with the scan, with the iterator, or
//! with the handle.

use crate::errors::{self, OrRaise};
use crate::shared::{Ends, Shared};
use firndex::Store;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A piece is passed on when it has so many pairs, or so many bytes.
const PAIRS_MAX: usize = 512;
const BYTES_MAX: usize = 1 << 18;

/// What an iterator gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Keys,
    Values,
    Items,
}

/// Keys and values one behind another, as far as they are asked for.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

impl Piece {
    fn add(&mut self, of: Of, key: &[u8], value: &[u8]) {
        if of != Of::Values {
            self.bytes.extend_from_slice(key);
        }
        let key_end = self.bytes.len();
        if of != Of::Keys {
            self.bytes.extend_from_slice(value);
        }
        self.ends.push((key_end, self.bytes.len()));
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= PAIRS_MAX || self.bytes.len() >= BYTES_MAX
    }

    fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let &(key_end, value_end) = self.ends.get(index)?;
        Some((&self.bytes[begin..key_end], &self.bytes[key_end..value_end]))
    }
}

/// Where the thread puts a piece, and the iterator takes it.
#[derive(Default)]
struct Slot {
    piece: Option<Piece>,
    /// How the scan ended.
    end: Option<firndex::Result<()>>,
    /// Whether nobody asks any more.
    is_given_up: bool,
    /// Whether that is since the handle was closed.
    is_closed: bool,
}

#[derive(Default)]
struct Pipe {
    slot: Mutex<Slot>,
    changed: Condvar,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // No thread panics in between: each changes single fields.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, slot: MutexGuard<'a, Slot>) -> MutexGuard<'a, Slot> {
        self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a piece on once the one before is taken.
    fn put(&self, piece: Piece) -> ControlFlow<()> {
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
    fn take(&self) -> (Option<Piece>, Option<firndex::Result<()>>) {
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

impl Ends for Pipe {
    fn end(&self) {
        self.give_up(true);
    }
}

/// Fills the pipe with what `store` has.
fn fill(store: &Store, of: Of, pipe: &Pipe) -> firndex::Result<()> {
    let mut piece = Piece::default();
    let visited = store.try_for_each(|key, value| {
        piece.add(of, key, value);
        if piece.is_full() {
            pipe.put(std::mem::take(&mut piece))
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if visited.is_continue() && !piece.ends.is_empty() {
        let _ = pipe.put(piece);
    }
    Ok(())
}

/// An iterator over the keys, values or pairs of a store.
#[pyclass(module = "firndex._firndex")]
pub(crate) struct Pairs {
    of: Of,
    /// `None` once it is used up.
    pipe: Option<Arc<Pipe>>,
    piece: Piece,
    next: usize,
    process: u32,
}

impl Pairs {
    pub(crate) fn new(py: Python<'_>, shared: &Shared<Store>, of: Of) -> PyResult<Self> {
        let store = shared.get(py)?;
        // Before a thread has to tell: of a handle that a forked child has inherited, say.
        store.contains_key(b"").or_raise(py)?;
        let pipe = Arc::new(Pipe::default());
        let ends: Arc<dyn Ends> = pipe.clone();
        shared.adopt(Arc::downgrade(&ends))?;
        let filled = Arc::clone(&pipe);
        let scan = move || {
            let end = fill(&store, of, &filled);
            // Whoever closes the handle waits for this.
            drop(store);
            let mut slot = filled.lock();
            slot.end = Some(end);
            filled.changed.notify_all();
        };
        std::thread::Builder::new().name("firndex-iterator".into()).spawn(scan)?;
        let process = std::process::id();
        Ok(Pairs { of, pipe: Some(pipe), piece: Piece::default(), next: 0, process })
    }

    /// Takes the next piece; whether there is one.
    fn advance(&mut self, py: Python<'_>) -> PyResult<bool> {
        let Some(pipe) = self.pipe.clone() else { return Ok(false) };
        if std::process::id() != self.process {
            let message = "this iterator was begun before the process forked; open the pool again in the child";
            return Err(errors::raise(py, "Forked", message));
        }
        let (piece, end) = py.detach(|| pipe.take());
        if let Some(piece) = piece {
            self.piece = piece;
            self.next = 0;
            return Ok(true);
        }
        self.pipe = None;
        self.piece = Piece::default();
        self.next = 0;
        if pipe.lock().is_closed {
            let message = "the store was closed while this iterator was in use; begin a new one on an open store";
            return Err(errors::raise(py, "Closed", message));
        }
        match end {
            Some(end) => end.or_raise(py).map(|()| false),
            None => {
                Err(PyRuntimeError::new_err("the iterator's thread has ended without a result"))
            }
        }
    }
}

#[pymethods]
impl Pairs {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.next == self.piece.ends.len() && !self.advance(py)? {
            return Ok(None);
        }
        let Some((key, value)) = self.piece.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(match self.of {
            Of::Keys => PyBytes::new(py, key).into_any(),
            Of::Values => PyBytes::new(py, value).into_any(),
            Of::Items => {
                PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])?.into_any()
            }
        }))
    }
}

impl Drop for Pairs {
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
