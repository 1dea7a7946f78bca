//! Caches: byte strings to byte strings, within a bound.
//!
//! Python never holds a record of a cache: what is found is copied at once. So no thread of Python keeps others from
//! making room, and none can be told that it does.

mod calls;

use crate::batches::{Copies, keys_of, pairs_of};
use crate::bytes::{What, bytes_of};
use crate::computing::Computing;
use crate::errors;
use crate::expiry::{Expiry, FOR_EVER};
use crate::figures::name_of;
use crate::opening::{CACHE_NAMES, Opening, refuse_pickling};
use crate::pairs::{Of, Pairs};
use crate::shared::Shared;
use crate::store::{BATCH, absent};
use firndex::{Error, Result, Role};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::path::PathBuf;
use tables::Way;

/// The native part of ``firndex.Cache``.
#[pyclass(subclass, frozen, module = "firndex._firndex")]
pub(crate) struct Cache {
    pub(crate) shared: Shared<firndex::Cache>,
}

/// How a computation leaves without a value for the library to put.
enum Left {
    /// The value has its end, and was put with it.
    Put(Vec<u8>),
    Failed(Error),
    Raised(PyErr),
}

/// Results of a cache. Some of its errors have another way out than a store's.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| errors::of_cache(py, &error))
    }
}

fn put(cache: &firndex::Cache, key: &[u8], value: &[u8], expiry: Expiry) -> Result<()> {
    match expiry {
        Expiry::Never => cache.put(key, value),
        Expiry::After(time) => cache.put_for(key, value, time),
        Expiry::AtOnce => cache.remove(key).map(drop),
    }
}

