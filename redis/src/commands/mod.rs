//! The commands.

mod admin;
mod counts;
mod ends;
mod handover;
mod many;
mod replicated;
mod scan;
mod set;
mod single;

use crate::api::{Arg, ArgKind, Keys, register};
use redis_module::raw;
use std::ffi::CStr;

/// Makes all commands the server's. Whether it took them.
pub(crate) fn register_all(ctx: *mut raw::RedisModuleCtx) -> bool {
    register::<single::Get>(ctx)
        && register::<single::GetDel>(ctx)
        && register::<single::Cas>(ctx)
        && register::<set::Set>(ctx)
        && register::<counts::IncrBy>(ctx)
        && register::<many::Del>(ctx)
        && register::<many::Exists>(ctx)
        && register::<many::MGet>(ctx)
        && register::<many::MSet>(ctx)
        && register::<ends::Expire>(ctx)
        && register::<ends::Ttl>(ctx)
        && register::<scan::Scan>(ctx)
        && register::<admin::Len>(ctx)
        && register::<admin::Info>(ctx)
        && register::<admin::Sync>(ctx)
        && register::<admin::Check>(ctx)
        && register::<handover::Handover>(ctx)
        && register::<replicated::Slots>(ctx)
        && register::<replicated::Put>(ctx)
        && register::<replicated::Remove>(ctx)
}

const fn arg(name: &'static CStr, kind: ArgKind) -> Arg {
    Arg { name, kind, token: None, is_optional: false, is_multiple: false }
}

/// A word that stands for itself.
const fn token(name: &'static CStr, token: &'static CStr) -> Arg {
    Arg { name, kind: ArgKind::Token, token: Some(token), is_optional: false, is_multiple: false }
}

/// A word with a number or a text behind it.
const fn with_token(name: &'static CStr, token: &'static CStr, kind: ArgKind) -> Arg {
    Arg { name, kind, token: Some(token), is_optional: false, is_multiple: false }
}

const fn optional(arg: Arg) -> Arg {
    Arg { is_optional: true, ..arg }
}

const fn multiple(arg: Arg) -> Arg {
    Arg { is_multiple: true, ..arg }
}

const KEY: Arg = arg(c"key", ArgKind::Key);

/// One key, the first argument.
const fn one_key(flags: u32) -> Option<Keys> {
    Some(Keys { flags, last: 0, step: 1 })
}

const READS: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
/// Reads that something is there, not what it is.
const LOOKS: u32 = raw::REDISMODULE_CMD_KEY_RO;
const OVERWRITES: u32 = raw::REDISMODULE_CMD_KEY_OW | raw::REDISMODULE_CMD_KEY_UPDATE;
const CHANGES: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;
const REMOVES: u32 = raw::REDISMODULE_CMD_KEY_RM | raw::REDISMODULE_CMD_KEY_DELETE;
