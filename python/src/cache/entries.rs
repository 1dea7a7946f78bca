//! Iterators over a cache.
//!
//! While a value is lent in place no room can be made, so a thread may not wait amid a walk over a cache, as that of a
//! store's iterator does. Instead, keys are in as many parts as the memory allows, by their hash, and each part has a
//! walk over the whole cache, which copies what belongs to the part.

use super::{Cache, OrRaise};
use crate::pairs::{Of, Strings};
use crate::pipe::Piece;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Bytes of a part.
const PART_BYTES: u64 = 16 << 20;
/// Walks over the cache, whatever its size.
const PARTS_MAX: u64 = 64;

/// An iterator over the keys or pairs of a cache.
#[pyclass(module = "firndex._firndex")]
pub(crate) struct Entries {
    of: Of,
    cache: Py<Cache>,
    parts: u64,
    /// Parts that have been read.
    read: u64,
    part: Strings,
    /// Where the keys that are still to be given are in the part.
    places: std::vec::IntoIter<usize>,
}

impl Entries {
    pub(crate) fn new(cache: &Bound<'_, Cache>, of: Of) -> PyResult<Self> {
        let (py, open) = (cache.py(), cache.get().shared.get(cache.py())?);
        let bytes = py.detach(|| open.stats()).or_raise(py)?.entry_bytes;
        let parts = (1 + bytes / PART_BYTES).min(PARTS_MAX);
        let (part, places) = (Strings::default(), Vec::new().into_iter());
        Ok(Entries { of, cache: cache.clone().unbind(), parts, read: 0, part, places })
    }

    /// Reads the next part.
    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        let open = self.cache.bind(py).get().shared.get(py)?;
        let (of, parts, number) = (self.of, self.parts, self.read);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let read = || {
            let mut part = Strings::default();
            open.for_each(|key, value| {
                if hasher.hash_one(key) % parts == number {
                    part.add(of, key, value);
                }
                true
            })?;
            // A key that was moved meanwhile may have been met twice.
            let key_at = |place: &usize| part.get(*place).map(|(key, _)| key);
            let mut places: Vec<usize> = (0..part.len()).collect();
            places.sort_unstable_by_key(key_at);
            places.dedup_by(|one, other| key_at(one) == key_at(other));
            Ok((part, places))
        };
        let (part, places) = py.detach(read).or_raise(py)?;
        (self.part, self.places) = (part, places.into_iter());
        self.read += 1;
        py.check_signals()
    }
}

#[pymethods]
impl Entries {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let place = loop {
            match self.places.next() {
                Some(place) => break place,
                None if self.read < self.parts => self.read(py)?,
                None => return Ok(None),
            }
        };
        let Some((key, value)) = self.part.get(place) else { return Ok(None) };
        let key = PyBytes::new(py, key);
        Ok(Some(match self.of {
            Of::Items => PyTuple::new(py, [key, PyBytes::new(py, value)])?.into_any(),
            _ => key.into_any(),
        }))
    }
}
