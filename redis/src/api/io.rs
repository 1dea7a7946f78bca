//! The module's part of a snapshot (RDB), written and read.

use super::ask::ask;
use super::{Server, guard};
use redis_module::raw;
use std::ffi::{CStr, c_int};
use std::slice;
use std::sync::OnceLock;

/// A snapshot that is being written.
pub(crate) struct RdbWriter {
    io: *mut raw::RedisModuleIO,
}

/// A snapshot that is being read.
pub(crate) struct RdbReader {
    io: *mut raw::RedisModuleIO,
}

/// A snapshot ended, or its connection did, in the middle.
#[derive(Debug)]
pub(crate) struct Broken;

/// What writes and reads the module's part.
pub(crate) struct SaveSide {
    pub(crate) save: fn(&mut RdbWriter),
    /// Whether it was good.
    pub(crate) load: fn(&mut RdbReader, c_int) -> bool,
}

impl RdbWriter {
    /// The server, to ask who the snapshot is for.
    pub(crate) fn server(&self) -> Server {
        // SAFETY: the snapshot is being written, so its context is there.
        unsafe { Server::new(ask!(RedisModule_GetContextFromIO(self.io))) }
    }

    pub(crate) fn number(&mut self, number: u64) {
        // SAFETY: here and below, the snapshot is being written.
        unsafe { ask!(RedisModule_SaveUnsigned(self.io, number)) };
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: see above.
        unsafe { ask!(RedisModule_SaveStringBuffer(self.io, bytes.as_ptr().cast(), bytes.len())) };
    }
}

impl RdbReader {
    fn check(&self) -> Result<(), Broken> {
        // SAFETY: the snapshot is being read.
        let is_broken = unsafe { ask!(RedisModule_IsIOError(self.io)) } != 0;
        if is_broken { Err(Broken) } else { Ok(()) }
    }

    pub(crate) fn number(&mut self) -> Result<u64, Broken> {
        // SAFETY: the snapshot is being read.
        let number = unsafe { ask!(RedisModule_LoadUnsigned(self.io)) };
        self.check().map(|()| number)
    }

    /// Lets `read` have the next bytes.
    pub(crate) fn bytes<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Broken> {
        let mut len = 0;
        // SAFETY: the snapshot is being read. The bytes are the module's to free, which it does behind their only use.
        unsafe {
            let bytes = ask!(RedisModule_LoadStringBuffer(self.io, &mut len));
            if bytes.is_null() {
                return Err(Broken);
            }
            let _freed = Freed(bytes.cast());
            self.check()?;
            Ok(read(slice::from_raw_parts(bytes.cast(), len)))
        }
    }
}

/// Memory of the server that is freed at the end, a panic included.
struct Freed(*mut std::ffi::c_void);

impl Drop for Freed {
    fn drop(&mut self) {
        // SAFETY: the server has allocated it, and nobody else frees it.
        unsafe { ask!(RedisModule_Free(self.0)) };
    }
}

static SIDE: OnceLock<SaveSide> = OnceLock::new();

/// Adds the module's part to every snapshot. Whether the server takes it.
pub(crate) fn register_type(
    ctx: *mut raw::RedisModuleCtx,
    name: &CStr,
    version: c_int,
    side: SaveSide,
) -> bool {
    if SIDE.set(side).is_err() {
        return false;
    }
    let mut methods = raw::RedisModuleTypeMethods {
        // That of Redis 7.0: it has no fields behind `copy2`.
        version: 4,
        rdb_load: Some(load_value),
        rdb_save: Some(save_value),
        aof_rewrite: None,
        mem_usage: None,
        digest: None,
        free: Some(free_value),
        aux_load: Some(load),
        aux_save: Some(save),
        aux_save_triggers: raw::REDISMODULE_AUX_BEFORE_RDB as c_int,
        free_effort: None,
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the context is that of the module's loading. The server copies the methods, which are static functions.
    unsafe {
        let handles_errors = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as c_int;
        ask!(RedisModule_SetModuleOptions(ctx, handles_errors));
        let made = ask!(RedisModule_CreateDataType(ctx, name.as_ptr(), version, &mut methods));
        !made.is_null()
    }
}

/// # Safety
///
/// The server calls it, while it writes a snapshot.
unsafe extern "C" fn save(io: *mut raw::RedisModuleIO, _when: c_int) {
    if let Some(side) = SIDE.get() {
        guard((), || (side.save)(&mut RdbWriter { io }));
    }
}

/// # Safety
///
/// The server calls it, while it reads a snapshot.
unsafe extern "C" fn load(io: *mut raw::RedisModuleIO, version: c_int, _when: c_int) -> c_int {
    let is_good = match SIDE.get() {
        Some(side) => guard(false, || (side.load)(&mut RdbReader { io }, version)),
        None => false,
    };
    if is_good { raw::REDISMODULE_OK as c_int } else { raw::REDISMODULE_ERR as c_int }
}

/// No key of the server has a value of this type.
///
/// # Safety
///
/// None is needed.
unsafe extern "C" fn load_value(
    _io: *mut raw::RedisModuleIO,
    _version: c_int,
) -> *mut std::ffi::c_void {
    std::ptr::null_mut()
}

/// As above.
///
/// # Safety
///
/// None is needed.
unsafe extern "C" fn save_value(_io: *mut raw::RedisModuleIO, _value: *mut std::ffi::c_void) {}

/// As above.
///
/// # Safety
///
/// None is needed.
unsafe extern "C" fn free_value(_value: *mut std::ffi::c_void) {}
