//! Byte strings: `firndex_store`.

use crate::batch::{codes_out, tell_batch};
use crate::call::{array, array_out, bytes, call, out, out_if};
use crate::code::Code;
use crate::failure::{Failure, Outcome};
use crate::handle::Kind;
use crate::lent::{self, check_room, keep_value};
use crate::options::COptions;
use crate::pool::{self, CCopied, CStats, Mode, pool_functions};
use crate::pools::Visit;
use firndex::{Options, Record, Store};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

/// Mirrors `firndex_store`, of which there is only the name.
#[derive(Debug)]
#[repr(C)]
pub struct StoreHandle([u8; 0]);

/// Mirrors `firndex_store_iterator`, of which there is only the name.
#[derive(Debug)]
#[repr(C)]
pub struct StoreIteratorHandle([u8; 0]);

/// Mirrors `firndex_bytes`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CBytes {
    pub(crate) data: *const u8,
    pub(crate) size: usize,
}

/// Mirrors `firndex_pair`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CPair {
    pub(crate) key: CBytes,
    pub(crate) value: CBytes,
}

/// Mirrors `firndex_value`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CValue {
    pub(crate) data: *const u8,
    pub(crate) size: usize,
    pub(crate) hold: u64,
}

const NO_VALUE: CValue = CValue { data: ptr::null(), size: 0, hold: 0 };

pool_functions!(
    Store,
    StoreHandle,
    [
        firndex_store_open,
        firndex_store_in_memory,
        firndex_store_close,
        firndex_store_len,
        firndex_store_sync,
        firndex_store_commit,
        firndex_store_shrink,
        firndex_store_check,
        firndex_store_role,
        firndex_store_was_reset,
        firndex_store_stats,
        firndex_store_backup
    ],
    create_store,
    open_store,
    open_or_create_store,
    in_memory_store
);

#[inline(always)]
fn visit(store: *mut StoreHandle) -> Result<Visit<Store>, Failure> {
    Visit::begin(store.addr() as u64)
}

/// A key. Each function that looks one up has a type of its own for it, so that the compiler makes a look-up for it
/// alone, and compiles that into it. A call of one, with a result in memory, takes longer than all checks of arguments.
struct Key<'a, const FUNCTION: u8>(&'a [u8]);

impl<const FUNCTION: u8> AsRef<[u8]> for Key<'_, FUNCTION> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

/// Holds a value for the caller.
#[inline(always)]
fn lend(store: &Visit<Store>, record: Record<'_>) -> Result<CValue, Failure> {
    let (data, size) = (record.as_ptr(), record.len());
    Ok(CValue { data, size, hold: keep_value(store, record)? })
}

/// Where a change is to tell the value that it found, and room to hold that.
///
/// # Safety
///
/// As for [`out_if`].
unsafe fn former<'a>(former: *mut CValue) -> Result<Option<&'a mut MaybeUninit<CValue>>, Failure> {
    // SAFETY: the caller vouches for it.
    let former = unsafe { out_if(former, "former") }?;
    let Some(former) = former else { return Ok(None) };
    former.write(NO_VALUE);
    // A change that was made should not fail afterwards.
    check_room(1)?;
    Ok(Some(former))
}

/// Tells what a change has found, and returns one of two codes.
fn tell(
    store: &Visit<Store>,
    found: Option<Record<'_>>,
    former: Option<&mut MaybeUninit<CValue>>,
    (if_there, if_absent): (Code, Code),
) -> Outcome {
    let Some(record) = found else { return Ok(if_absent) };
    if let Some(former) = former {
        former.write(lend(store, record)?);
    }
    Ok(if_there)
}

/// Copies the value of a key.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_get(
    store: *mut StoreHandle,
    key: *const u8,
    key_size: usize,
    buffer: *mut u8,
    buffer_size: usize,
    value_size: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (key, value_size) =
            unsafe { (bytes(key, key_size, "key")?, out(value_size, "value_size")?) };
        if buffer.is_null() && buffer_size != 0 {
            return Err(Failure::argument(format!(
                "`buffer` is NULL, expected the address of {buffer_size} bytes; pass that, or the size 0"
            )));
        }
        let store = visit(store)?;
        let Some(record) = store.get(Key::<0>(key))? else { return Ok(Code::Absent) };
        let size = record.len();
        value_size.write(size);
        if size > buffer_size {
            return Err(too_small(size, buffer_size));
        }
        if size != 0 {
            // SAFETY: the buffer is not NULL, since it is no smaller than the value, which has bytes; the caller
            // vouches for the buffer, and the record keeps the value in place. They do not overlap: nobody has a
            // mutable reference into a pool.
            unsafe { ptr::copy_nonoverlapping(record.as_ptr(), buffer, size) };
        }
        Ok(Code::Ok)
    })
}

#[cold]
fn too_small(size: usize, buffer_size: usize) -> Failure {
    let message = format!(
        "the value has {size} bytes, and the buffer {buffer_size}: pass one that is large enough, or read the value in \
         place with `firndex_store_get_value`"
    );
    Failure::new(Code::TooSmall, message)
}

