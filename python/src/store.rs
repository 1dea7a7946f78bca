//! Stores: byte strings to byte strings.

use crate::batches::{Copies, keys_of, pairs_of};
use crate::bytes::{What, bytes_of, state_of};
use crate::errors::{self, OrRaise, Part};
use crate::figures::name_of;
use crate::keeper::{Held, Keeper};
use crate::opening::{NAMES, Opening, refuse_pickling};
use crate::pairs::{Of, Pairs};
use crate::pipe::Visits;
use crate::shared::Shared;
use crate::view::memoryview;
use firndex::{Copied, Existing, Role};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView};
use std::path::PathBuf;
use std::sync::Mutex;
use tables::Way;

/// Entries of a batch that are carried out in one call. Between two calls Ctrl-C is looked for.
pub(crate) const BATCH: usize = 8192;
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
    /// Begun when the first value is shown in place. Before what waits for its thread: it goes first.
    keeper: Mutex<Option<Keeper>>,
    shared: Shared<firndex::Store>,
    popping: Mutex<Popping>,
}

/// A key that is not there, as `dict` tells it.
pub(crate) fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err((key.clone().unbind(),))
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
        let opening = Opening::new(path, flag, options, &NAMES)?;
        let store = opening.open(py, |options, way| match way {
            Way::InMemory => options.in_memory_store(),
            Way::Open(path) => options.open_store(path),
            Way::OpenOrCreate(path) => options.open_or_create_store(path),
            Way::Create(path) => options.create_store(path),
        })?;
        let shared = Shared::new(store, opening.path);
        Ok(Store { shared, popping: Mutex::default(), keeper: Mutex::default() })
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
        let here = self.shared.with(py, |store| match store.role() {
            Role::Guest => Ok(None),
            _ => store.contains_key(key.as_bytes()).or_raise(py).map(Some),
        })?;
        match here {
            Some(here) => Ok(here),
            None => {
                let (key, store) = (key.as_bytes(), self.shared.get(py)?);
                py.detach(|| store.contains_key(key)).or_raise(py)
            }
        }
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let store = self.shared.get(py)?;
        // The number alone would not tell that a forked child asks, or that the file is gone.
        let len = py.detach(|| store.contains_key(b"").map(|_| store.len())).or_raise(py)?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn __iter__(this: &Bound<'_, Self>) -> PyResult<Pairs> {
        Pairs::new(this, &this.get().shared, Of::Keys)
    }

    fn _values(this: &Bound<'_, Self>) -> PyResult<Pairs> {
        Pairs::new(this, &this.get().shared, Of::Values)
    }

    fn _items(this: &Bound<'_, Self>) -> PyResult<Pairs> {
        Pairs::new(this, &this.get().shared, Of::Items)
    }

    /// The value of ``key``, or ``default`` without one. Takes no lock and never waits; a guest waits for the owner.
    ///
    /// >>> store = firndex.Store()
    /// >>> store["France"] = b"Paris"
    /// >>> store.get("France"), store.get("Atlantis"), store.get("Atlantis", b"?")
    /// (b'Paris', None, b'?')
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.found(py, key)?.map(Bound::into_any).or(default))
    }

    /// The value of ``key``. Without one, stores ``default`` (``b""`` if it is left out) and returns it, in one atomic
    /// step.
    ///
    /// >>> store = firndex.Store()
    /// >>> store.setdefault("a", b"1"), store.setdefault("a", b"2")
    /// (b'1', b'1')
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

    /// Removes some pair and returns it. KeyError if the store is empty.
    ///
    /// >>> store = firndex.Store()
    /// >>> store["a"] = b"1"
    /// >>> store.popitem()
    /// (b'a', b'1')
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

    /// Removes all pairs. Those that other threads store meanwhile may stay.
    ///
    /// >>> store = firndex.Store()
    /// >>> store |= {"a": b"1", "b": b"2"}
    /// >>> store.clear()
    /// >>> len(store)
    /// 0
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.shared.get(py)?;
        py.detach(|| store.retain(|_, _| false).map(drop)).or_raise(py)
    }

    /// Stores the pairs of a mapping, or of an iterable, in order. Faster than single calls.
    ///
    /// The batch is not atomic as a whole. If it fails, the exception's ``done`` and ``undone`` tell which entries took
    /// effect.
    ///
    /// >>> store = firndex.Store()
    /// >>> store.put_many([("France", b"Paris"), ("Italy", b"Rome")])
    /// >>> len(store)
    /// 2
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

    /// The value of ``key`` in place, without a copy, as a read-only memoryview; None if there is none.
    ///
    /// It pays for values above some 100 KB: a view takes longer to make than a short copy. Release it soon, by
    /// ``with`` or by dropping it: until then, the space of values that are replaced or removed is not used again, and
    /// the store cannot be closed.
    ///
    /// >>> with firndex.Store("films.firn") as films:
    /// ...     films["metropolis"] = bytes(1 << 20)
    /// ...     with films.view("metropolis") as frames:
    /// ...         len(frames), bytes(frames[:4])
    /// (1048576, b'\x00\x00\x00\x00')
    ///
    /// A guest gets a copy.
    fn view<'py>(
        this: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let (store, py) = (this.get(), this.py());
        store
            .held(py, key)?
            .map(|held| memoryview(py, held, this.clone().into_any().unbind()))
            .transpose()
    }

    /// A list of the keys' values, with None where there is none. Faster than single calls.
    ///
    /// >>> store = firndex.Store()
    /// >>> store.put_many({"France": b"Paris", "Italy": b"Rome"})
    /// >>> store.get_many(["Italy", "Atlantis"])
    /// [b'Rome', None]
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

    /// Removes the keys, and returns how many were there. Errors are as in ``put_many``.
    ///
    /// >>> store = firndex.Store()
    /// >>> store.put_many({"a": b"1", "b": b"2"})
    /// >>> store.delete_many(["a", "c"])
    /// 1
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

    /// Changes the state of ``key`` from ``expected`` to ``new`` in one atomic step, and returns whether it did. None
    /// means absent, on either side.
    ///
    /// >>> store = firndex.Store()
    /// >>> store["lock"] = b"free"
    /// >>> store.compare_exchange("lock", b"free", b"mine")
    /// True
    /// >>> store.compare_exchange("lock", b"free", None)
    /// False
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

    /// Passes the value of ``key`` to ``function`` and stores what that returns, in one atomic step. Returns what it
    /// stored.
    ///
    /// None means absent, on either side. The function may run several times if other threads change the key meanwhile;
    /// its last call is the one that took effect.
    ///
    /// >>> visits = firndex.Store()
    /// >>> def one_more(count):
    /// ...     return str(int(count or b"0") + 1).encode()
    /// >>> visits.modify("ada", one_more), visits.modify("ada", one_more)
    /// (b'1', b'2')
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

    /// Makes everything that has returned so far survive power loss.
    ///
    /// >>> with firndex.Store("orders.firn") as orders:
    /// ...     orders["1"] = b"tea"
    /// ...     orders.sync()
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.shared.get(py)?;
        py.detach(|| store.sync()).or_raise(py)
    }

    /// Waits until everything that this thread has done or seen so far survives power loss. The pool must have a log:
    /// its durability is "periodic" or "commit"; otherwise the exception is ``NotLogged``.
    ///
    /// >>> with firndex.Store("orders.firn", durability="periodic") as orders:
    /// ...     orders["2"] = b"more tea"
    /// ...     orders.commit()
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.shared.get(py)?;
        py.detach(|| store.commit()).or_raise(py)
    }

    /// Moves values together inside the file, and returns how many bytes became free for values of any size. The file
    /// keeps its size.
    ///
    /// >>> firndex.Store().compact()
    /// 0
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

    /// Figures of the pool: pairs, engine, sizes, log.
    ///
    /// >>> store = firndex.Store()
    /// >>> store["a"] = b"1"
    /// >>> figures = store.stats()
    /// >>> figures["pairs"], figures["medium"]
    /// (1, 'dram')
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.shared.get(py)?;
        let stats = py.detach(|| store.stats()).or_raise(py)?;
        crate::figures::told(py, &stats)
    }

    /// Writes everything to the device, and marks the pool as closed. Closing twice does nothing.
    ///
    /// It waits for the calls of other threads. Iterators in use raise ``Closed`` from then on.
    ///
    /// >>> store = firndex.Store("fruit.firn")
    /// >>> store.close()
    /// >>> store.closed
    /// True
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py, || {
            // Its thread ends, unless it keeps a value.
            self.keeper.lock().map_err(errors::broken)?.take();
            Ok(())
        })
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
    ///
    /// >>> store = firndex.Store("jobs.firn")
    /// >>> store.role, store.stats()["guests"]
    /// ('owner', 0)
    #[getter]
    fn role(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.shared.with(py, |store| Ok(name_of(store.role())))
    }

    /// Why the pool was refused and begun anew, if it was (``reset_if_refused``).
    #[getter]
    fn was_reset(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.shared.with(py, |store| Ok(store.was_reset().map(ToString::to_string)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        self.shared.described("firndex.Store", || {
            self.__len__(py).map_or_else(|error| error.to_string(), |len| format!("{len} pairs"))
        })
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
        let here = self.shared.with(py, |store| {
            if store.role() == Role::Guest {
                return Ok(None);
            }
            let found = store.get(key.as_bytes()).or_raise(py)?;
            Ok(Some(found.map(|value| PyBytes::new(py, &value))))
        })?;
        match here {
            Some(found) => Ok(found),
            None => self.found_by_owner(py, &key),
        }
    }

    /// The same of a guest, which waits.
    #[cold]
    fn found_by_owner<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (key, store) = (key.as_bytes(), self.shared.get(py)?);
        let found = py
            .detach(|| store.get(key).map(|found| found.map(|found| found.to_vec())))
            .or_raise(py)?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// The value of `key`, which stays in place.
    fn held(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Held>> {
        let key = bytes_of(What::Key, key)?;
        let (key, store) = (key.as_bytes(), self.shared.get(py)?);
        // In a forked child nobody would answer.
        py.detach(|| store.probe()).or_raise(py)?;
        let keeper = {
            let mut keeper = self.keeper.lock().map_err(errors::broken)?;
            match &*keeper {
                Some(keeper) => keeper.clone(),
                None => keeper.insert(Keeper::begin(store)?).clone(),
            }
        };
        py.detach(|| keeper.hold(key, &self.shared.views)).or_raise(py)
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
