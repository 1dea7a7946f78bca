//! Commands, as the server is told of them: flags, keys, categories, and what COMMAND DOCS shows.

use super::ask::ask;
use super::call::Call;
use super::guarded;
use crate::refusal::{Answer, Refusal};
use redis_module::raw;
use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};
use std::slice;

/// A command of the module.
pub(crate) trait Command {
    const SPEC: Spec;

    /// Carries the command out, and replies; or says why not, in which case it has not replied.
    fn run(call: &Call<'_>) -> Answer;
}

/// What the server knows of a command.
pub(crate) struct Spec {
    pub(crate) name: &'static CStr,
    pub(crate) summary: &'static CStr,
    pub(crate) complexity: &'static CStr,
    /// How many arguments, with the name; at least so many, if negative.
    pub(crate) arity: c_int,
    /// As `RedisModule_CreateCommand` takes them.
    pub(crate) flags: &'static CStr,
    /// For servers that let modules say so; older ones put no command of a module in a category.
    pub(crate) categories: &'static CStr,
    pub(crate) keys: Option<Keys>,
    pub(crate) args: &'static [Arg],
}

/// Which arguments are keys, and what becomes of them.
pub(crate) struct Keys {
    /// `REDISMODULE_CMD_KEY_…`.
    pub(crate) flags: u32,
    /// From the first argument on: 0 is the first alone, -1 all of them.
    pub(crate) last: c_int,
    pub(crate) step: c_int,
}

/// An argument in COMMAND DOCS.
pub(crate) struct Arg {
    pub(crate) name: &'static CStr,
    pub(crate) kind: ArgKind,
    pub(crate) token: Option<&'static CStr>,
    pub(crate) is_optional: bool,
    pub(crate) is_multiple: bool,
}

/// What an argument is.
pub(crate) enum ArgKind {
    Key,
    String,
    Integer,
    Pattern,
    Token,
    /// One of these.
    OneOf(&'static [Arg]),
    /// These in a row.
    Block(&'static [Arg]),
}

const VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Runs a command for the server.
///
/// # Safety
///
/// The server calls it, with a context and `argc` strings.
unsafe extern "C" fn run<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: as this function's.
    let call = unsafe {
        let args = slice::from_raw_parts(argv, usize::try_from(argc).unwrap_or(0));
        Call::new(ctx, args)
    };
    match guarded(|| C::run(&call)).and_then(|answer| answer) {
        Ok(()) => {}
        Err(Refusal::Arity) => return call.reply_wrong_arity(),
        Err(refusal) => call.reply_error(&refusal.to_string()),
    }
    raw::REDISMODULE_OK as c_int
}

/// Makes `C` a command of the server. Whether that took it.
pub(crate) fn register<C: Command>(ctx: *mut raw::RedisModuleCtx) -> bool {
    let spec = const { &C::SPEC };
    let is_ok = |result: c_int| result == raw::REDISMODULE_OK as c_int;
    let (last, step) = match &spec.keys {
        None => (0, 0),
        Some(keys) => (if keys.last < 0 { keys.last } else { 1 + keys.last }, keys.step),
    };
    let first = c_int::from(spec.keys.is_some());
    let name = spec.name.as_ptr();
    // SAFETY: the context is the one of the module's loading. All texts are static, and the server copies the rest.
    unsafe {
        let flags = spec.flags.as_ptr();
        let handler = Some(run::<C> as unsafe extern "C" fn(_, _, _) -> _);
        if !is_ok(ask!(RedisModule_CreateCommand(ctx, name, handler, flags, first, last, step))) {
            return false;
        }
        let command = ask!(RedisModule_GetCommand(ctx, name));
        if command.is_null() {
            return false;
        }
        let mut key_specs = Vec::new();
        if let Some(keys) = &spec.keys {
            key_specs.push(key_spec(keys));
            // An empty one ends the list.
            key_specs.push(std::mem::zeroed());
        }
        // The server copies all of it; what `args` has beneath stays, once for each command.
        let mut args = arguments(spec.args);
        let info = raw::RedisModuleCommandInfo {
            version: &VERSION,
            summary: spec.summary.as_ptr(),
            complexity: spec.complexity.as_ptr(),
            since: c"0.1.0".as_ptr(),
            history: null_mut(),
            tips: null(),
            arity: spec.arity,
            key_specs: if key_specs.is_empty() { null_mut() } else { key_specs.as_mut_ptr() },
            args: if spec.args.is_empty() { null_mut() } else { args.as_mut_ptr() },
        };
        if !is_ok(ask!(RedisModule_SetCommandInfo(command, &info))) {
            return false;
        }
        match raw::RedisModule_SetCommandACLCategories {
            Some(set) => is_ok(set(command, spec.categories.as_ptr())),
            None => true,
        }
    }
}

fn key_spec(keys: &Keys) -> raw::RedisModuleCommandKeySpec {
    // SAFETY: the structure is one of C's, for which zeros are a value.
    let mut spec: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    spec.flags = keys.flags.into();
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = 1;
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range.lastkey = keys.last;
    spec.fk.range.keystep = keys.step;
    spec
}

/// The server's form of these arguments, with an empty one at the end.
fn arguments(args: &'static [Arg]) -> Vec<raw::RedisModuleCommandArg> {
    use raw::*;
    let mut all: Vec<RedisModuleCommandArg> = args
        .iter()
        .map(|arg| {
            let (type_, inner) = match &arg.kind {
                ArgKind::Key => (RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, None),
                ArgKind::String => (RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, None),
                ArgKind::Integer => (RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, None),
                ArgKind::Pattern => (RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PATTERN, None),
                ArgKind::Token => (RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, None),
                ArgKind::OneOf(inner) => {
                    (RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, Some(*inner))
                }
                ArgKind::Block(inner) => {
                    (RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, Some(*inner))
                }
            };
            let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
            let flags = flag(arg.is_optional, REDISMODULE_CMD_ARG_OPTIONAL)
                | flag(arg.is_multiple, REDISMODULE_CMD_ARG_MULTIPLE);
            RedisModuleCommandArg {
                name: arg.name.as_ptr(),
                type_,
                key_spec_index: if matches!(arg.kind, ArgKind::Key) { 0 } else { -1 },
                token: arg.token.map_or(null(), CStr::as_ptr),
                summary: null(),
                since: null(),
                flags: flags as c_int,
                deprecated_since: null(),
                subargs: inner.map_or(null_mut(), |inner| arguments(inner).leak().as_mut_ptr()),
                display_text: null(),
            }
        })
        .collect();
    // SAFETY: the structure is one of C's, for which zeros are a value.
    all.push(unsafe { std::mem::zeroed() });
    all
}
