//! What batches of a store take and give.

use crate::bytes::{What, bytes_of};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// Values that a batch has found, out of their places.
#[derive(Default)]
pub(crate) struct Copies {
    bytes: Vec<u8>,
    ends: Vec<Option<usize>>,
}

impl Copies {
    pub(crate) fn add(&mut self, value: Option<&[u8]>) {
        self.ends.push(value.map(|value| {
            self.bytes.extend_from_slice(value);
            self.bytes.len()
        }));
    }

    pub(crate) fn list(&self, list: &Bound<'_, PyList>) -> PyResult<()> {
        let mut begin = 0;
        for &end in &self.ends {
            match end {
                Some(end) => list.append(PyBytes::new(list.py(), &self.bytes[begin..end]))?,
                None => list.append(list.py().None())?,
            }
            begin = end.unwrap_or(begin);
        }
        Ok(())
    }
}

/// The bytes of a pair.
pub(crate) type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The pairs of a mapping, or of an iterable of pairs, as `dict.update` takes them.
pub(crate) fn pairs_of<'py>(pairs: &Bound<'py, PyAny>) -> PyResult<Vec<Pair<'py>>> {
    let pair = |key: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>| {
        Ok((bytes_of(What::Key, key)?, bytes_of(What::Value, value)?))
    };
    if let Ok(dict) = pairs.cast::<PyDict>() {
        return dict
            .items()
            .iter()
            .map(|item| item.extract().and_then(|(key, value)| pair(&key, &value)))
            .collect();
    }
    if pairs.hasattr("keys")? {
        let keys = pairs.call_method0("keys")?;
        return keys
            .try_iter()?
            .map(|key| key.and_then(|key| pair(&key, &pairs.get_item(&key)?)))
            .collect();
    }
    let items = pairs.try_iter()?.enumerate().map(|(index, item)| {
        let item = item?;
        if let Ok((key, value)) = item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>() {
            return pair(&key, &value);
        }
        let expected = "expected a mapping, or pairs of a key and a value";
        let parts = item.try_iter().map_err(|_| {
            PyTypeError::new_err(format!("entry {index} (counted from 0) is no pair; {expected}"))
        })?;
        match &parts.collect::<PyResult<Vec<_>>>()?[..] {
            [key, value] => pair(key, value),
            parts => {
                let found = parts.len();
                Err(PyValueError::new_err(format!(
                    "entry {index} (counted from 0) has {found} parts; {expected}"
                )))
            }
        }
    });
    items.collect()
}

/// The keys of an iterable.
pub(crate) fn keys_of<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    if keys.is_instance_of::<pyo3::types::PyString>() || keys.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(
            "the keys are a single one; expected an iterable of keys",
        ));
    }
    keys.try_iter()?.map(|key| bytes_of(What::Key, &key?)).collect()
}
