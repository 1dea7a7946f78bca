//! Calls at a later time, from the server's own loop.

use super::ask::ask;
use super::{Server, guard};
use redis_module::raw;
use std::ffi::c_void;

/// Calls `run` in so many milliseconds.
pub(crate) fn in_ms(server: Server, ms: u32, run: fn(Server)) {
    // SAFETY: the context is valid. What is passed along is a function's address, which `fire` takes as such.
    unsafe { ask!(RedisModule_CreateTimer(server.ctx, ms.into(), Some(fire), run as *mut c_void)) };
}

/// Calls `run` before the server looks for clients again.
pub(crate) fn soon(server: Server, run: fn(Server)) {
    in_ms(server, 0, run);
}

/// # Safety
///
/// The server calls it, with a context and the address of a function `fn(Server)`.
unsafe extern "C" fn fire(ctx: *mut raw::RedisModuleCtx, run: *mut c_void) {
    // SAFETY: `in_ms` has passed a function of this type.
    let run: fn(Server) = unsafe { std::mem::transmute(run) };
    guard((), || run(Server { ctx }));
}
