//! A command under way: its arguments, its replies, its effects.

use super::Server;
use super::ask::ask;
use crate::refusal::{Answer, Refusal};
use redis_module::raw;
use std::ffi::{CStr, CString, c_char, c_int, c_longlong};
use std::slice;

/// A command that a client has sent.
pub(crate) struct Call<'a> {
    ctx: *mut raw::RedisModuleCtx,
    args: &'a [*mut raw::RedisModuleString],
}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// `ctx` is the server's, and `args` are its strings, both valid for `'a`.
    pub(super) unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        args: &'a [*mut raw::RedisModuleString],
    ) -> Self {
        Call { ctx, args }
    }

    pub(super) fn ctx(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// The server, for what is no matter of this one command.
    pub(crate) fn server(&self) -> Server {
        // SAFETY: the context is valid as long as the command runs.
        unsafe { Server::new(self.ctx) }
    }

    /// How many arguments there are; the command's name is the first.
    pub(crate) fn len(&self) -> usize {
        self.args.len()
    }

    /// The argument at `index`; empty beyond the last.
    pub(crate) fn arg(&self, index: usize) -> &'a [u8] {
        let Some(&string) = self.args.get(index) else { return &[] };
        let mut len = 0;
        // SAFETY: the string is the server's, and stays as it is while the command runs.
        unsafe {
            let bytes = ask!(RedisModule_StringPtrLen(string, &mut len));
            slice::from_raw_parts(bytes.cast(), len)
        }
    }

    /// The arguments behind the name, if they are so many.
    pub(crate) fn exactly<const N: usize>(&self) -> Answer<[&'a [u8]; N]> {
        if self.len() != 1 + N {
            return Err(Refusal::Arity);
        }
        Ok(std::array::from_fn(|index| self.arg(1 + index)))
    }

    /// The arguments from `index` on.
    pub(crate) fn args_from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> {
        (index.min(self.len())..self.len()).map(|index| self.arg(index))
    }

    /// What the server says of this call: `REDISMODULE_CTX_FLAGS_…`.
    fn flags(&self) -> u32 {
        // SAFETY: the context is valid.
        unsafe { ask!(RedisModule_GetContextFlags(self.ctx)) as u32 }
    }

    /// Whether the command comes from this server's master.
    pub(crate) fn is_replicated(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_REPLICATED != 0
    }

    /// Whether the client can be made to wait.
    pub(crate) fn may_wait(&self) -> bool {
        let hinders = raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
        self.flags() & hinders == 0
    }

    /// Tells watching and tracking clients that the key of the argument at `index` has changed.
    pub(crate) fn signal_changed(&self, index: usize) {
        if let Some(&string) = self.args.get(index) {
            // SAFETY: context and string are valid.
            unsafe { ask!(RedisModule_SignalModifiedKey(self.ctx, string)) };
        }
    }

    pub(crate) fn reply_null(&self) {
        // SAFETY: here and below, the context is valid, and so is what is passed by address.
        unsafe { ask!(RedisModule_ReplyWithNull(self.ctx)) };
    }

    pub(crate) fn reply_ok(&self) {
        self.reply_simple(c"OK");
    }

    fn reply_simple(&self, text: &CStr) {
        // SAFETY: see above.
        unsafe { ask!(RedisModule_ReplyWithSimpleString(self.ctx, text.as_ptr())) };
    }

    pub(crate) fn reply_integer(&self, number: i64) {
        // SAFETY: see above.
        unsafe { ask!(RedisModule_ReplyWithLongLong(self.ctx, number as c_longlong)) };
    }

    pub(crate) fn reply_bytes(&self, bytes: &[u8]) {
        let (start, len) = (bytes.as_ptr().cast::<c_char>(), bytes.len());
        // SAFETY: see above; the server copies the bytes.
        unsafe { ask!(RedisModule_ReplyWithStringBuffer(self.ctx, start, len)) };
    }

    pub(crate) fn reply_maybe(&self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.reply_bytes(bytes),
            None => self.reply_null(),
        }
    }

    /// The head of an array of so many replies.
    pub(crate) fn reply_array(&self, len: usize) {
        // SAFETY: see above.
        unsafe { ask!(RedisModule_ReplyWithArray(self.ctx, len as _)) };
    }

    /// The head of a map of so many pairs; in RESP2 an array of twice as many.
    pub(crate) fn reply_map(&self, len: usize) {
        // SAFETY: see above.
        unsafe { ask!(RedisModule_ReplyWithMap(self.ctx, len as _)) };
    }

    pub(crate) fn reply_error(&self, text: &str) {
        let text = CString::new(text.replace(['\0', '\r', '\n'], " ")).unwrap_or_default();
        // SAFETY: see above.
        unsafe { ask!(RedisModule_ReplyWithError(self.ctx, text.as_ptr())) };
    }

    pub(crate) fn reply_wrong_arity(&self) -> c_int {
        // SAFETY: see above.
        unsafe { ask!(RedisModule_WrongArity(self.ctx)) }
    }
}

/// Copies of the module's arguments.
///
/// # Safety
///
/// `ctx` is the one of the module's loading, and `argv` has `argc` strings.
pub(crate) unsafe fn arguments(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> Vec<Vec<u8>> {
    let count = usize::try_from(argc).unwrap_or(0);
    if count == 0 {
        return Vec::new();
    }
    // SAFETY: as this function's.
    let call = unsafe { Call::new(ctx, std::slice::from_raw_parts(argv, count)) };
    call.args_from(0).map(<[u8]>::to_vec).collect()
}
