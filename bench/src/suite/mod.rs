//! What is measured, a suite each.

pub mod micro;
