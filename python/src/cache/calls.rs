//! Calls on a cache. In the owner a look-up is shorter than letting go of the interpreter; a guest waits for its owner.

use super::{Cache, OrRaise};
use crate::bytes::{What, bytes_of};
use crate::errors::{self, Part};
use crate::pipe::Visits;
use crate::store::BATCH;
use firndex::{BatchError, Result, Role};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::ControlFlow;
use tables::Visit;

/// It keeps nothing in place while it waits, so nobody is kept from making room.
impl Visits for firndex::Cache {
    fn probe(&self) -> Result<()> {
        self.contains_key(b"").map(drop)
    }

    fn visit(&self, visit: Visit<'_>) -> Result<ControlFlow<()>> {
        for entry in self {
            let (key, value) = entry?;
            if visit(&key, &value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Cache {
    #[inline]
    pub(super) fn found<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.found_at(py, bytes_of(What::Key, key)?.as_bytes())
    }

    #[inline]
    pub(super) fn found_at<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let here = self.shared.with(py, |cache| {
            if cache.role() == Role::Guest {
                return Ok(None);
            }
            let found = cache.get(key).or_raise(py)?;
            Ok(Some(found.map(|value| PyBytes::new(py, &value))))
        })?;
        match here {
            Some(found) => Ok(found),
            None => self.found_by_owner(py, key),
        }
    }

    /// The same of a guest, which waits.
    #[cold]
    fn found_by_owner<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let cache = self.shared.get(py)?;
        let found = py
            .detach(|| cache.get(key).map(|found| found.map(|found| found.to_vec())))
            .or_raise(py)?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// What `look` sees, which takes no time in the owner. A guest lets other threads run meanwhile.
    pub(super) fn looked<R: Send>(
        &self,
        py: Python<'_>,
        look: impl Fn(&firndex::Cache) -> Result<R> + Sync,
    ) -> PyResult<R> {
        let here = self.shared.with(py, |cache| match cache.role() {
            Role::Guest => Ok(None),
            _ => look(cache).or_raise(py).map(Some),
        })?;
        if let Some(seen) = here {
            return Ok(seen);
        }
        let cache = self.shared.get(py)?;
        py.detach(|| look(&cache)).or_raise(py)
    }

    /// Calls `run` for the parts of a batch, and looks for Ctrl-C in between.
    pub(super) fn batches<T: Sync>(
        &self,
        py: Python<'_>,
        entries: &[T],
        mut run: impl FnMut(&[T]) -> std::result::Result<(), BatchError> + Send,
    ) -> PyResult<()> {
        for (index, part) in entries.chunks(BATCH).enumerate() {
            py.detach(|| run(part)).map_err(|error| {
                let part = Part { before: index * BATCH, entries: entries.len() };
                errors::of_cache_batch(py, &error, part)
            })?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Calls `run` for each entry of a batch, and looks for Ctrl-C in between.
    pub(super) fn parts<T: Copy + Sync>(
        &self,
        py: Python<'_>,
        entries: &[T],
        mut run: impl FnMut(T) -> Result<()> + Send,
    ) -> PyResult<()> {
        for (index, part) in entries.chunks(BATCH).enumerate() {
            let failed = py.detach(|| {
                let mut all = part.iter().enumerate();
                all.find_map(|(place, &entry)| run(entry).err().map(|error| (place, error)))
            });
            if let Some((place, error)) = failed {
                let part = Part { before: index * BATCH, entries: entries.len() };
                return Err(errors::of_cache_entry(py, &error, place, part));
            }
            py.check_signals()?;
        }
        Ok(())
    }
}