/// The same, again if the owner ended amid it: whether it was done before or not, this is what the caller wants.
fn put_until_done(cache: &firndex::Cache, key: &[u8], value: &[u8], expiry: Expiry) -> Result<()> {
    loop {
        match put(cache, key, value, expiry) {
            Err(Error::Interrupted) => {}
            put => return put,
        }
    }
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (path=None, capacity=None, flag="c", **options))]
    fn new(
        py: Python<'_>,
        path: Option<&Bound<'_, PyAny>>,
        capacity: Option<u64>,
        flag: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let opening = Opening::new(path, flag, options, &CACHE_NAMES)?;
        let bad = |message: &str| Err(errors::raise(py, "BadOption", message));
        match (capacity, opening.is_of_new(), opening.is_of_old()) {
            (None, true, _) => {
                return bad(
                    "a new cache needs a capacity, and none was given; say how many bytes it may take",
                );
            }
            (Some(_), _, true) => {
                return bad(
                    "the flags \"r\" and \"w\" open a cache with the capacity that it has; leave the capacity out, or \
                     use \"c\", which changes it",
                );
            }
            _ => {}
        }
        let open = |options: &firndex::Options, way: Way<'_>| match (way, capacity) {
            (Way::InMemory, bytes) => options.in_memory_cache(bytes.unwrap_or_default()),
            (Way::Create(path), bytes) => options.create_cache(path, bytes.unwrap_or_default()),
            (Way::OpenOrCreate(path), Some(bytes)) => options.open_or_create_cache(path, bytes),
            (Way::OpenOrCreate(path) | Way::Open(path), _) => options.open_cache(path),
        };
        let cache = opening.open_or(py, errors::of_cache, open)?;
        Ok(Cache { shared: Shared::new(cache, opening.path) })
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
        self.set(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.delete(py, key)? { Ok(()) } else { Err(absent(key)) }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes_of(What::Key, key)?;
        let key = key.as_bytes();
        self.looked(py, |cache| cache.contains_key(key))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let cache = self.shared.get(py)?;
        // The number alone would not tell that a forked child asks, or that the file is gone.
        let len = py.detach(|| cache.contains_key(b"").map(|_| cache.len())).or_raise(py)?;
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn __iter__(this: &Bound<'_, Self>) -> PyResult<Pairs> {
        Pairs::new(this, &this.get().shared, Of::Keys)
    }

    /// An iterator over the pairs. This is no hit for any of them.
    ///
    /// It has no order, and reads a few hundred entries at a time: a pair is as it was then, and may have gone since.
    /// What is there throughout is met. A key that is stored again meanwhile, or whose entry is moved to make room, may
    /// be shown twice: ``dict(cache.items())`` has it once. A guest's iterator ends with ``Interrupted`` if the owner
    /// does, or if nobody asks it to go on for a minute.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache.set_many({"a": b"1", "b": b"2"})
    /// >>> sorted(cache.items())
    /// [(b'a', b'1'), (b'b', b'2')]
    fn items(this: &Bound<'_, Self>) -> PyResult<Pairs> {
        Pairs::new(this, &this.get().shared, Of::Items)
    }

    /// The value of ``key``, or ``default`` if it is not there. In the owner it takes no lock and never waits. A guest
    /// asks the owner.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache["/about"] = b"We are"
    /// >>> cache.get("/about"), cache.get("/news"), cache.get("/news", b"?")
    /// (b'We are', None, b'?')
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.found(py, key)?.map(Bound::into_any).or(default))
    }

    /// Stores the pair, whether or not ``key`` is there. It is there for ``expire`` from now on: seconds, or a
    /// timedelta; None is without an end. An ``expire`` of 0 or less only removes what there was.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache.set("/news", b"Today", expire=60)
    /// >>> cache["/news"], 59 < cache.time_left("/news") <= 60
    /// (b'Today', True)
    #[pyo3(signature = (key, value, expire=None))]
    fn set(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (key, value) = (bytes_of(What::Key, key)?, bytes_of(What::Value, value)?);
        let (key, value, expiry) = (key.as_bytes(), value.as_bytes(), Expiry::of(expire)?);
        let cache = self.shared.get(py)?;
        py.detach(|| put(&cache, key, value, expiry)).or_raise(py)
    }

    /// Stores the pair, as ``set`` does, if ``key`` is not there. Returns whether it was stored: of all threads and
    /// processes that do this at once, one hears True.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache.add("job 7", b"worker 1", expire=60), cache.add("job 7", b"worker 2")
    /// (True, False)
    #[pyo3(signature = (key, value, expire=None))]
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        expire: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (key, value) = (bytes_of(What::Key, key)?, bytes_of(What::Value, value)?);
        let (key, value, expiry) = (key.as_bytes(), value.as_bytes(), Expiry::of(expire)?);
        let cache = self.shared.get(py)?;
        let add = || match expiry {
            Expiry::Never => cache.insert(key, value),
            Expiry::After(time) => cache.insert_for(key, value, time),
            Expiry::AtOnce => Ok(!cache.contains_key(key)?),
        };
        py.detach(add).or_raise(py)
    }

    /// Replaces the value of ``key`` by ``new`` if it is ``expected``. Returns whether it was. The new value ends when
    /// the former one would have ended. So a change that looks at the value first loses nothing of what others change:
    /// if they have changed it meanwhile, look again.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache["visits"] = b"9"
    /// >>> cache.replace_if("visits", b"9", b"10"), cache.replace_if("visits", b"9", b"11"), cache["visits"]
    /// (True, False, b'10')
    fn replace_if(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, new) = (bytes_of(What::Key, key)?, bytes_of(What::Value, new)?);
        let expected = bytes_of(What::Value, expected)?;
        let (key, expected, new) = (key.as_bytes(), expected.as_bytes(), new.as_bytes());
        let cache = self.shared.get(py)?;
        py.detach(|| cache.replace_if(key, expected, new)).or_raise(py)
    }

    /// Lets the entry of ``key`` end after ``expire`` from now on, as ``set`` takes it. Returns whether it is there.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache.set("session", b"ada", expire=60)
    /// >>> cache.touch("session", 3600), cache.touch("none", 3600)
    /// (True, False)
    fn touch(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expire: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (key, expiry) = (bytes_of(What::Key, key)?, Expiry::of(expire)?);
        let (key, cache) = (key.as_bytes(), self.shared.get(py)?);
        let touch = || match expiry {
            Expiry::Never => cache.touch(key, std::time::Duration::MAX),
            Expiry::After(time) => cache.touch(key, time),
            Expiry::AtOnce => cache.remove(key),
        };
        py.detach(touch).or_raise(py)
    }

    /// How many seconds the entry of ``key`` will still be there; None if it has no end. KeyError if it is not there.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache["a"] = b"1"
    /// >>> cache.time_left("a") is None
    /// True
    fn time_left(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let bytes = bytes_of(What::Key, key)?;
        let key_bytes = bytes.as_bytes();
        let found = self.looked(py, |cache| cache.time_left(key_bytes))?;
        let left = found.ok_or_else(|| absent(key))?;
        Ok(left.filter(|left| *left < FOR_EVER).map(|left| left.as_secs_f64()))
    }

    /// Removes ``key``, and returns whether it was there.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache["a"] = b"1"
    /// >>> cache.delete("a"), cache.delete("a")
    /// (True, False)
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes_of(What::Key, key)?;
        let (key, cache) = (key.as_bytes(), self.shared.get(py)?);
        py.detach(|| cache.remove(key)).or_raise(py)
    }

    /// The value of the removed entry, or `None`.
    fn _take<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = bytes_of(What::Key, key)?;
        let (key, cache) = (key.as_bytes(), self.shared.get(py)?);
        let take = || {
            while let Some(found) = cache.get(key)?.map(|found| found.to_vec()) {
                // Of those who look at once, one has it.
                if cache.remove(key)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        };
        let taken = py.detach(take).or_raise(py)?;
        Ok(taken.map(|value| PyBytes::new(py, &value)))
    }

    /// Removes everything, in a time that does not depend on how much there is.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache["a"] = b"1"
    /// >>> cache.clear()
    /// >>> "a" in cache
    /// False
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.shared.get(py)?;
        py.detach(|| cache.clear()).or_raise(py)
    }

    /// A list of the keys' values, with None where there is none. For a guest much faster than single calls.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache.set_many({"France": b"Paris", "Italy": b"Rome"})
    /// >>> cache.get_many(["Italy", "Atlantis"])
    /// [b'Rome', None]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = keys_of(keys)?;
        let cache = self.shared.get(py)?;
        let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let found = PyList::empty(py);
        for part in bytes.chunks(BATCH) {
            let look = || {
                let mut copies = Copies::default();
                if cache.role() == Role::Guest {
                    for value in cache.get_many(part)? {
                        copies.add(value.as_deref());
                    }
                    return Ok(copies);
                }
                // One by one: all at once would keep others from making room until the last is copied.
                for key in part {
                    copies.add(cache.get(key)?.as_deref());
                }
                Ok(copies)
            };
            py.detach(look).or_raise(py)?.list(&found)?;
            py.check_signals()?;
        }
        Ok(found)
    }

    /// Stores the pairs of a mapping, or of an iterable, in order, each as ``set`` does.
    ///
    /// For a guest it is much faster than single calls, but not with ``expire``. The batch is not atomic as a whole. If
    /// it fails, the exception's ``done`` and ``undone`` tell which entries took effect.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache.set_many([("France", b"Paris"), ("Italy", b"Rome")], expire=3600)
    /// >>> len(cache)
    /// 2
    #[pyo3(signature = (pairs, expire=None))]
    fn set_many(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyAny>,
        expire: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (pairs, expiry) = (pairs_of(pairs)?, Expiry::of(expire)?);
        let cache = self.shared.get(py)?;
        let bytes: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
        match expiry {
            Expiry::Never => self.batches(py, &bytes, |part| cache.put_many(part)),
            Expiry::AtOnce => {
                let keys: Vec<&[u8]> = bytes.iter().map(|&(key, _)| key).collect();
                self.batches(py, &keys, |part| cache.remove_many(part).map(drop))
            }
            Expiry::After(time) => {
                self.parts(py, &bytes, |(key, value)| cache.put_for(key, value, time))
            }
        }
    }

    /// Removes the keys, and returns how many were there. Errors are as in ``set_many``.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache.set_many({"a": b"1", "b": b"2"})
    /// >>> cache.delete_many(["a", "c"])
    /// 1
    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = keys_of(keys)?;
        let cache = self.shared.get(py)?;
        let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut removed = 0;
        self.batches(py, &bytes, |part| {
            removed += cache.remove_many(part)?.into_iter().filter(|was_there| *was_there).count();
            Ok(())
        })?;
        Ok(removed)
    }

    /// The value of ``key``; if it is not there, what ``compute()`` returns, which is then stored as ``set`` does.
    ///
    /// While one thread computes the value of a key, others of the process that want it wait, and get the same. Another
    /// process may compute it at the same time. What ``compute`` raises goes to its caller alone, and is not kept: one
    /// of those that wait tries next. A value that is too large to be stored is returned all the same. ``compute`` may
    /// use the cache, but not ask for the same key in this way.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> def compute():
    /// ...     print("computing")
    /// ...     return b"We are"
    /// >>> cache.get_or_compute("/about", compute), cache.get_or_compute("/about", compute, expire=60)
    /// computing
    /// (b'We are', b'We are')
    #[pyo3(signature = (key, compute, expire=None))]
    fn get_or_compute<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        compute: &Bound<'py, PyAny>,
        expire: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (key, expiry) = (bytes_of(What::Key, key)?, Expiry::of(expire)?);
        let (key, cache) = (key.as_bytes(), self.shared.get(py)?);
        if Computing::is_here(&cache, key) {
            return self.found_at(py, key)?.ok_or_else(|| {
                let message = "this thread computes the value of this key already, and would wait for itself; do not \
                               ask for it in `compute`";
                errors::raise(py, "Error", message)
            });
        }
        let compute = compute.clone().unbind();
        let called = || {
            Python::attach(|py| {
                let (_callback, _computing) =
                    (self.shared.call_back(), Computing::begin(&cache, key));
                let value = compute.bind(py).call0()?;
                Ok(bytes_of(What::Value, &value)?.as_bytes().to_vec())
            })
        };
        // The library puts what it is given without an end, and fails if the owner ends meanwhile. So what has an end,
        // or is put by a guest, is put here; others who wait find it.
        let computed = || {
            let value = called().map_err(Left::Raised)?;
            match expiry {
                Expiry::Never if cache.role() != Role::Guest => Ok(value),
                _ => match put_until_done(&cache, key, &value, expiry) {
                    Ok(()) => Err(Left::Put(value)),
                    Err(Error::TooLarge { .. }) => Ok(value),
                    Err(error) => Err(Left::Failed(error)),
                },
            }
        };
        match py.detach(|| cache.get_or_put_with(key, computed)).or_raise(py)? {
            Ok(value) => Ok(PyBytes::new(py, &value)),
            Err(Left::Put(value)) => Ok(PyBytes::new(py, &value)),
            Err(Left::Failed(error)) => Err(errors::of_cache(py, &error)),
            Err(Left::Raised(raised)) => Err(raised),
        }
    }

    /// Makes everything that has returned so far survive power loss.
    ///
    /// >>> with firndex.Cache("pages.firn", 1 << 20) as pages:
    /// ...     pages["/about"] = b"We are"
    /// ...     pages.sync()
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.shared.get(py)?;
        py.detach(|| cache.sync()).or_raise(py)
    }

    /// Waits until everything that this thread has done or seen so far survives power loss, as that of a store.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.shared.get(py)?;
        py.detach(|| cache.commit()).or_raise(py)
    }

    fn _check(&self, py: Python<'_>) -> PyResult<(u64, u64, Vec<String>)> {
        let cache = self.shared.get(py)?;
        let report = py.detach(|| cache.check()).or_raise(py)?;
        Ok((report.pairs, report.faults, report.findings))
    }

    /// Figures of the cache: hits, misses and the part that hits are of both, entries that came and went, and bytes.
    /// Counts are those of the owner, of all that its guests asked for, too, since it opened the cache.
    ///
    /// ``oldest_put`` is how many seconds ago the oldest entries were put that have not been kept since. In a full
    /// cache this is about how long an entry stays that nobody asks for. ``oldest_kept`` is how many seconds ago the
    /// oldest entries were kept: about how often it is decided anew whether they stay.
    ///
    /// >>> cache = firndex.Cache(capacity=1 << 20)
    /// >>> cache["a"] = b"1"
    /// >>> cache.get("a"), cache.get("b")
    /// (b'1', None)
    /// >>> figures = cache.stats()
    /// >>> figures["hits"], figures["misses"], figures["hit_ratio"]
    /// (1, 1, 0.5)
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let cache = self.shared.get(py)?;
        let stats = py.detach(|| cache.stats()).or_raise(py)?;
        crate::figures::told_of_cache(py, &stats)
    }

    /// Writes everything to the device, and marks the cache as closed. Closing twice does nothing.
    ///
    /// It waits for the calls of other threads. Iterators in use raise ``Closed`` when they need more of it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py, || Ok(()))
    }

    /// Whether the handle is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// The path of the cache, or None in memory.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.shared.path().map(Into::into)
    }

    /// What this process is to the cache: "owner", or "guest" if another process does for it what it asks for.
    ///
    /// >>> cache = firndex.Cache("pages.firn", 1 << 20)
    /// >>> cache.role
    /// 'owner'
    #[getter]
    fn role(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.shared.with(py, |cache| Ok(name_of(cache.role())))
    }

    /// Why the cache was refused and begun anew, if it was (``reset_if_refused``).
    #[getter]
    fn was_reset(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let told = |error: &Error| errors::told_of_cache(&error.to_string());
        self.shared.with(py, |cache| Ok(cache.was_reset().map(told)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        self.shared.described("firndex.Cache", || {
            self.__len__(py).map_or_else(|error| error.to_string(), |len| format!("{len} entries"))
        })
    }

    fn __reduce_ex__(&self, py: Python<'_>, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(refuse_pickling(py, "firndex.Cache", self.shared.path()))
    }
}