/// Lends the value of a key.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_get_value(
    store: *mut StoreHandle,
    key: *const u8,
    key_size: usize,
    value: *mut CValue,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (value, key) = unsafe { (out(value, "value")?, bytes(key, key_size, "key")?) };
        value.write(NO_VALUE);
        let store = visit(store)?;
        let found = store.get(Key::<1>(key))?;
        tell(&store, found, Some(value), (Code::Ok, Code::Absent))
    })
}

/// Releases a value.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_value_release(value: *mut CValue) -> c_int {
    // SAFETY: the caller vouches for the argument.
    call(|| unsafe { release(value) })
}

/// Releases an array of values.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_values_release(values: *mut CValue, count: usize) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the array.
        unsafe { array_out(values, count, "values") }?;
        let mut outcome = Ok(Code::Ok);
        for at in 0..count {
            // SAFETY: the caller vouches for the array.
            let released = unsafe { release(values.add(at)) };
            outcome = outcome.and(released);
        }
        outcome
    })
}

/// # Safety
///
/// If `value` is not NULL, and aligned, it is one that firndex has written, and nobody else uses it meanwhile.
unsafe fn release(value: *mut CValue) -> Outcome {
    // SAFETY: the caller vouches for it.
    let place = unsafe { out_if(value, "value") }?;
    let Some(place) = place else { return Ok(Code::Ok) };
    // SAFETY: the caller vouches for a value that firndex has written.
    let CValue { hold, .. } = unsafe { place.assume_init_read() };
    if hold == 0 {
        return Ok(Code::Ok);
    }
    lent::release(hold, Kind::Value)?;
    // The number stays, so that a second release is told from that of no value.
    place.write(CValue { hold, ..NO_VALUE });
    Ok(Code::Ok)
}

/// Tells whether a key is present.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_contains(
    store: *mut StoreHandle,
    key: *const u8,
    key_size: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the key.
        let key = unsafe { bytes(key, key_size, "key") }?;
        Ok(if visit(store)?.contains_key(Key::<2>(key))? { Code::Ok } else { Code::Absent })
    })
}

/// The functions that take a pair and tell the value that they found.
macro_rules! changes {
    ($($(#[$doc:meta])+ $name:ident: $change:ident, $if_there:ident, $if_absent:ident;)+) => {$(
        $(#[$doc])+
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            store: *mut StoreHandle,
            key: *const u8,
            key_size: usize,
            value: *const u8,
            value_size: usize,
            former: *mut CValue,
        ) -> c_int {
            call(|| {
                // SAFETY: the caller vouches for the arguments.
                let (former, key, value) = unsafe {
                    (self::former(former)?, bytes(key, key_size, "key")?, bytes(value, value_size, "value")?)
                };
                let store = visit(store)?;
                let found = store.$change(key, value)?;
                tell(&store, found, former, (Code::$if_there, Code::$if_absent))
            })
        }
    )+};
}

changes! {
    /// Stores a pair.
    firndex_store_put: put, Ok, Ok;
    /// Stores a pair if the key is absent.
    firndex_store_insert: insert, Present, Ok;
    /// Replaces the value if the key is present.
    firndex_store_update: update, Ok, Absent;
}

/// Removes a key.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_remove(
    store: *mut StoreHandle,
    key: *const u8,
    key_size: usize,
    former: *mut CValue,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (former, key) = unsafe { (self::former(former)?, bytes(key, key_size, "key")?) };
        let store = visit(store)?;
        let found = store.remove(key)?;
        tell(&store, found, former, (Code::Ok, Code::Absent))
    })
}

/// The state of a key: NULL is absence.
///
/// # Safety
///
/// If `state` is not NULL, and aligned, it can be read, as can the bytes that it names, and nobody writes to them while
/// the result is used.
unsafe fn state<'a>(state: *const CBytes, what: &str) -> Result<Option<&'a [u8]>, Failure> {
    if state.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches for it.
    let CBytes { data, size } = unsafe { array(state, 1, what) }?[0];
    // SAFETY: the caller vouches for the bytes.
    unsafe { bytes(data, size, what) }.map(Some)
}

/// Changes the state of a key from one to another.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_compare_exchange(
    store: *mut StoreHandle,
    key: *const u8,
    key_size: usize,
    expected: *const CBytes,
    desired: *const CBytes,
    found: *mut CValue,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (found, key, expected, desired) = unsafe {
            (
                former(found)?,
                bytes(key, key_size, "key")?,
                state(expected, "expected")?,
                state(desired, "desired")?,
            )
        };
        let store = visit(store)?;
        match store.compare_exchange(key, expected, desired)? {
            Ok(()) => Ok(Code::Ok),
            Err(other) => tell(&store, other, found, (Code::Different, Code::Different)),
        }
    })
}

/// The caller's array of keys.
///
/// # Safety
///
/// As for [`array`], and the bytes that each key names can be read, too.
unsafe fn keys<'a>(keys: *const CBytes, count: usize) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: the caller vouches for the array.
    let keys = unsafe { array(keys, count, "keys") }?;
    // SAFETY: the caller vouches for the bytes.
    keys.iter().map(|key| unsafe { bytes(key.data, key.size, "keys[].data") }).collect()
}

