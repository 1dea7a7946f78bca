//! The memory of numpy's arrays.
//!
//! The stable interface of Python 3.9 has no buffers. So arrays tell where their memory is by `__array_interface__`,
//! and only true `numpy.ndarray`s are believed.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use std::slice;

/// The elements of an array, one behind another, as bytes.
pub(crate) struct Column<'py> {
    /// Keeps the memory: numpy resizes no array that is referred to.
    _array: Bound<'py, PyAny>,
    start: *const u8,
    len: usize,
    element_bytes: usize,
}

/// The same for writing.
pub(crate) struct ColumnMut<'py>(Column<'py>);

/// From this element to before that one.
pub(crate) type Range = (usize, usize);

impl Column<'_> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn part(&self, (begin, end): Range) -> &[u8] {
        assert!(begin <= end && end <= self.len);
        if self.element_bytes == 0 || begin == end {
            return &[];
        }
        // SAFETY: the array has `len` elements of `element_bytes` from `start` on, without gaps, as `memory` has seen,
        // and lives as long as `self`. Its memory is initialised. Python code that writes to it in another thread
        // meanwhile breaks numpy's rules for every call that lets go of the interpreter; the bytes may then be of
        // before or after, and nothing here rests on their values.
        unsafe {
            slice::from_raw_parts(
                self.start.add(begin * self.element_bytes),
                (end - begin) * self.element_bytes,
            )
        }
    }
}

impl ColumnMut<'_> {
    pub(crate) fn part(&mut self, (begin, end): Range) -> &mut [u8] {
        let Column { start, len, element_bytes, .. } = self.0;
        assert!(begin <= end && end <= len);
        if element_bytes == 0 || begin == end {
            return &mut [];
        }
        // SAFETY: as in `Column::part`. The array is writable, and `&mut self` gives out one part at a time. Arrays
        // that overlap are refused before, by `column_mut`'s caller in Python, which makes the arrays for results
        // itself.
        unsafe {
            slice::from_raw_parts_mut(
                start.cast_mut().add(begin * element_bytes),
                (end - begin) * element_bytes,
            )
        }
    }
}

/// The address of an array's elements, whether they may be written, and how many there are.
fn memory(array: &Bound<'_, PyAny>, element_bytes: usize) -> PyResult<(usize, bool, usize)> {
    static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = array.py();
    if !array.is_exact_instance(NDARRAY.import(py, "numpy", "ndarray")?) {
        let found = array.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected a numpy.ndarray, not {found}")));
    }
    let interface = array.getattr("__array_interface__")?.cast_into::<PyDict>()?;
    let item = |name: &str| {
        interface
            .get_item(name)?
            .ok_or_else(|| PyTypeError::new_err("an array without an interface"))
    };
    let (address, is_read_only): (usize, bool) = item("data")?.extract()?;
    let bytes: usize = array.getattr("nbytes")?.extract()?;
    if !item("strides")?.is_none() {
        return Err(PyValueError::new_err(
            "the array has gaps; pass numpy.ascontiguousarray of it",
        ));
    }
    if element_bytes == 0 {
        return Ok((address, !is_read_only, array.len()?));
    }
    if !bytes.is_multiple_of(element_bytes) {
        return Err(PyValueError::new_err(format!(
            "the array has {bytes} bytes, expected a multiple of {element_bytes}"
        )));
    }
    Ok((address, !is_read_only, bytes / element_bytes))
}

/// The elements of an array, of so many bytes each.
pub(crate) fn column<'py>(
    array: &Bound<'py, PyAny>,
    element_bytes: usize,
) -> PyResult<Column<'py>> {
    let (address, _, len) = memory(array, element_bytes)?;
    let start = std::ptr::with_exposed_provenance(address);
    Ok(Column { _array: array.clone(), start, len, element_bytes })
}

/// The same for writing, if there are `len` of them.
pub(crate) fn column_mut<'py>(
    array: &Bound<'py, PyAny>,
    element_bytes: usize,
    len: usize,
) -> PyResult<ColumnMut<'py>> {
    let (address, is_writable, found) = memory(array, element_bytes)?;
    if !is_writable || found != len {
        return Err(PyValueError::new_err(format!(
            "the array for results has {found} elements, expected {len} that can be written"
        )));
    }
    let start = std::ptr::with_exposed_provenance_mut::<u8>(address).cast_const();
    Ok(ColumnMut(Column { _array: array.clone(), start, len, element_bytes }))
}
