//! Tables: keys and values of fixed sizes, in and out of arrays.

use crate::arrays::{column, column_mut};
use crate::errors::{self, OrRaise, Part};
use crate::figures::name_of;
use crate::opening::{NAMES, Opening, refuse_pickling};
use crate::pipe::{Piece, Reader, Visits};
use crate::shared::{Closes, Shared};
use firndex::{BatchError, Existing, Role, Shape};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use tables::sized::{BYTES_MAX, PLACES, Place};
use tables::{Operations, Visit, Way};

/// Entries of a batch that are carried out in one call. Between two calls Ctrl-C is looked for.
const BATCH: usize = 1 << 17;
/// Bytes of the keys and values that an iterator passes on together.
const PIECE_BYTES: usize = 1 << 18;

/// A table of any types.
pub(crate) struct AnyTable(pub(crate) Box<dyn Operations>);

impl Closes for AnyTable {
    fn close(self) -> firndex::Result<()> {
        self.0.close()
    }
}

impl Visits for AnyTable {
    fn probe(&self) -> firndex::Result<()> {
        self.0.probe()
    }

    fn visit(&self, visit: Visit<'_>) -> firndex::Result<ControlFlow<()>> {
        self.0.visit(visit)
    }
}

/// Keys and values, each one behind another.
#[derive(Default)]
struct Columns {
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Piece for Columns {
    type Of = ();

    fn add(&mut self, (): (), key: &[u8], value: &[u8]) {
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
    }

    fn is_full(&self) -> bool {
        self.keys.len() + self.values.len() >= PIECE_BYTES
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// An iterator over the pairs of a table, as bytes of arrays.
#[pyclass(module = "firndex._firndex")]
pub(crate) struct Pieces {
    handle: Py<PyAny>,
    reader: Reader<Columns>,
}

#[pymethods]
impl Pieces {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.handle)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let piece = self.reader.next(py)?;
        Ok(piece.map(|piece| (PyBytes::new(py, &piece.keys), PyBytes::new(py, &piece.values))))
    }
}

/// The native part of ``firndex.Table``.
#[pyclass(subclass, frozen, module = "firndex._firndex")]
pub(crate) struct Table {
    shared: Shared<AnyTable>,
    key_bytes: usize,
    value_bytes: usize,
}

/// The exception for a part of a batch that begins at this entry.
fn raise(py: Python<'_>, failed: &(usize, BatchError), begin: usize, entries: usize) -> PyErr {
    let (before, error) = failed;
    errors::of_batch(py, error, Part { before: begin + before, entries })
}

fn shape(what: &str, text: &str) -> PyResult<(Shape, usize)> {
    let shape: Shape = text.parse().map_err(PyValueError::new_err)?;
    let bytes = shape.bytes().unwrap_or(usize::MAX);
    if bytes > BYTES_MAX {
        return Err(PyValueError::new_err(format!(
            "a {what} has {bytes} bytes, at most {BYTES_MAX} are possible in a Table; keep larger ones in a Store"
        )));
    }
    Ok((shape, bytes))
}

#[pymethods]
impl Table {
    #[new]
    #[pyo3(signature = (path, flag, key_shape, value_shape, **options))]
    fn new(
        py: Python<'_>,
        path: Option<&Bound<'_, PyAny>>,
        flag: &str,
        key_shape: &str,
        value_shape: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut opening = Opening::new(path, flag, options, &NAMES)?;
        let (key_shape, key_bytes) = shape("key", key_shape)?;
        let (value_shape, value_bytes) = shape("value", value_shape)?;
        opening.options = opening.options.shapes(key_shape, value_shape);
        let opened = if (key_bytes, value_bytes) == (8, 8) {
            opening.open(py, tables::open_words)?
        } else {
            let place = Place::take(key_bytes, value_bytes).ok_or_else(|| {
                let message = format!(
                    "{PLACES} other tables are open whose keys and values have other sizes than {key_bytes} and \
                     {value_bytes} bytes, and no more can be, except of 8 and 8 bytes; close one of them"
                );
                errors::raise(py, "BadOption", message)
            })?;
            let place = Arc::new(place);
            let open =
                |options: &_, way: Way<'_>| tables::open_in(options, way, Arc::clone(&place));
            opening.open(py, open)?
        };
        let shared = Shared::new(AnyTable(opened), opening.path);
        Ok(Table { shared, key_bytes, value_bytes })
    }

