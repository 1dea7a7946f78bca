//! What the harnesses of all suites have in common.

mod image;
mod watchdog;
mod watched;

pub(crate) use image::Image;
pub(crate) use watchdog::within;
pub(crate) use watched::{Watched, Watcher};
