//! firndex for C and C++.
//!
//! `include/firndex.h` is the reference, and `docs/guide/c.md` the guide. Handles are numbers, which are looked up
//! (`pools.rs`, `held.rs`), so one that was closed is told from one that is open. A close waits for calls under way
//! (`threads.rs`). No panic crosses the boundary (`call.rs`).

mod batch;
mod call;
mod code;
mod failure;
mod handle;
#[cfg(test)]
mod header;
mod held;
mod lent;
pub mod options;
mod places;
pub mod pool;
mod pools;
pub mod store;
pub mod table;
mod threads;

use std::ffi::{c_char, c_int};

/// The version of the library.
const VERSION: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes(),
) {
    Ok(version) => version,
    Err(_) => panic!("a version has no NUL"),
};

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn firndex_version() -> *const c_char {
    VERSION.as_ptr()
}

/// The message of the calling thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn firndex_message() -> *const c_char {
    failure::told()
}

/// The name of a code.
#[unsafe(no_mangle)]
pub extern "C" fn firndex_code_name(code: c_int) -> *const c_char {
    failure::name_of(code).as_ptr()
}
