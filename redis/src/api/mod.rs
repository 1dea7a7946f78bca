//! The server's module interface, as safe functions. Everything that is unsafe in this package is in this folder.
//!
//! The server calls from one thread, or from several that hold its one lock. What it passes is valid during the call.

#[cfg(not(test))]
mod allocator;
mod ask;
mod blocking;
mod call;
mod guard;
mod info;
mod io;
mod log;
mod registration;
mod server;
mod timer;

#[cfg(not(test))]
pub(crate) use allocator::Allocator;
pub(crate) use blocking::block;
pub(crate) use call::{Call, arguments};
pub(crate) use guard::{guard, guarded};
pub(crate) use info::{InfoReport, register_info};
pub(crate) use io::{Broken, RdbReader, RdbWriter, SaveSide, register_type};
pub(crate) use log::{Level, log, now_ms};
pub(crate) use registration::{Arg, ArgKind, Command, Keys, Spec, register};
pub(crate) use server::{Event, Server, end_child, initialize};
pub(crate) use timer::{in_ms, soon};
