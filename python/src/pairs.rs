//! Iterators over a store or a cache.

use crate::pipe::{Piece, Reader, Visits};
use crate::shared::Shared;
use firndex::Store;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::ops::ControlFlow;
use tables::Visit;

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
pub(crate) struct Strings {
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

impl Strings {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let &(key_end, value_end) = self.ends.get(index)?;
        Some((&self.bytes[begin..key_end], &self.bytes[key_end..value_end]))
    }
}

impl Piece for Strings {
    type Of = Of;

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

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl Visits for Store {
    fn probe(&self) -> firndex::Result<()> {
        self.contains_key(b"").map(drop)
    }

    fn visit(&self, visit: Visit<'_>) -> firndex::Result<ControlFlow<()>> {
        self.try_for_each(visit)
    }
}

/// An iterator over the keys, values or pairs of a store or a cache.
#[pyclass(module = "firndex._firndex")]
pub(crate) struct Pairs {
    of: Of,
    handle: Py<PyAny>,
    reader: Reader<Strings>,
    piece: Strings,
    next: usize,
}

impl Pairs {
    /// Of `handle`, which lives as long as the iterator.
    pub(crate) fn new<T>(
        handle: &Bound<'_, T>,
        shared: &Shared<impl Visits>,
        of: Of,
    ) -> PyResult<Self> {
        let reader = Reader::begin(handle.py(), shared, of)?;
        let handle = handle.clone().into_any().unbind();
        Ok(Pairs { of, handle, reader, piece: Strings::default(), next: 0 })
    }
}

#[pymethods]
impl Pairs {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.handle)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.next == self.piece.len() {
            self.next = 0;
            self.piece = Strings::default();
            match self.reader.next(py)? {
                Some(piece) => self.piece = piece,
                None => return Ok(None),
            }
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
