//! An open pool, as all calls on its handle share it, until it is closed.

use crate::errors::{self, OrRaise};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;

/// How long closing waits between two looks whether the calls of other threads have returned.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// What runs on a thread of its own, and ends when the handle is closed.
pub(crate) trait Ends: Send + Sync {
    fn end(&self);
}

/// A table or a store that can be closed.
pub(crate) trait Closes: Send + Sync + Sized {
    fn close(self) -> firndex::Result<()>;
}

impl Closes for firndex::Store {
    fn close(self) -> firndex::Result<()> {
        firndex::Store::close(self)
    }
}

impl Closes for firndex::Cache {
    fn close(self) -> firndex::Result<()> {
        firndex::Cache::close(self)
    }
}

/// The locks are held only by threads that are attached to the interpreter, and for no longer than a few instructions.
/// So nobody waits for them who keeps others from going on, and no forked child inherits one that is taken.
pub(crate) struct Shared<T: Closes> {
    open: RwLock<Option<Arc<T>>>,
    path: Option<PathBuf>,
    /// The process that opened it.
    process: u32,
    /// Calls that are under way and have called back into Python.
    callbacks: AtomicUsize,
    /// Values that are shown in place.
    pub(crate) views: Arc<AtomicUsize>,
    threads: Mutex<Vec<Weak<dyn Ends>>>,
}

/// A call that has called back into Python; until it returns, the pool cannot be closed.
pub(crate) struct Callback<'a>(&'a AtomicUsize);

impl Drop for Callback<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Closes> Shared<T> {
    pub(crate) fn new(open: T, path: Option<PathBuf>) -> Self {
        Shared {
            open: RwLock::new(Some(Arc::new(open))),
            path,
            process: std::process::id(),
            callbacks: AtomicUsize::new(0),
            views: Arc::default(),
            threads: Mutex::default(),
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What is open.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<T>> {
        match &*self.open.read().map_err(errors::broken)? {
            Some(open) => Ok(Arc::clone(open)),
            None => Err(self.closed(py)),
        }
    }

    /// Calls `with` with what is open. It may not let go of the interpreter.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        py: Python<'_>,
        with: impl FnOnce(&T) -> PyResult<R>,
    ) -> PyResult<R> {
        match &*self.open.read().map_err(errors::broken)? {
            Some(open) => with(open),
            None => Err(self.closed(py)),
        }
    }

    #[cold]
    fn closed(&self, py: Python<'_>) -> PyErr {
        let what = match &self.path {
            Some(path) => format!("the handle of {} is closed", path.display()),
            None => "the handle of this pool in memory is closed".into(),
        };
        errors::raise(py, "Closed", format!("{what}; open the pool again to use it"))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.open.read().is_ok_and(|open| open.is_none())
    }

    /// Whether a forked child has inherited the handle.
    pub(crate) fn is_inherited(&self) -> bool {
        std::process::id() != self.process
    }

    /// What `repr` shows of a handle of this type. `state` tells what there is in one that can be used.
    pub(crate) fn described(&self, name: &str, state: impl FnOnce() -> String) -> String {
        let place = match &self.path {
            Some(path) => format!("{:?}", path.display().to_string()),
            None => "in memory".into(),
        };
        let state = if self.is_closed() {
            "closed".into()
        } else if self.is_inherited() {
            "inherited by a forked process, unusable".into()
        } else {
            state()
        };
        format!("<{name} {place}, {state}>")
    }

    pub(crate) fn call_back(&self) -> Callback<'_> {
        self.callbacks.fetch_add(1, Ordering::Acquire);
        Callback(&self.callbacks)
    }

    /// Has this ended when the handle is closed.
    pub(crate) fn adopt(&self, thread: Weak<dyn Ends>) -> PyResult<()> {
        let mut threads = self.threads.lock().map_err(errors::broken)?;
        threads.retain(|other| other.strong_count() > 0);
        threads.push(thread);
        Ok(())
    }

    /// Closes the pool, once the calls of other threads have returned. A handle that is closed already stays so. `end`
    /// ends what else shares the pool.
    pub(crate) fn close(&self, py: Python<'_>, end: impl Fn() -> PyResult<()>) -> PyResult<()> {
        let Some(mut open) = self.open.write().map_err(errors::broken)?.take() else {
            return Ok(());
        };
        if self.is_inherited() {
            // It is the parent's to close, and threads that do not exist here may share it.
            std::mem::forget(open);
            return end();
        }
        let threads = std::mem::take(&mut *self.threads.lock().map_err(errors::broken)?);
        loop {
            if let Err(refused) = self.may_close(py) {
                *self.open.write().map_err(errors::broken)? = Some(open);
                return Err(refused);
            }
            end()?;
            threads.iter().filter_map(Weak::upgrade).for_each(|thread| thread.end());
            match Arc::try_unwrap(open) {
                Ok(last) => return py.detach(|| last.close()).or_raise(py),
                Err(shared) => open = shared,
            }
            py.detach(|| std::thread::sleep(LOOK_AGAIN));
            if let Err(interrupted) = py.check_signals() {
                *self.open.write().map_err(errors::broken)? = Some(open);
                return Err(interrupted);
            }
        }
    }

    fn may_close(&self, py: Python<'_>) -> PyResult<()> {
        if self.views.load(Ordering::Acquire) > 0 {
            return Err(PyBufferError::new_err(
                "values of this store are shown in place; release their memoryviews before it is closed",
            ));
        }
        if self.callbacks.load(Ordering::Acquire) > 0 {
            let message = "a function given to `modify` or `get_or_compute` is running; the pool can be closed when it \
                           has returned";
            return Err(errors::raise(py, "Error", message));
        }
        Ok(())
    }
}

/// The pool is closed when this returns, so it can be opened again at once. Iterators and views keep their handle, so
/// all that may share the pool are threads that are about to end.
impl<T: Closes> Drop for Shared<T> {
    fn drop(&mut self) {
        let Some(mut open) = self.open.get_mut().ok().and_then(Option::take) else { return };
        if self.is_inherited() {
            std::mem::forget(open);
            return;
        }
        let threads = self.threads.get_mut().map(std::mem::take).unwrap_or_default();
        let close = move || {
            loop {
                threads.iter().filter_map(Weak::upgrade).for_each(|thread| thread.end());
                match Arc::try_unwrap(open) {
                    Ok(last) => return drop(last),
                    Err(shared) => open = shared,
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        };
        // Where Python is not asked to wait, since it has ended, what is left is as after a kill.
        let _ = Python::try_attach(|py| py.detach(close));
    }
}
