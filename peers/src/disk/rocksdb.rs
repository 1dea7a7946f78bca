//! RocksDB, by its C interface: a log-structured merge tree with a log that its threads commit to in groups.

use super::{EVERY_PUT, Mode, contender};
use anyhow::{Context, Result, bail};
use bench::{Contender, DurableMap};
use std::ffi::{CStr, CString, c_char, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

unsafe extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_destroy(options: *mut c_void);
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, yes: c_uchar);
    fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_destroy(options: *mut c_void);
    fn rocksdb_writeoptions_set_sync(options: *mut c_void, yes: c_uchar);
    fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_readoptions_destroy(options: *mut c_void);
    fn rocksdb_open(
        options: *mut c_void,
        path: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_close(database: *mut c_void);
    fn rocksdb_flush_wal(database: *mut c_void, sync: c_uchar, error: *mut *mut c_char);
    fn rocksdb_write(
        database: *mut c_void,
        options: *mut c_void,
        batch: *mut c_void,
        error: *mut *mut c_char,
    );
    fn rocksdb_get(
        database: *mut c_void,
        options: *mut c_void,
        key: *const c_char,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn rocksdb_writebatch_create() -> *mut c_void;
    fn rocksdb_writebatch_destroy(batch: *mut c_void);
    fn rocksdb_writebatch_put(
        batch: *mut c_void,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
    );
    fn rocksdb_free(memory: *mut c_void);
}

/// What C made, and how it is given back.
struct Owned {
    it: NonNull<c_void>,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Owned {
    /// # Safety
    ///
    /// Nobody else frees `it`, and `free` is how to do that.
    unsafe fn new(it: *mut c_void, free: unsafe extern "C" fn(*mut c_void)) -> Result<Owned> {
        Ok(Owned { it: NonNull::new(it).context("RocksDB made nothing")?, free })
    }

    fn get(&self) -> *mut c_void {
        self.it.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: whoever made this promised that; it is not used again.
        unsafe { (self.free)(self.it.as_ptr()) }
    }
}

/// Calls C with a place for the text of an error.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut error = ptr::null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: what is not null is a C string of RocksDB's, which is the caller's to free.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: as above, and it is not used again.
    unsafe { rocksdb_free(error.cast()) };
    bail!("RocksDB: {text}")
}

struct RocksDb {
    /// Dropped before the options.
    database: Owned,
    writing: Owned,
    reading: Owned,
    _options: Owned,
}

// SAFETY: RocksDB's handles are bound to no thread.
unsafe impl Send for RocksDb {}
// SAFETY: reading, writing and flushing are safe beside each other; the options do not change after `open`.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    fn open(directory: &Path, is_durable: bool) -> Result<RocksDb> {
        let path = CString::new(directory.join("rocksdb").as_os_str().as_bytes())?;
        // SAFETY: each constructor takes nothing, and is paired with its destructor.
        let (options, writing, reading) = unsafe {
            (
                Owned::new(rocksdb_options_create(), rocksdb_options_destroy)?,
                Owned::new(rocksdb_writeoptions_create(), rocksdb_writeoptions_destroy)?,
                Owned::new(rocksdb_readoptions_create(), rocksdb_readoptions_destroy)?,
            )
        };
        // SAFETY: both are options of their kind.
        unsafe {
            rocksdb_options_set_create_if_missing(options.get(), 1);
            rocksdb_writeoptions_set_sync(writing.get(), is_durable.into());
        }
        // SAFETY: the path is a C string that outlives the call.
        let database =
            checked(|error| unsafe { rocksdb_open(options.get(), path.as_ptr(), error) })?;
        // SAFETY: the database is open, and closing is how it is freed.
        let database = unsafe { Owned::new(database, rocksdb_close)? };
        Ok(RocksDb { database, writing, reading, _options: options })
    }
}

impl DurableMap for RocksDb {
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.put_many(&[(key, value)])
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        // SAFETY: the constructor takes nothing, and is paired with its destructor.
        let batch = unsafe { Owned::new(rocksdb_writebatch_create(), rocksdb_writebatch_destroy)? };
        for (key, value) in pairs {
            let (key, value) = (key.to_be_bytes(), value.to_be_bytes());
            let (from, of) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the batch copies both arrays during the call.
            unsafe { rocksdb_writebatch_put(batch.get(), from, key.len(), of, value.len()) };
        }
        // SAFETY: all three are alive, and of their kinds.
        checked(|error| unsafe {
            rocksdb_write(self.database.get(), self.writing.get(), batch.get(), error);
        })
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let key = key.to_be_bytes();
        let mut bytes = 0;
        let (database, reading) = (self.database.get(), self.reading.get());
        // SAFETY: the key is read, and the length written, during the call.
        let found = checked(|error| unsafe {
            rocksdb_get(database, reading, key.as_ptr().cast(), key.len(), &mut bytes, error)
        })?;
        if found.is_null() {
            return Ok(None);
        }
        // SAFETY: RocksDB made a copy of so many bytes for this caller.
        let value = unsafe { std::slice::from_raw_parts(found.cast::<u8>(), bytes) }.try_into();
        // SAFETY: the copy is this caller's to free, and was read.
        unsafe { rocksdb_free(found.cast()) };
        Ok(Some(u64::from_be_bytes(value?)))
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the database is open.
        checked(|error| unsafe {
            rocksdb_flush_wal(self.database.get(), c_uchar::from(true), error)
        })
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let durable = Mode { name: "", promise: EVERY_PUT };
    let fast = Mode { name: "nosync", promise: "a prefix, but for some s" };
    let of = |mode: Mode, is_durable: bool| {
        let open = move |directory: &Path| RocksDb::open(directory, is_durable);
        contender("rocksdb", env!("VERSION_ROCKSDB"), &mode, true, open)
    };
    vec![of(durable, true), of(fast, false)]
}
