//! Stores: byte strings to byte strings.

use crate::bytes::{What, bytes_of, state_of};
use crate::errors::{self, OrRaise, Part};
use crate::opening::{Opening, Way, refuse_pickling};
use crate::pairs::{Of, Pairs};
use crate::shared::Shared;
use firndex::{Copied, Existing};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::path::PathBuf;
use std::sync::Mutex;

/// Entries of a batch that are carried out in one call. Between two calls Ctrl-C is looked for.
const BATCH: usize = 8192;
/// Keys that `popitem` looks for in one call.
const POPPED: usize = 256;

/// Keys for `popitem`, and where it looks for the next ones.
#[derive(Default)]
struct Popping {
    keys: Vec<Vec<u8>>,
    cursor: u64,
}

/// The native part of ``firndex.Store``.
#[pyclass(subclass, frozen, module = "firndex._firndex")]
pub(crate) struct Store {
    shared: Shared<firndex::Store>,
    popping: Mutex<Popping>,
}

/// A key that is not there, as `dict` tells it.
fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err((key.clone().unbind(),))
}

/// Values that a batch has found, out of their places.
#[derive(Default)]
struct Copies {
    bytes: Vec<u8>,
    ends: Vec<Option<usize>>,
}

impl Copies {
    fn add(&mut self, value: Option<&[u8]>) {
        self.ends.push(value.map(|value| {
            self.bytes.extend_from_slice(value);
            self.bytes.len()
        }));
    }

    fn list(&self, list: &Bound<'_, PyList>) -> PyResult<()> {
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

/// The pairs of a mapping, or of an iterable of pairs.
fn pairs_of<'py>(
    pairs: &Bound<'py, PyAny>,
) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
    let items = match pairs.cast::<PyDict>() {
        Ok(dict) => dict.items().into_any(),
        Err(_) if pairs.hasattr("keys")? => pairs.call_method0("items")?,
        Err(_) => pairs.clone(),
    };
    items
        .try_iter()?
        .map(|pair| {
            let pair = pair?;
            let (key, value) =
                pair.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>().map_err(|_| {
                    PyTypeError::new_err(
                        "an entry is no pair; expected a mapping, or pairs of a key and a value",
                    )
                })?;
            Ok((bytes_of(What::Key, &key)?, bytes_of(What::Value, &value)?))
        })
        .collect()
}