/// Lends the values of many keys.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_get_many(
    store: *mut StoreHandle,
    keys: *const CBytes,
    count: usize,
    values: *mut CValue,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let values = unsafe { array_out(values, count, "values") }?;
        values.iter_mut().for_each(|value| {
            value.write(NO_VALUE);
        });
        // SAFETY: the caller vouches for the arguments.
        let keys = unsafe { self::keys(keys, count) }?;
        check_room(count)?;
        let store = visit(store)?;
        for (value, found) in values.iter_mut().zip(store.get_many(&keys)?) {
            tell(&store, found, Some(value), (Code::Ok, Code::Absent))?;
        }
        Ok(Code::Ok)
    })
}

type KeyAndValue<'a> = (&'a [u8], &'a [u8]);

/// The caller's array of pairs.
///
/// # Safety
///
/// As for [`array`], and the bytes that each pair names can be read, too.
unsafe fn pairs<'a>(pairs: *const CPair, count: usize) -> Result<Vec<KeyAndValue<'a>>, Failure> {
    // SAFETY: the caller vouches for the array.
    let pairs = unsafe { array(pairs, count, "pairs") }?;
    let of = |pair: &CPair| {
        let CPair { key, value } = pair;
        // SAFETY: the caller vouches for the bytes.
        let key = unsafe { bytes(key.data, key.size, "pairs[].key.data") }?;
        // SAFETY: the caller vouches for the bytes.
        let value = unsafe { bytes(value.data, value.size, "pairs[].value.data") }?;
        Ok((key, value))
    };
    pairs.iter().map(of).collect()
}

/// The functions that take many pairs.
macro_rules! batches {
    ($($(#[$doc:meta])+ $name:ident: $change:ident, $if_there:ident, $if_absent:ident;)+) => {$(
        $(#[$doc])+
        ///
        /// # Safety
        ///
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            store: *mut StoreHandle,
            pairs: *const CPair,
            count: usize,
            codes: *mut c_int,
        ) -> c_int {
            call(|| {
                // SAFETY: the caller vouches for the arrays.
                let (codes, pairs) = unsafe { (codes_out(codes, count)?, self::pairs(pairs, count)?) };
                let store = visit(store)?;
                let outcome = store.$change(&pairs);
                tell_batch(codes, outcome, (Code::$if_there, Code::$if_absent))
            })
        }
    )+};
}

batches! {
    /// Stores many pairs.
    firndex_store_put_many: put_many, Ok, Ok;
    /// Stores many pairs whose keys are absent.
    firndex_store_insert_many: insert_many, Present, Ok;
    /// Replaces the values of many keys that are present.
    firndex_store_update_many: update_many, Ok, Absent;
}

/// Removes many keys.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_remove_many(
    store: *mut StoreHandle,
    keys: *const CBytes,
    count: usize,
    codes: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (codes, keys) = unsafe { (codes_out(codes, count)?, self::keys(keys, count)?) };
        let store = visit(store)?;
        let outcome = store.remove_many(&keys);
        tell_batch(codes, outcome, (Code::Ok, Code::Absent))
    })
}

/// Moves values together inside the file.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_compact(
    store: *mut StoreHandle,
    freed_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the argument.
        let freed_bytes = unsafe { out_if(freed_bytes, "freed_bytes") }?;
        let freed = visit(store)?.compact()?;
        if let Some(freed_bytes) = freed_bytes {
            freed_bytes.write(freed);
        }
        Ok(Code::Ok)
    })
}

/// Begins an iteration.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_iterate(
    store: *mut StoreHandle,
    iterator: *mut *mut StoreIteratorHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the argument.
        let iterator = unsafe { out(iterator, "iterator") }?;
        iterator.write(ptr::null_mut());
        let handle = lent::keep_store_iterator(&visit(store)?)?;
        iterator.write(ptr::without_provenance_mut(handle as usize));
        Ok(Code::Ok)
    })
}

/// Tells the next pair.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_store_iterator_next(
    iterator: *mut StoreIteratorHandle,
    key: *mut CBytes,
    value: *mut CBytes,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (key, value) = unsafe { (out(key, "key")?, out(value, "value")?) };
        let of = |bytes: &[u8]| CBytes { data: bytes.as_ptr(), size: bytes.len() };
        let next = lent::next_of_store(iterator.addr() as u64, |of_key, of_value| {
            key.write(of(of_key));
            value.write(of(of_value));
        })?;
        Ok(if next.is_some() { Code::Ok } else { Code::End })
    })
}

/// Ends an iteration.
#[unsafe(no_mangle)]
pub extern "C" fn firndex_store_iterator_free(iterator: *mut StoreIteratorHandle) -> c_int {
    call(|| {
        if !iterator.is_null() {
            lent::release(iterator.addr() as u64, Kind::StoreIterator)?;
        }
        Ok(Code::Ok)
    })
}
