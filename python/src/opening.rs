//! What a handle is opened with, and what can be told or done without one.

use crate::errors::{self, OrRaise};
use firndex::{Durability, Engine, Error, OpenError, Options, PoolInfo};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tables::Way;

/// How long an opening waits between two attempts, and Ctrl-C for it.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// How long an opening waits for who has the pool, if it lets others in itself and nothing else is said. The other one
/// may be about to let it in, or about to close the pool.
const WAIT: Duration = Duration::from_secs(10);

/// Names of the arguments that stores and tables take.
pub(crate) const NAMES: [&str; 17] = [
    "capacity",
    "checkpoint_at",
    "compact_at",
    "durability",
    "durable_every",
    "engine",
    "guests",
    "hash_seed",
    "helpers",
    "keep_sums",
    "log_directory",
    "max_bytes",
    "never_own",
    "patience",
    "reset_if_refused",
    "survive_bus_errors",
    "wait",
];

/// Names of the arguments that caches take.
pub(crate) const CACHE_NAMES: [&str; 12] = [
    "checkpoint_at",
    "durability",
    "durable_every",
    "guests",
    "hash_seed",
    "keep_sums",
    "log_directory",
    "never_own",
    "patience",
    "reset_if_refused",
    "survive_bus_errors",
    "wait",
];

/// Which pools are opened, as `dbm` writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    /// `r`: an existing one, for reading.
    Read,
    /// `w`: an existing one.
    Write,
    /// `c`: an existing one, or else a new one.
    Create,
    /// `n`: a new one, which replaces an existing one.
    New,
    /// `x`: a new one, where nothing may be.
    Exclusive,
}

/// A path, if the pool is not in memory, and the way of opening.
pub(crate) struct Opening {
    pub(crate) path: Option<PathBuf>,
    flag: Flag,
    pub(crate) options: Options,
    wait: Option<Duration>,
    /// Whether other processes may use the pool, if that was said.
    guests: Option<bool>,
}

/// `os.fsdecode`: paths may be `str`, `bytes` or objects with `__fspath__`.
fn path_of(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    path.py().import("os")?.call_method1("fsdecode", (path,))?.extract()
}

fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let found: f64 = value.extract()?;
    Duration::try_from_secs_f64(found).map_err(|_| {
        PyValueError::new_err(format!("{name} is {found}; expected a number of seconds from 0 on"))
    })
}

impl Opening {
    pub(crate) fn new(
        path: Option<&Bound<'_, PyAny>>,
        flag: &str,
        given: Option<&Bound<'_, PyDict>>,
        names: &[&str],
    ) -> PyResult<Self> {
        let flag = match flag {
            "r" => Flag::Read,
            "w" => Flag::Write,
            "c" => Flag::Create,
            "n" => Flag::New,
            "x" => Flag::Exclusive,
            _ => {
                let expected = "expected \"r\" (read), \"w\" (write), \"c\" (write, create if there is none), \
                                \"n\" (begin anew) or \"x\" (create, where nothing is)";
                return Err(PyValueError::new_err(format!("the flag is {flag:?}; {expected}")));
            }
        };
        let path = path.map(path_of).transpose()?;
        let options = Options::new().read_only(flag == Flag::Read);
        let mut opening = Opening { path, flag, options, wait: None, guests: None };
        for (name, value) in given.into_iter().flatten() {
            let name: String = name.extract()?;
            if !names.contains(&name.as_str()) {
                return Err(unknown(&name, names));
            }
            if !value.is_none() {
                opening.set(&name, &value)?;
            }
        }
        opening.options = opening.options.clone().guests(opening.may_have_guests());
        Ok(opening)
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let options = self.options.clone();
        self.options = match name {
            "capacity" => options.capacity(value.extract()?),
            "checkpoint_at" => options.checkpoint_at(value.extract()?),
            "compact_at" => options.compact_at(value.extract()?),
            "durability" => options.durability(durability(value)?),
            "durable_every" => options.durable_every(seconds(name, value)?),
            "engine" => {
                let engine: Engine =
                    value.extract::<String>()?.parse().map_err(|error| bad_engine(&error))?;
                options.engine(engine)
            }
            "guests" => {
                self.guests = Some(value.extract()?);
                options
            }
            "hash_seed" => options.hash_seed(value.extract()?),
            "helpers" => options.helpers(value.extract()?),
            "keep_sums" => options.keep_sums(value.extract()?),
            "log_directory" => options.log_directory(path_of(value)?),
            "max_bytes" => options.max_bytes(value.extract()?),
            "never_own" => options.never_own(value.extract()?),
            "patience" => options.patience(seconds(name, value)?),
            "reset_if_refused" => options.reset_if_refused(value.extract()?),
            "survive_bus_errors" => options.survive_bus_errors(value.extract()?),
            "wait" => {
                self.wait = Some(seconds(name, value)?);
                options
            }
            _ => return Err(unknown(name, &NAMES)),
        };
        Ok(())
    }

    /// Workers of one application open one path, so they are let in unless that is declined.
    fn may_have_guests(&self) -> bool {
        self.guests.unwrap_or(true) && self.path.is_some() && self.flag != Flag::Read
    }

    /// Whether a new pool is wanted in any case.
    pub(crate) fn is_of_new(&self) -> bool {
        self.path.is_none() || matches!(self.flag, Flag::New | Flag::Exclusive)
    }

    /// Whether an existing pool is wanted in any case.
    pub(crate) fn is_of_old(&self) -> bool {
        self.path.is_some() && matches!(self.flag, Flag::Read | Flag::Write)
    }

