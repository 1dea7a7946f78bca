//! Unit tests.

mod hash;
mod layout;
mod scans;
