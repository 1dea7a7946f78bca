//! The module's section of INFO.

use super::ask::ask;
use super::guard;
use redis_module::raw;
use std::ffi::{CStr, CString, c_int};
use std::sync::OnceLock;

/// A section that is being written.
pub(crate) struct InfoReport {
    ctx: *mut raw::RedisModuleInfoCtx,
}

impl InfoReport {
    pub(crate) fn number(&self, name: &CStr, number: u64) {
        // SAFETY: here and below, the context is valid, and the server copies the texts.
        unsafe { ask!(RedisModule_InfoAddFieldULongLong(self.ctx, name.as_ptr(), number)) };
    }

    pub(crate) fn text(&self, name: &CStr, text: &str) {
        let text = CString::new(text.replace(['\0', '\r', '\n'], " ")).unwrap_or_default();
        // SAFETY: see above.
        unsafe { ask!(RedisModule_InfoAddFieldCString(self.ctx, name.as_ptr(), text.as_ptr())) };
    }
}

static WRITE: OnceLock<fn(&InfoReport)> = OnceLock::new();

/// Has `write` write the section. Whether the server takes it.
pub(crate) fn register_info(ctx: *mut raw::RedisModuleCtx, write: fn(&InfoReport)) -> bool {
    // SAFETY: the context is that of the module's loading; the function is static.
    let register = || unsafe { ask!(RedisModule_RegisterInfoFunc(ctx, Some(report))) };
    WRITE.set(write).is_ok() && register() == raw::REDISMODULE_OK as c_int
}

/// # Safety
///
/// The server calls it, with a context.
unsafe extern "C" fn report(ctx: *mut raw::RedisModuleInfoCtx, is_after_crash: c_int) {
    // A crashed server may be in the middle of anything.
    if is_after_crash != 0 {
        return;
    }
    // SAFETY: the context is valid; the section has the module's name.
    let asked = unsafe { ask!(RedisModule_InfoAddSection(ctx, c"pool".as_ptr())) };
    if asked == raw::REDISMODULE_OK as c_int
        && let Some(write) = WRITE.get()
    {
        guard((), || write(&InfoReport { ctx }));
    }
}
