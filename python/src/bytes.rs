//! Keys and values as Python passes them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

/// What an argument is, for the message if it is something else.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Key,
    Value,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Key => "key",
            What::Value => "value",
        }
    }
}

/// The bytes that a key or a value stands for: `bytes` as they are, `str` in UTF-8, and a copy of any other object with
/// a buffer.
#[inline]
pub(crate) fn bytes_of<'py>(
    what: What,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    match object.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        Err(_) => converted(what, object),
    }
}

#[cold]
#[inline(never)]
fn converted<'py>(what: What, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(text) = object.cast::<PyString>() {
        return text.encode_utf8();
    }
    match PyMemoryView::from(object) {
        Ok(view) => Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?),
        Err(_) => {
            let (what, found) = (what.name(), object.get_type().name()?);
            Err(PyTypeError::new_err(format!(
                "a {what} is {found}; expected bytes, an object with a buffer (bytearray, memoryview, array), or str, \
                 which stands for its UTF-8 bytes; encode anything else first, with pickle or struct for example"
            )))
        }
    }
}

/// As [`bytes_of`], where `None` means that the key is absent.
pub(crate) fn state_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if object.is_none() { Ok(None) } else { bytes_of(What::Value, object).map(Some) }
}
