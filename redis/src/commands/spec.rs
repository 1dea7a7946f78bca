//! What commands say of their arguments, and of what they do with keys.

use crate::api::{Arg, ArgKind, Keys};
use redis_module::raw;
use std::ffi::CStr;

pub(super) const fn arg(name: &'static CStr, kind: ArgKind) -> Arg {
    Arg { name, kind, token: None, is_optional: false, is_multiple: false }
}

/// A word that stands for itself.
pub(super) const fn token(name: &'static CStr, token: &'static CStr) -> Arg {
    Arg { name, kind: ArgKind::Token, token: Some(token), is_optional: false, is_multiple: false }
}

/// A word with a number or a text behind it.
pub(super) const fn with_token(name: &'static CStr, token: &'static CStr, kind: ArgKind) -> Arg {
    Arg { name, kind, token: Some(token), is_optional: false, is_multiple: false }
}

pub(super) const fn optional(arg: Arg) -> Arg {
    Arg { is_optional: true, ..arg }
}

pub(super) const fn multiple(arg: Arg) -> Arg {
    Arg { is_multiple: true, ..arg }
}

pub(super) const KEY: Arg = arg(c"key", ArgKind::Key);

/// One key, the first argument.
pub(super) const fn one_key(flags: u32) -> Option<Keys> {
    Some(Keys { flags, last: 0, step: 1 })
}

pub(super) const READS: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
/// Reads that something is there, not what it is.
pub(super) const LOOKS: u32 = raw::REDISMODULE_CMD_KEY_RO;
pub(super) const OVERWRITES: u32 = raw::REDISMODULE_CMD_KEY_OW | raw::REDISMODULE_CMD_KEY_UPDATE;
pub(super) const CHANGES: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;
pub(super) const REMOVES: u32 = raw::REDISMODULE_CMD_KEY_RM | raw::REDISMODULE_CMD_KEY_DELETE;
