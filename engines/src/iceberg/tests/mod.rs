//! Unit tests.

mod hash;
mod layout;
