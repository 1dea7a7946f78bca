//! The native half of the Python package `firndex`: what Python calls, and how errors, bytes and arrays pass.
//!
//! Everything that may wait runs detached from the interpreter, so other threads of Python go on meanwhile. A single
//! look-up in memory stays attached: it takes no lock, never waits, and is shorter than giving the interpreter away. A
//! guest's runs detached: it waits for the owner.

mod arrays;
mod batches;
mod bytes;
mod cache;
mod command;
mod computing;
mod errors;
mod expiry;
mod figures;
mod keeper;
mod opening;
mod pairs;
mod pipe;
mod shared;
mod store;
mod table;
mod view;

use pyo3::prelude::*;

#[pymodule]
mod _firndex {
    #[pymodule_export]
    use super::cache::Cache;
    #[pymodule_export]
    use super::command::_command;
    #[pymodule_export]
    use super::opening::{inspect, remove};
    #[pymodule_export]
    use super::pairs::Pairs;
    #[pymodule_export]
    use super::store::Store;
    #[pymodule_export]
    use super::table::{Pieces, Table};
}
