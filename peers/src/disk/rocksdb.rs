//! RocksDB, by its C interface: a log-structured merge tree with a log that its threads commit to in groups.

use super::{CACHE_BYTES, Mode, contender, fast};
use anyhow::{Context, Result, bail};
use bench::{ByteStore, Contender, Pair, See};
use std::ffi::{CStr, CString, c_char, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

unsafe extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_destroy(options: *mut c_void);
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, yes: c_uchar);
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut c_void;
    fn rocksdb_cache_destroy(cache: *mut c_void);
    fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> *mut c_void;
    fn rocksdb_block_based_options_create() -> *mut c_void;
    fn rocksdb_block_based_options_destroy(options: *mut c_void);
    fn rocksdb_block_based_options_set_block_cache(options: *mut c_void, cache: *mut c_void);
    fn rocksdb_block_based_options_set_filter_policy(options: *mut c_void, policy: *mut c_void);
    fn rocksdb_options_set_block_based_table_factory(options: *mut c_void, blocks: *mut c_void);
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
    fn rocksdb_get_pinned(
        database: *mut c_void,
        options: *mut c_void,
        key: *const c_char,
        key_bytes: usize,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_pinnableslice_value(slice: *mut c_void, bytes: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: *mut c_void);
    fn rocksdb_multi_get(
        database: *mut c_void,
        options: *mut c_void,
        count: usize,
        keys: *const *const c_char,
        key_bytes: *const usize,
        values: *mut *mut c_char,
        value_bytes: *mut usize,
        errors: *mut *mut c_char,
    );
    fn rocksdb_writebatch_create() -> *mut c_void;
    fn rocksdb_writebatch_destroy(batch: *mut c_void);
    fn rocksdb_writebatch_put(
        batch: *mut c_void,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
    );
    fn rocksdb_writebatch_delete(batch: *mut c_void, key: *const c_char, key_bytes: usize);
    fn rocksdb_free(memory: *mut c_void);
}

/// Bits of a filter per key: RocksDB has none by default, and fjall as many.
const FILTER_BITS_PER_KEY: f64 = 10.0;

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
    // SAFETY: the call has left what it was given, or a text of RocksDB's.
    unsafe { told(error) }.map(|()| result)
}

/// What an error says, if there is one.
///
/// # Safety
///
/// `error` is null, or a C string of RocksDB's that is the caller's to free and that nobody uses again.
unsafe fn told(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: what is not null is a C string, says the caller.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: it is the caller's to free, and is not used again.
    unsafe { rocksdb_free(error.cast()) };
    bail!("RocksDB: {text}")
}

/// So many bytes of C's; an empty value may lie nowhere.
///
/// # Safety
///
/// So many bytes are there, and stay while the slice is used.
unsafe fn slice_of<'a>(start: *const c_char, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { std::slice::from_raw_parts(start.cast(), bytes) }
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
        // SAFETY: as above.
        let (blocks, cache) = unsafe {
            (
                Owned::new(
                    rocksdb_block_based_options_create(),
                    rocksdb_block_based_options_destroy,
                )?,
                Owned::new(rocksdb_cache_create_lru(CACHE_BYTES), rocksdb_cache_destroy)?,
            )
        };
        // SAFETY: all are of their kinds. The table options take the filter policy for their own and share the cache;
        // the options copy what they need of them.
        unsafe {
            let filter = rocksdb_filterpolicy_create_bloom(FILTER_BITS_PER_KEY);
            rocksdb_block_based_options_set_filter_policy(blocks.get(), filter);
            rocksdb_block_based_options_set_block_cache(blocks.get(), cache.get());
            rocksdb_options_set_block_based_table_factory(options.get(), blocks.get());
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

/// Changes that are made together.
struct Batch(Owned);

impl Batch {
    fn new() -> Result<Batch> {
        // SAFETY: the constructor takes nothing, and is paired with its destructor.
        unsafe { Owned::new(rocksdb_writebatch_create(), rocksdb_writebatch_destroy) }.map(Batch)
    }

    fn put(&self, (key, value): Pair<'_>) {
        let (from, of) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the batch copies both slices during the call.
        unsafe { rocksdb_writebatch_put(self.0.get(), from, key.len(), of, value.len()) };
    }

    fn remove(&self, key: &[u8]) {
        // SAFETY: the batch copies the slice during the call.
        unsafe { rocksdb_writebatch_delete(self.0.get(), key.as_ptr().cast(), key.len()) };
    }

    fn write(&self, to: &RocksDb) -> Result<()> {
        // SAFETY: all three are alive, and of their kinds.
        checked(|error| unsafe {
            rocksdb_write(to.database.get(), to.writing.get(), self.0.get(), error);
        })
    }
}

impl ByteStore for RocksDb {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        let batch = Batch::new()?;
        pairs.iter().for_each(|pair| batch.put(*pair));
        batch.write(self)
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        let (database, reading) = (self.database.get(), self.reading.get());
        for (place, key) in keys.iter().enumerate() {
            // SAFETY: the key is read during the call.
            let found = checked(|error| unsafe {
                rocksdb_get_pinned(database, reading, key.as_ptr().cast(), key.len(), error)
            })?;
            if found.is_null() {
                see(place, None);
                continue;
            }
            // SAFETY: what is not null is this caller's, and is freed as RocksDB says.
            let slice = unsafe { Owned::new(found, rocksdb_pinnableslice_destroy)? };
            let mut bytes = 0;
            // SAFETY: the slice is alive, and the length is written during the call.
            let value = unsafe { rocksdb_pinnableslice_value(slice.get(), &mut bytes) };
            // SAFETY: the slice holds so many bytes as long as it is alive.
            see(place, Some(unsafe { slice_of(value, bytes) }));
        }
        Ok(())
    }

    fn has_get_many(&self) -> bool {
        true
    }

    fn get_many(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        let count = keys.len();
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut values = vec![ptr::null_mut(); count];
        let mut bytes = vec![0; count];
        let mut errors = vec![ptr::null_mut(); count];
        // SAFETY: all five arrays have so many elements; the keys are read, and the rest is written, during the call.
        unsafe {
            rocksdb_multi_get(
                self.database.get(),
                self.reading.get(),
                count,
                starts.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                bytes.as_mut_ptr(),
                errors.as_mut_ptr(),
            );
        }
        let mut result = Ok(());
        for (place, ((value, bytes), error)) in
            values.into_iter().zip(bytes).zip(errors).enumerate()
        {
            // SAFETY: RocksDB has written a text for this caller, or null.
            result = result.and(unsafe { told(error) });
            if value.is_null() {
                see(place, None);
                continue;
            }
            // SAFETY: RocksDB made a copy of so many bytes for this caller.
            see(place, Some(unsafe { slice_of(value, bytes) }));
            // SAFETY: the copy is this caller's to free, and was read.
            unsafe { rocksdb_free(value.cast()) };
        }
        result
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let batch = Batch::new()?;
        keys.iter().for_each(|key| batch.remove(key));
        batch.write(self)?;
        Ok(None)
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the database is open.
        checked(|error| unsafe {
            rocksdb_flush_wal(self.database.get(), c_uchar::from(true), error)
        })
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let no_sync = fast("nosync", Some("a prefix, but for some s")).keeping("every batch");
    let of = |mode: Mode, is_durable: bool| {
        let open = move |directory: &Path| RocksDb::open(directory, is_durable);
        contender("rocksdb", env!("VERSION_ROCKSDB"), mode, true, open)
    };
    vec![of(Mode::DURABLE, true), of(no_sync, false)]
}