    /// Opens a pool by these: in memory, an existing one, a new one, or one of both.
    pub(crate) fn open<T: Send>(
        &self,
        py: Python<'_>,
        open: impl Fn(&Options, Way<'_>) -> firndex::Result<T> + Sync,
    ) -> PyResult<T> {
        self.open_or(py, errors::of, open)
    }

    /// The same. `raise` makes the exception if it fails.
    pub(crate) fn open_or<T: Send>(
        &self,
        py: Python<'_>,
        raise: fn(Python<'_>, &Error) -> PyErr,
        open: impl Fn(&Options, Way<'_>) -> firndex::Result<T> + Sync,
    ) -> PyResult<T> {
        let way = match (&self.path, self.flag) {
            (None, _) => Way::InMemory,
            (Some(path), Flag::Read | Flag::Write) => Way::Open(path),
            (Some(path), Flag::Create) => Way::OpenOrCreate(path),
            (Some(path), Flag::New | Flag::Exclusive) => Way::Create(path),
        };
        let wait = match self.flag {
            Flag::New | Flag::Exclusive => Duration::ZERO,
            _ if self.guests == Some(false) => Duration::ZERO,
            _ => WAIT,
        };
        let until = Instant::now() + self.wait.unwrap_or(wait);
        let mut options = self.options.clone();
        let mut may_do_without_guests = self.guests.is_none() && self.may_have_guests();
        loop {
            let opened = py.detach(|| {
                if let (Some(path), Flag::New) = (&self.path, self.flag) {
                    clear(&options, path)?;
                }
                open(&options, way)
            });
            match opened {
                Err(Error::Open(OpenError::Busy { .. } | OpenError::BusyLog { .. }))
                    if Instant::now() < until =>
                {
                    py.check_signals()?;
                    py.detach(|| std::thread::sleep(TRY_AGAIN));
                }
                // There may be no place for a socket beside the pool. Nobody has asked for one.
                Err(Error::Io { .. }) if may_do_without_guests => {
                    may_do_without_guests = false;
                    options = options.guests(false);
                }
                opened => return opened.map_err(|error| raise(py, &error)),
            }
        }
    }
}

/// Removes the pool at `path`, or an empty file. Any other file stays, and the error says so.
fn clear(options: &Options, path: &Path) -> firndex::Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        let removing = |source| Error::Io { action: "removing the empty file", source };
        return std::fs::remove_file(path).map_err(removing);
    }
    match options.remove(path) {
        Err(Error::Open(OpenError::Missing { .. })) => Ok(()),
        removed => removed,
    }
}

fn unknown(name: &str, names: &[&str]) -> PyErr {
    let names = names.join(", ");
    PyTypeError::new_err(format!(
        "there is no argument {name}; beside path and flag there are {names}"
    ))
}

fn bad_engine(error: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn durability(value: &Bound<'_, PyAny>) -> PyResult<Durability> {
    let name = value.cast::<PyString>()?.to_cow()?;
    Durability::ALL.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "the durability is {name:?}; expected \"process\", \"periodic\" or \"commit\""
        ))
    })
}

/// Removes the pool at ``path`` with its log and checkpoint. The pool may not be open.
///
/// A file that is no pool stays. ``log_directory`` is the one that the pool was opened with, if any.
///
/// >>> import firndex
/// >>> firndex.Store("old.firn").close()
/// >>> firndex.remove("old.firn")
#[pyfunction]
#[pyo3(signature = (path, *, log_directory=None))]
pub(crate) fn remove(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    log_directory: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let path = path_of(path)?;
    let mut options = Options::new();
    if let Some(directory) = log_directory {
        options = options.log_directory(path_of(directory)?);
    }
    py.detach(|| options.remove(path)).or_raise(py)
}

/// What the pool at ``path`` says of itself, without opening it: a dict with its kind, engine, sizes and durability.
///
/// >>> import firndex
/// >>> firndex.Store("seen.firn").close()
/// >>> info = firndex.inspect("seen.firn")
/// >>> info["kind"], info["clean"]
/// ('store', True)
#[pyfunction]
pub(crate) fn inspect<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let path = path_of(path)?;
    let info: PoolInfo = py.detach(|| firndex::inspect(path)).or_raise(py)?;
    let told = PyDict::new(py);
    told.set_item("kind", info.kind.name())?;
    told.set_item("engine", info.engine.name())?;
    told.set_item("key_bytes", info.key_bytes)?;
    told.set_item("value_bytes", info.value_bytes)?;
    told.set_item("key_shape", info.key_shape.map(|shape| shape.to_string()))?;
    told.set_item("value_shape", info.value_shape.map(|shape| shape.to_string()))?;
    told.set_item("clean", info.clean)?;
    told.set_item("durability", info.durability.name())?;
    told.set_item("keeps_sums", info.keeps_sums)?;
    told.set_item("incarnation", info.incarnation)?;
    told.set_item("uuid", format!("{:032x}", info.uuid))?;
    told.set_item("bytes", info.bytes)?;
    Ok(told)
}

/// Refuses to pickle a handle.
pub(crate) fn refuse_pickling(py: Python<'_>, what: &str, path: Option<&Path>) -> PyErr {
    let instead = match path {
        Some(path) => format!(
            "pass the path {:?} on, and open the pool there, or share this handle between threads",
            path.display().to_string()
        ),
        None => "a pool in memory exists in this process only; use a pool in a file".into(),
    };
    let message = format!(
        "a {what} is a handle of this process and can be neither pickled nor copied: {instead}"
    );
    errors::raise(py, "NotPicklable", message)
}
