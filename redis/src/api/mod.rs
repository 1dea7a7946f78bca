//! The server's module interface, as safe functions. Everything that is unsafe in this package is in this folder.
//!
//! The server calls from one thread, or from several that hold its one lock. What it passes is valid during the call.

#[cfg(not(test))]
mod allocator;
mod blocking;
mod call;
mod guard;
mod info;
mod io;
mod registration;
mod server;
mod timer;

#[cfg(not(test))]
pub(crate) use allocator::Allocator;
pub(crate) use blocking::block;
pub(crate) use call::Call;
pub(crate) use guard::{guard, guarded};
pub(crate) use info::{InfoReport, register_info};
pub(crate) use io::{Broken, RdbReader, RdbWriter, SaveSide, register_type};
pub(crate) use registration::{Arg, ArgKind, Command, Keys, Spec, register};
pub(crate) use server::{Event, Level, Server, arguments, end_child, initialize, log, now_ms};
pub(crate) use timer::{in_ms, soon};

/// The functions of the server, which it fills in when it loads the module.
use redis_module::raw;

/// Calls a function of the server. All of them but those of newer servers are there once the module is initialized.
macro_rules! ask {
    ($function:ident($($argument:expr),* $(,)?)) => {
        match raw::$function {
            Some(function) => function($($argument),*),
            // The oldest supported server has it.
            None => unreachable!(concat!("this server has no ", stringify!($function))),
        }
    };
}
use ask;
