//! The command `firndex`, as `python -m firndex` runs it.

use cli::program::{self, Start};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// The exit status of a program written in Rust that has panicked.
const PANICKED: u8 = 101;

/// Runs the command with these arguments, and returns its exit status. `program`, with `before` for its first
/// arguments, starts another one.
#[pyfunction]
pub(crate) fn _command(
    py: Python<'_>,
    arguments: Vec<OsString>,
    program: PathBuf,
    before: Vec<OsString>,
) -> u8 {
    let arguments = [cli::NAME.into()].into_iter().chain(arguments);
    let again = || Ok(Start { program, arguments: before });
    let run = || program::run(cli::NAME, || cli::run(arguments, again)) as u8;
    // The panic has said what is wrong.
    py.detach(|| catch_unwind(AssertUnwindSafe(run))).unwrap_or(PANICKED)
}
