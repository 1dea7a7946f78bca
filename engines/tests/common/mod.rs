//! What the harnesses of all suites have in common.

mod image;
mod pool;
mod random;
mod watchdog;
mod watched;

pub(crate) use image::Image;
pub(crate) use pool::{NEVER, PLACE, WHEN_FULL, assert_sound, dram, spec};
pub(crate) use random::{Random, SPREAD};
pub(crate) use watchdog::within;
pub(crate) use watched::{Watched, Watcher};