fn keys_of<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    if keys.is_instance_of::<pyo3::types::PyString>() || keys.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(
            "the keys are a single one; expected an iterable of keys",
        ));
    }
    keys.try_iter()?.map(|key| bytes_of(What::Key, &key?)).collect()
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path=None, flag="c", **options))]
    fn new(
        py: Python<'_>,
        path: Option<&Bound<'_, PyAny>>,
        flag: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let opening = Opening::new(path, flag, options)?;
        let store = opening.open(py, |options, way| match way {
            Way::InMemory => options.in_memory_store(),
            Way::Open(path) => options.open_store(path),
            Way::OpenOrCreate(path) => options.open_or_create_store(path),
            Way::Create(path) => options.create_store(path),
        })?;
        Ok(Store { shared: Shared::new(store, opening.path), popping: Mutex::default() })
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.found(py, key)?.ok_or_else(|| absent(key))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (bytes_of(What::Key, key)?, bytes_of(What::Value, value)?);
        let (key, value) = (key.as_bytes(), value.as_bytes());
        let store = self.shared.get(py)?;
        py.detach(|| store.put(key, value).map(drop)).or_raise(py)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = bytes_of(What::Key, key)?;
        let (bytes, store) = (bytes.as_bytes(), self.shared.get(py)?);
        let was_there =
            py.detach(|| store.remove(bytes).map(|found| found.is_some())).or_raise(py)?;
        if was_there { Ok(()) } else { Err(absent(key)) }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes_of(What::Key, key)?;
        self.shared.with(py, |store| store.contains_key(key.as_bytes()).or_raise(py))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let store = self.shared.get(py)?;
        // The number alone would not tell that a forked child asks, or that the file is gone.
        let len = py.detach(|| store.contains_key(b"").map(|_| store.len())).or_raise(py)?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        Pairs::new(py, &self.shared, Of::Keys)
    }

    fn _values(&self, py: Python<'_>) -> PyResult<Pairs> {
        Pairs::new(py, &self.shared, Of::Values)
    }

    fn _items(&self, py: Python<'_>) -> PyResult<Pairs> {
        Pairs::new(py, &self.shared, Of::Items)
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.found(py, key)?.map(Bound::into_any).or(default))
    }

    #[pyo3(signature = (key, default=None))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let key = bytes_of(What::Key, key)?;
        let value = match default {
            Some(value) => bytes_of(What::Value, value)?,
            None => PyBytes::new(py, b""),
        };
        let (key, bytes) = (key.as_bytes(), value.as_bytes());
        let store = self.shared.get(py)?;
        let found = py
            .detach(|| store.insert(key, bytes).map(|found| found.map(|found| found.to_vec())))
            .or_raise(py)?;
        Ok(found.map_or(value.clone(), |found| PyBytes::new(py, &found)))
    }

    /// The removed value, or `None`.
    fn _take<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = bytes_of(What::Key, key)?;
        let (key, store) = (key.as_bytes(), self.shared.get(py)?);
        let taken = py
            .detach(|| store.remove(key).map(|found| found.map(|found| found.to_vec())))
            .or_raise(py)?;
        Ok(taken.map(|value| PyBytes::new(py, &value)))
    }

    fn popitem<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let store = self.shared.get(py)?;
        let mut may_begin_again = true;
        loop {
            let (key, cursor) = {
                let mut popping = self.popping.lock().map_err(errors::broken)?;
                (popping.keys.pop(), popping.cursor)
            };
            if let Some(key) = key {
                let taken = py
                    .detach(|| store.remove(&key).map(|found| found.map(|found| found.to_vec())))
                    .or_raise(py)?;
                if let Some(value) = taken {
                    return Ok((PyBytes::new(py, &key), PyBytes::new(py, &value)));
                }
                continue;
            }
            if cursor == 0 {
                if !may_begin_again || self.__len__(py)? == 0 {
                    return Err(PyKeyError::new_err("popitem(): the store is empty"));
                }
                may_begin_again = false;
            }
            let (pairs, next) = py.detach(|| store.scan(cursor, POPPED)).or_raise(py)?;
            let mut popping = self.popping.lock().map_err(errors::broken)?;
            popping.keys.extend(pairs.into_iter().map(|(key, _)| key));
            popping.cursor = next;
        }
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.shared.get(py)?;
        py.detach(|| store.retain(|_, _| false).map(drop)).or_raise(py)
    }

    fn put_many(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = pairs_of(pairs)?;
        let store = self.shared.get(py)?;
        let bytes: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
        for (index, part) in bytes.chunks(BATCH).enumerate() {
            py.detach(|| store.put_many(part).map(drop)).map_err(|error| {
                errors::of_batch(py, &error, Part { before: index * BATCH, entries: bytes.len() })
            })?;
            py.check_signals()?;
        }
        Ok(())
    }

    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = keys_of(keys)?;
        let store = self.shared.get(py)?;
        let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let found = PyList::empty(py);
        for part in bytes.chunks(BATCH) {
            let copies = py
                .detach(|| {
                    let mut copies = Copies::default();
                    for value in store.get_many(part)? {
                        copies.add(value.as_deref());
                    }
                    Ok(copies)
                })
                .or_raise(py)?;
            copies.list(&found)?;
            py.check_signals()?;
        }
        Ok(found)
    }

    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = keys_of(keys)?;
        let store = self.shared.get(py)?;
        let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut removed = 0;
        for (index, part) in bytes.chunks(BATCH).enumerate() {
            let found =
                py.detach(|| store.remove_many(part).map(|found| found.iter().flatten().count()));
            removed += found.map_err(|error| {
                errors::of_batch(py, &error, Part { before: index * BATCH, entries: bytes.len() })
            })?;
            py.check_signals()?;
        }
        Ok(removed)
    }

    fn compare_exchange(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, expected, new) = (bytes_of(What::Key, key)?, state_of(expected)?, state_of(new)?);
        let (expected, new) = (expected.as_ref(), new.as_ref());
        self.exchanged(py, &key, expected, new)
    }

    fn modify<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = bytes_of(What::Key, key)?;
        let _callback = self.shared.call_back();
        loop {
            let before = self.found(py, bytes.as_any())?;
            let after = state_of(&function.call1((before.as_ref(),))?)?;
            if self.exchanged(py, &bytes, before.as_ref(), after.as_ref())? {
                return Ok(after);
            }
            py.check_signals()?;
        }
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.shared.get(py)?;
        py.detach(|| store.sync()).or_raise(py)
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.shared.get(py)?;
        py.detach(|| store.commit()).or_raise(py)
    }

    fn compact(&self, py: Python<'_>) -> PyResult<u64> {
        let store = self.shared.get(py)?;
        py.detach(|| store.compact()).or_raise(py)
    }

    fn _backup(&self, py: Python<'_>, out: PathBuf, replace: bool) -> PyResult<(u64, u64, bool)> {
        let store = self.shared.get(py)?;
        let existing = if replace { Existing::Replace } else { Existing::Keep };
        let copied: Copied = py.detach(|| store.backup(out, existing)).or_raise(py)?;
        Ok((copied.pairs, copied.bytes, copied.is_of_one_moment))
    }

    fn _check(&self, py: Python<'_>) -> PyResult<(u64, u64, Vec<String>)> {
        let store = self.shared.get(py)?;
        let report = py.detach(|| store.check()).or_raise(py)?;
        Ok((report.pairs, report.faults, report.findings))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.shared.get(py)?;
        let stats = py.detach(|| store.stats()).or_raise(py)?;
        crate::figures::told(py, &stats)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.shared.path().map(Into::into)
    }

    #[getter]
    fn was_reset(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.shared.with(py, |store| Ok(store.was_reset().map(ToString::to_string)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
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
        format!("<firndex.Store {place}, {state}>")
    }

    fn __reduce_ex__(&self, py: Python<'_>, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(refuse_pickling(py, "firndex.Store", self.shared.path()))
    }
}

impl Store {
    #[inline]
    fn found<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = bytes_of(What::Key, key)?;
        self.shared.with(py, |store| {
            let found = store.get(key.as_bytes()).or_raise(py)?;
            Ok(found.map(|value| PyBytes::new(py, &value)))
        })
    }

    fn exchanged(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        expected: Option<&Bound<'_, PyBytes>>,
        new: Option<&Bound<'_, PyBytes>>,
    ) -> PyResult<bool> {
        let store = self.shared.get(py)?;
        let (key, expected, new) = (
            key.as_bytes(),
            expected.map(|bytes| bytes.as_bytes()),
            new.map(|bytes| bytes.as_bytes()),
        );
        py.detach(|| store.compare_exchange(key, expected, new).map(|done| done.is_ok()))
            .or_raise(py)
    }
}