    fn _get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.fits(key, self.key_bytes)?;
        let mut value = [0; BYTES_MAX];
        let value = &mut value[..self.value_bytes];
        let here = self.shared.with(py, |table| match table.0.pool().role() {
            Role::Guest => Ok(None),
            _ => table.0.get(key, value).or_raise(py).map(Some),
        })?;
        let is_there = match here {
            Some(is_there) => is_there,
            // A guest waits for the owner.
            None => {
                let table = self.shared.get(py)?;
                py.detach(|| table.0.get(key, value)).or_raise(py)?
            }
        };
        Ok(is_there.then(|| PyBytes::new(py, value)))
    }

    fn _put(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.fits(key, self.key_bytes)?;
        self.fits(value, self.value_bytes)?;
        let table = self.shared.get(py)?;
        py.detach(|| table.0.put(key, value)).or_raise(py)
    }

    /// What is there afterwards.
    fn _insert<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.fits(key, self.key_bytes)?;
        self.fits(value, self.value_bytes)?;
        let table = self.shared.get(py)?;
        let mut there = value.to_vec();
        py.detach(|| table.0.insert(key, &mut there)).or_raise(py)?;
        Ok(PyBytes::new(py, &there))
    }

    fn _take<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.fits(key, self.key_bytes)?;
        let table = self.shared.get(py)?;
        let mut value = vec![0; self.value_bytes];
        let was_there = py.detach(|| table.0.remove(key, &mut value)).or_raise(py)?;
        Ok(was_there.then(|| PyBytes::new(py, &value)))
    }

    fn _exchange(
        &self,
        py: Python<'_>,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> PyResult<bool> {
        self.fits(key, self.key_bytes)?;
        [expected, new]
            .into_iter()
            .flatten()
            .try_for_each(|value| self.fits(value, self.value_bytes))?;
        let table = self.shared.get(py)?;
        py.detach(|| table.0.compare_exchange(key, expected, new)).or_raise(py)
    }

    fn _get_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        found: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let keys = column(keys, self.key_bytes)?;
        let mut values = column_mut(values, self.value_bytes, keys.len())?;
        let mut found = column_mut(found, 1, keys.len())?;
        let table = self.shared.get(py)?;
        self.parts(py, keys.len(), |part| {
            let (keys, values, found) = (keys.part(part), values.part(part), found.part(part));
            py.detach(|| table.0.get_many(keys, values, found)).or_raise(py)
        })
    }

    fn _put_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = (column(keys, self.key_bytes)?, column(values, self.value_bytes)?);
        if keys.len() != values.len() {
            let message = format!("there are {} keys and {} values", keys.len(), values.len());
            return Err(PyValueError::new_err(message));
        }
        let table = self.shared.get(py)?;
        self.parts(py, keys.len(), |part| {
            let (of_keys, of_values) = (keys.part(part), values.part(part));
            let done = py.detach(|| table.0.put_many(of_keys, of_values));
            done.map_err(|failed| raise(py, &failed, part.0, keys.len()))
        })
    }

    fn _delete_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        found: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let keys = column(keys, self.key_bytes)?;
        let mut found = column_mut(found, 1, keys.len())?;
        let table = self.shared.get(py)?;
        self.parts(py, keys.len(), |part| {
            let (of_keys, of_found) = (keys.part(part), found.part(part));
            let done = py.detach(|| table.0.remove_many(of_keys, of_found));
            done.map_err(|failed| raise(py, &failed, part.0, keys.len()))
        })
    }

    fn _pieces(this: &Bound<'_, Self>) -> PyResult<Pieces> {
        let reader = Reader::begin(this.py(), &this.get().shared, ())?;
        Ok(Pieces { handle: this.clone().into_any().unbind(), reader })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let table = self.shared.get(py)?;
        let len = py.detach(|| table.0.probe().map(|()| table.0.pool().len())).or_raise(py)?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Removes all pairs. Those that other threads store meanwhile may stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let table = self.shared.get(py)?;
        py.detach(|| table.0.clear()).or_raise(py)
    }

    /// Makes everything that has returned so far survive power loss.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let table = self.shared.get(py)?;
        py.detach(|| table.0.pool().sync()).or_raise(py)
    }

    /// Waits until everything that this thread has done or seen so far survives power loss, as that of a store.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let table = self.shared.get(py)?;
        py.detach(|| table.0.pool().commit()).or_raise(py)
    }

    fn _backup(&self, py: Python<'_>, out: PathBuf, replace: bool) -> PyResult<(u64, u64, bool)> {
        let table = self.shared.get(py)?;
        let existing = if replace { Existing::Replace } else { Existing::Keep };
        let copied = py.detach(|| table.0.backup(&out, existing)).or_raise(py)?;
        Ok((copied.pairs, copied.bytes, copied.is_of_one_moment))
    }

    fn _check(&self, py: Python<'_>) -> PyResult<(u64, u64, Vec<String>)> {
        let table = self.shared.get(py)?;
        let report = py.detach(|| table.0.pool().check()).or_raise(py)?;
        Ok((report.pairs, report.faults, report.findings))
    }

    /// Figures of the pool: pairs, engine, sizes, log.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let table = self.shared.get(py)?;
        let stats = py.detach(|| table.0.pool().stats()).or_raise(py)?;
        crate::figures::told(py, &stats)
    }

    /// Writes everything to the device, and marks the pool as closed. Closing twice does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py, || Ok(()))
    }

    /// Whether the handle is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// The path of the pool, or None in memory.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.shared.path().map(Into::into)
    }

    /// What this process is to the pool: "owner", or "guest" if another process makes its changes.
    #[getter]
    fn role(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.shared.with(py, |table| Ok(name_of(table.0.pool().role())))
    }

    /// Why the pool was refused and begun anew, if it was (``reset_if_refused``).
    #[getter]
    fn was_reset(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.shared.with(py, |table| Ok(table.0.pool().was_reset().map(ToString::to_string)))
    }

    fn _describe(&self, py: Python<'_>) -> (String, String) {
        let place = match self.shared.path() {
            Some(path) => format!("{:?}", path.display().to_string()),
            None => "in memory".into(),
        };
        let state = if self.shared.is_closed() {
            "closed".into()
        } else if self.shared.is_inherited() {
            "inherited by a forked process, unusable".into()
        } else {
            self.__len__(py).map_or_else(|error| error.to_string(), |len| format!("{len} pairs"))
        };
        (place, state)
    }

    fn __reduce_ex__(&self, py: Python<'_>, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(refuse_pickling(py, "firndex.Table", self.shared.path()))
    }
}

impl Table {
    fn fits(&self, bytes: &[u8], expected: usize) -> PyResult<()> {
        if bytes.len() == expected {
            return Ok(());
        }
        let found = bytes.len();
        Err(PyValueError::new_err(format!(
            "the key or value has {found} bytes, expected {expected}"
        )))
    }

    /// Calls `run` for each part of so many entries: where it begins, and where it ends.
    fn parts(
        &self,
        py: Python<'_>,
        entries: usize,
        mut run: impl FnMut((usize, usize)) -> PyResult<()>,
    ) -> PyResult<()> {
        for begin in (0..entries).step_by(BATCH) {
            run((begin, entries.min(begin + BATCH)))?;
            py.check_signals()?;
        }
        Ok(())
    }
}
