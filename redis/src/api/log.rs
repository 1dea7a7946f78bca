//! The server's log and clock.

use super::ask::ask;
use redis_module::raw;
use std::ffi::{CString, c_longlong};
use std::ptr::null_mut;

/// How loud a line in the server's log is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Level {
    Notice,
    Warning,
}

/// Writes a line to the server's log.
pub(crate) fn log(level: Level, text: &str) {
    let level = match level {
        Level::Notice => c"notice",
        Level::Warning => c"warning",
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: without a context the server logs all the same; the format takes the one text.
    unsafe {
        if let Some(log) = raw::RedisModule_Log {
            log(null_mut(), level.as_ptr(), c"firn: %s".as_ptr(), text.as_ptr());
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    // SAFETY: it only reads the clock.
    let now: c_longlong = unsafe { ask!(RedisModule_Milliseconds()) };
    u64::try_from(now).unwrap_or(0)
}
