//! Errors of the facade as exceptions of `firndex._errors`, each with the facade's message.

use firndex::{BatchError, Error, OpenError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyType};

/// An exception of this name. If the package is not whole, one that says so.
fn exception(py: Python<'_>, name: &str, arguments: impl PyErrArgs) -> PyErr {
    match class(py, name) {
        Ok(class) => arguments.raise(class),
        Err(error) => error,
    }
}

/// What an exception is made with.
trait PyErrArgs {
    fn raise(self, class: Bound<'_, PyType>) -> PyErr;
}

impl PyErrArgs for String {
    fn raise(self, class: Bound<'_, PyType>) -> PyErr {
        PyErr::from_type(class, (self,))
    }
}

/// The number of an operating system's error, and the message.
impl PyErrArgs for (i32, String) {
    fn raise(self, class: Bound<'_, PyType>) -> PyErr {
        PyErr::from_type(class, self)
    }
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module =
        MODULE.get_or_try_init(py, || py.import("firndex._errors").map(Bound::unbind))?.bind(py);
    Ok(module.getattr(name)?.cast_into::<PyType>()?)
}

/// The exception's class for an error of opening.
fn class_of_opening(error: &OpenError) -> &'static str {
    match error {
        OpenError::Missing { .. } => "Missing",
        OpenError::Exists { .. } | OpenError::LeftLog { .. } => "Exists",
        OpenError::Busy { .. } | OpenError::AlreadyOpen { .. } | OpenError::BusyLog { .. } => {
            "Held"
        }
        OpenError::Mismatch { .. } => "Mismatch",
        OpenError::NotAPool { .. } => "NotAPool",
        OpenError::NeedsRecovery => "NeedsRecovery",
        OpenError::Dirty { .. } | OpenError::NotRestored { .. } => "NotRestored",
        OpenError::Damaged { .. }
        | OpenError::Truncated { .. }
        | OpenError::Corrupt { .. }
        | OpenError::Miscounted { .. } => "Corrupt",
        _ => "NotOpened",
    }
}

/// The operating system's error in an error, if there is one.
fn system(error: &Error) -> Option<i32> {
    match error {
        Error::Io { source, .. }
        | Error::Open(
            OpenError::Io { source, .. }
            | OpenError::NotWritable { source, .. }
            | OpenError::NoRightToLog { source, .. },
        ) => source.raw_os_error(),
        _ => None,
    }
}

/// The facade's messages name its options as Rust does; here they are arguments.
fn in_python(message: &str) -> String {
    message
        .replace(
            " in the child, after the parent has closed it or as its guest (`Options::guests`)",
            " in the child",
        )
        .replace("`Options::", "the argument `")
        .replace("`Salvage::open(POOL)`", "the command `firndex salvage POOL OUT`")
        .replace("`firndex::remove`", "`firndex.remove`")
        .replace("open it with `open_or_create`", "open it with the flag \"c\"")
}

/// A new cache needs a capacity, and Python holds none of its values.
pub(crate) fn told_of_cache(message: &str) -> String {
    in_python(message)
        .replace("open it with the flag \"c\"", "open it with a capacity")
        .replace(
            "since values that were read are still held; drop the `Record`s of this and other threads, then try again",
            "since other threads are reading what would go; try again",
        )
}

/// The exception for an error.
pub(crate) fn of(py: Python<'_>, error: &Error) -> PyErr {
    told(py, error, in_python(&error.to_string()))
}

/// The exception for an error of a cache.
pub(crate) fn of_cache(py: Python<'_>, error: &Error) -> PyErr {
    told(py, error, told_of_cache(&error.to_string()))
}

fn told(py: Python<'_>, error: &Error, message: String) -> PyErr {
    if let Some(number) = system(error) {
        return exception(py, "SystemFailure", (number, message));
    }
    let name = match error {
        Error::Open(error) => class_of_opening(error),
        Error::PoolFull(_) => "PoolFull",
        Error::Corrupt(_) => "Corrupt",
        Error::Limit(_) => "Limit",
        Error::TooLarge { .. } => "TooLarge",
        Error::CacheHeld => "CacheHeld",
        Error::PairSizes { .. } | Error::Parameter { .. } | Error::OutOfRange { .. } => "BadOption",
        Error::Log(_) => "LogFailed",
        Error::NotLogged => "NotLogged",
        Error::ReadOnly => "ReadOnly",
        Error::Forked => "Forked",
        Error::Interrupted => "Interrupted",
        Error::Silent { .. } => "Silent",
        Error::ForOwner { .. } => "ForOwner",
        Error::Vanished { .. } => "Vanished",
        _ => "Error",
    };
    exception(py, name, message)
}

/// An exception of this package that no error of the facade is behind.
pub(crate) fn raise(py: Python<'_>, name: &str, message: impl Into<String>) -> PyErr {
    exception(py, name, message.into())
}

/// Which entries of a batch took effect, if it is carried out in parts.
pub(crate) struct Part {
    /// Entries of the parts before, all of which took effect.
    pub(crate) before: usize,
    /// Entries of all parts.
    pub(crate) entries: usize,
}

/// The exception for a batch that failed in this part. Its attributes `done` and `undone` tell what took effect.
pub(crate) fn of_batch(py: Python<'_>, error: &BatchError, part: Part) -> PyErr {
    with_undone_of(py, of(py, error.error()), error, part)
}

/// The same of a batch of a cache.
pub(crate) fn of_cache_batch(py: Python<'_>, error: &BatchError, part: Part) -> PyErr {
    with_undone_of(py, of_cache(py, error.error()), error, part)
}

/// The same, if the entry behind so many of the part failed by itself.
pub(crate) fn of_cache_entry(py: Python<'_>, error: &Error, done: usize, part: Part) -> PyErr {
    let done = part.before + done;
    let undone = (done..part.entries).collect();
    with_undone(py, of_cache(py, error), done, undone, part.entries)
}

fn with_undone_of(py: Python<'_>, raised: PyErr, error: &BatchError, part: Part) -> PyErr {
    let Part { before, entries } = part;
    let later = before + error.entries()..entries;
    let undone = error.undone().map(|index| before + index).chain(later).collect();
    with_undone(py, raised, before + error.done(), undone, entries)
}

fn with_undone(
    py: Python<'_>,
    raised: PyErr,
    done: usize,
    undone: Vec<usize>,
    entries: usize,
) -> PyErr {
    let value = raised.value(py);
    let told = value
        .setattr("done", done)
        .and_then(|()| value.setattr("undone", undone))
        .and_then(|()| value.call_method1("_of_batch", (entries,)));
    match told {
        Ok(_) => raised,
        Err(error) => error,
    }
}

/// Results with the facade's errors.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for firndex::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| of(py, &error))
    }
}

/// A lock of ours is poisoned only if a call panicked, which pyo3 has reported already.
pub(crate) fn broken<T>(_: T) -> PyErr {
    PyRuntimeError::new_err("an earlier call on this handle has panicked; open the pool again")
}
