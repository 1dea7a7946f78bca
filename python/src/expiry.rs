//! How long an entry of a cache is there, as Python says it.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::time::Duration;

/// What ends later than this has no end: two hundred years, of which the clock of a cache has some five hundred.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(200 * 365 * 86_400);

/// The clock of a cache counts milliseconds.
const TICK: Duration = Duration::from_millis(1);

/// When an entry ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    AtOnce,
    After(Duration),
}

impl Expiry {
    /// Of seconds, or of a `timedelta`; `None` is never.
    pub(crate) fn of(expire: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(expire) = expire.filter(|expire| !expire.is_none()) else {
            return Ok(Expiry::Never);
        };
        let seconds = match expire.extract::<f64>() {
            Ok(seconds) => seconds,
            Err(_) => expire
                .call_method0("total_seconds")
                .and_then(|seconds| seconds.extract())
                .map_err(|_| wrong_type(expire))?,
        };
        if seconds.is_nan() {
            return Err(PyValueError::new_err(
                "expire is not a number; expected seconds, a timedelta, or None for no end",
            ));
        }
        if seconds <= 0.0 {
            return Ok(Expiry::AtOnce);
        }
        if seconds >= FOR_EVER.as_secs_f64() {
            return Ok(Expiry::Never);
        }
        Ok(Expiry::After(Duration::from_secs_f64(seconds).max(TICK)))
    }
}

fn wrong_type(expire: &Bound<'_, PyAny>) -> PyErr {
    match expire.get_type().name() {
        Ok(found) => PyTypeError::new_err(format!(
            "expire is {found}; expected seconds (int or float), a timedelta, or None for no end"
        )),
        Err(error) => error,
    }
}
