//! The server around the module: its log, its clock, its events, and commands of its own.

use super::ask::ask;
use redis_module::raw;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Ends a child that writes a snapshot, as one that has failed. Nothing of what it has inherited is closed: that is the
/// parent's.
pub(crate) fn end_child() -> ! {
    // SAFETY: it ends the process.
    unsafe { libc::_exit(1) }
}

/// What the server tells of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It begins to load its own snapshot or append-only file.
    LoadsItsOwn,
    /// It begins to load what its master sends.
    LoadsItsMasters,
    Loaded,
    LoadFailed,
    IsMaster,
    IsReplica,
    /// It is about to end in order.
    Ends,
}

/// The server, from where no command is under way.
#[derive(Clone, Copy)]
pub(crate) struct Server {
    pub(super) ctx: *mut raw::RedisModuleCtx,
}

impl Server {
    /// # Safety
    ///
    /// `ctx` is the server's, and valid as long as this is used.
    pub(crate) unsafe fn new(ctx: *mut raw::RedisModuleCtx) -> Server {
        Server { ctx }
    }

    fn flags(self) -> u32 {
        // SAFETY: the context is valid.
        unsafe { ask!(RedisModule_GetContextFlags(self.ctx)) as u32 }
    }

    pub(crate) fn is_master(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_MASTER != 0
    }

    pub(crate) fn is_cluster(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
    }

    /// Whether nothing may be replicated now, since a failover waits for replicas to catch up.
    pub(crate) fn must_be_silent(self) -> bool {
        // SAFETY: it only reads the server's state.
        unsafe { ask!(RedisModule_AvoidReplicaTraffic()) != 0 }
    }

    /// Sends an effect to replicas.
    pub(crate) fn replicate(self, command: &'static CStr, args: [&[u8]; 3]) {
        replicate(self.ctx, command, args);
    }

    /// As [`Call::signal_changed`](super::Call::signal_changed).
    pub(crate) fn signal_changed(self, key: &[u8]) {
        // SAFETY: the context is valid, and the string is freed behind its only use.
        unsafe {
            let key = ask!(RedisModule_CreateString(self.ctx, key.as_ptr().cast(), key.len()));
            ask!(RedisModule_SignalModifiedKey(self.ctx, key));
            ask!(RedisModule_FreeString(self.ctx, key));
        }
    }

    /// Calls a command with these arguments; the error that it answers, if it does.
    pub(crate) fn command(self, name: &CStr, args: &[&str]) -> Result<(), String> {
        // SAFETY: the context is valid. The strings are the server's own, and freed behind their only use; so is the
        // reply.
        unsafe {
            let mut strings: Vec<_> = args
                .iter()
                .map(|arg| ask!(RedisModule_CreateString(self.ctx, arg.as_ptr().cast(), arg.len())))
                .collect();
            let reply = ask!(RedisModule_Call(
                self.ctx,
                name.as_ptr(),
                c"vE".as_ptr(),
                strings.as_mut_ptr(),
                strings.len(),
            ));
            strings.iter().for_each(|&string| ask!(RedisModule_FreeString(self.ctx, string)));
            if reply.is_null() {
                return Err("no reply".into());
            }
            let result = match ask!(RedisModule_CallReplyType(reply)) {
                kind if kind == raw::REDISMODULE_REPLY_ERROR as c_int => {
                    let mut len = 0;
                    let text = ask!(RedisModule_CallReplyStringPtr(reply, &mut len));
                    let text = std::slice::from_raw_parts(text.cast::<u8>(), len);
                    Err(String::from_utf8_lossy(text).into_owned())
                }
                _ => Ok(()),
            };
            ask!(RedisModule_FreeCallReply(reply));
            result
        }
    }

    /// A field of a section of INFO.
    pub(crate) fn info(self, section: &CStr, field: &CStr) -> Option<String> {
        // SAFETY: the context is valid; the text is the section's, and copied before that is freed.
        unsafe {
            let info = ask!(RedisModule_GetServerInfo(self.ctx, section.as_ptr()));
            let text = ask!(RedisModule_ServerInfoGetFieldC(info, field.as_ptr()));
            let text =
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
            ask!(RedisModule_FreeServerInfo(self.ctx, info));
            text
        }
    }

    /// Has `tell` told of events. Whether the server does.
    pub(crate) fn subscribe(self, tell: fn(Server, Event)) -> bool {
        TELL.set(tell).is_ok()
            && [
                raw::REDISMODULE_EVENT_LOADING,
                raw::REDISMODULE_EVENT_SHUTDOWN,
                raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            ]
            .into_iter()
            .all(|id| {
                let event = raw::RedisModuleEvent { id, dataver: 1 };
                // SAFETY: the context is that of the module's loading, and the function is static.
                let result = unsafe {
                    ask!(RedisModule_SubscribeToServerEvent(self.ctx, event, Some(told)))
                };
                result == raw::REDISMODULE_OK as c_int
            })
    }
}

static TELL: std::sync::OnceLock<fn(Server, Event)> = std::sync::OnceLock::new();

/// # Safety
///
/// The server calls it, with a context.
unsafe extern "C" fn told(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    which: u64,
    _data: *mut c_void,
) {
    use raw::*;
    let event = match (event.id, which) {
        (REDISMODULE_EVENT_LOADING, REDISMODULE_SUBEVENT_LOADING_RDB_START)
        | (REDISMODULE_EVENT_LOADING, REDISMODULE_SUBEVENT_LOADING_AOF_START) => Event::LoadsItsOwn,
        (REDISMODULE_EVENT_LOADING, REDISMODULE_SUBEVENT_LOADING_REPL_START) => {
            Event::LoadsItsMasters
        }
        (REDISMODULE_EVENT_LOADING, REDISMODULE_SUBEVENT_LOADING_ENDED) => Event::Loaded,
        (REDISMODULE_EVENT_LOADING, REDISMODULE_SUBEVENT_LOADING_FAILED) => Event::LoadFailed,
        (
            REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER,
        ) => Event::IsMaster,
        (
            REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA,
        ) => Event::IsReplica,
        (REDISMODULE_EVENT_SHUTDOWN, _) => Event::Ends,
        _ => return,
    };
    if let Some(tell) = TELL.get() {
        super::guard((), || tell(Server { ctx }, event));
    }
}

/// Asks the server for its functions. Whether it has them.
///
/// # Safety
///
/// `ctx` is the one of the module's loading. Nothing may be allocated before: the allocator is the server's.
pub(crate) unsafe fn initialize(ctx: *mut raw::RedisModuleCtx, name: &CStr) -> bool {
    let version = 1;
    // SAFETY: as this function's.
    let result = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            name.as_ptr(),
            version,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    result == raw::REDISMODULE_OK as c_int
}

/// Sends an effect to replicas. Never to the append-only file: the pool has it already.
fn replicate(ctx: *mut raw::RedisModuleCtx, command: &'static CStr, args: [&[u8]; 3]) {
    let [first, second, third] = args.map(|arg| (arg.as_ptr().cast::<c_char>(), arg.len()));
    // SAFETY: the format announces three buffers, each as address and length. `A` keeps it out of the append-only file.
    unsafe {
        ask!(RedisModule_Replicate(
            ctx,
            command.as_ptr(),
            c"Abbb".as_ptr(),
            first.0,
            first.1,
            second.0,
            second.1,
            third.0,
            third.1,
        ))
    };
}
