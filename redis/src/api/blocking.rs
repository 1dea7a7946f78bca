//! Clients that wait for a thread, while the server goes on.

use super::ask::ask;
use super::call::Call;
use super::guard;
use crate::refusal::Answer;
use redis_module::raw;
use std::ffi::{c_int, c_void};

/// What a thread has found, as a reply to the client. It is built in the server's thread.
pub(crate) type Reply = Box<dyn FnOnce(&Call<'_>) -> Answer + Send>;

/// A client that waits. It must be answered.
pub(crate) struct Blocked {
    client: *mut raw::RedisModuleBlockedClient,
}

// SAFETY: the one thing that is done with it, `RedisModule_UnblockClient`, is made for any thread.
unsafe impl Send for Blocked {}

impl Blocked {
    /// Lets the client go on, with this reply.
    pub(crate) fn answer(self, reply: Reply) {
        let reply = Box::into_raw(Box::new(Some(reply)));
        // SAFETY: the client is blocked, and this is the only answer to it. The server gives the reply back to
        // `dispose`, whether or not the client is there still.
        unsafe { ask!(RedisModule_UnblockClient(self.client, reply.cast())) };
    }
}

/// Makes the client of `call` wait.
pub(crate) fn block(call: &Call<'_>) -> Blocked {
    // SAFETY: the context is that of a command under way. The functions are static.
    let client =
        unsafe { ask!(RedisModule_BlockClient(call.ctx(), Some(reply), None, Some(dispose), 0)) };
    Blocked { client }
}

/// # Safety
///
/// The server calls it, with what was passed to `RedisModule_UnblockClient`.
unsafe extern "C" fn reply(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: it is the box of `answer`, which `dispose` frees behind this call.
    let reply = unsafe {
        ask!(RedisModule_GetBlockedClientPrivateData(ctx)).cast::<Option<Reply>>().as_mut()
    };
    // SAFETY: the context is valid, and there are no arguments.
    let call = unsafe { Call::new(ctx, &[]) };
    if let Some(reply) = reply.and_then(Option::take)
        && let Err(refusal) = super::guarded(|| reply(&call)).and_then(|answer| answer)
    {
        call.reply_error(&refusal.to_string());
    }
    raw::REDISMODULE_OK as c_int
}

/// # Safety
///
/// The server calls it, once for each answer.
unsafe extern "C" fn dispose(_ctx: *mut raw::RedisModuleCtx, reply: *mut c_void) {
    // SAFETY: it is the box of `answer`, and nobody has it any more.
    let reply = unsafe { Box::from_raw(reply.cast::<Option<Reply>>()) };
    guard((), || drop(reply));
}
