//! What the harnesses of all suites have in common.

mod image;
mod pool;
mod watchdog;
mod watched;

pub(crate) use image::Image;
pub(crate) use pool::{NEVER, PLACE, WHEN_FULL, assert_sound, dram, spec};
pub(crate) use watchdog::within;
pub(crate) use watched::{Watched, Watcher};
