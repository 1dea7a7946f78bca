//! Numbers of 64 bits: `firndex_table`.

use crate::batch::{codes_out, tell_batch};
use crate::call::{array, array_out, call, out, out_if};
use crate::code::Code;
use crate::failure::Failure;
use crate::handle::Kind;
use crate::lent;
use crate::options::COptions;
use crate::pool::{self, CCopied, CStats, Mode, pool_functions};
use crate::pools::{Table, Visit};
use firndex::Options;
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

/// Mirrors `firndex_table`, of which there is only the name.
#[derive(Debug)]
#[repr(C)]
pub struct TableHandle([u8; 0]);

/// Mirrors `firndex_table_iterator`, of which there is only the name.
#[derive(Debug)]
#[repr(C)]
pub struct TableIteratorHandle([u8; 0]);

/// Mirrors `firndex_state`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CState {
    pub(crate) value: u64,
    pub(crate) is_present: bool,
}

pool_functions!(
    Table,
    TableHandle,
    [
        firndex_table_open,
        firndex_table_in_memory,
        firndex_table_close,
        firndex_table_len,
        firndex_table_sync,
        firndex_table_commit,
        firndex_table_shrink,
        firndex_table_check,
        firndex_table_role,
        firndex_table_was_reset,
        firndex_table_stats,
        firndex_table_backup
    ],
    create_table,
    open_table,
    open_or_create_table,
    in_memory_table
);

#[inline(always)]
fn visit(table: *mut TableHandle) -> Result<Visit<Table>, Failure> {
    Visit::begin(table.addr() as u64)
}

#[inline(always)]
fn tell(
    found: Option<u64>,
    former: Option<&mut MaybeUninit<CState>>,
    (if_there, if_absent): (Code, Code),
) -> Code {
    if let Some(former) = former {
        former.write(CState { value: found.unwrap_or(0), is_present: found.is_some() });
    }
    if found.is_some() { if_there } else { if_absent }
}

/// Tells the value of a key.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_table_get(
    table: *mut TableHandle,
    key: u64,
    value: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the argument.
        let value = unsafe { out(value, "value") }?;
        let Some(found) = visit(table)?.get(key)? else { return Ok(Code::Absent) };
        value.write(found);
        Ok(Code::Ok)
    })
}

/// Tells whether a key is present.
#[unsafe(no_mangle)]
pub extern "C" fn firndex_table_contains(table: *mut TableHandle, key: u64) -> c_int {
    call(|| Ok(if visit(table)?.get(key)?.is_some() { Code::Ok } else { Code::Absent }))
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
            table: *mut TableHandle,
            key: u64,
            value: u64,
            former: *mut CState,
        ) -> c_int {
            call(|| {
                // SAFETY: the caller vouches for the argument.
                let former = unsafe { out_if(former, "former") }?;
                let found = visit(table)?.$change(key, value)?;
                Ok(tell(found, former, (Code::$if_there, Code::$if_absent)))
            })
        }
    )+};
}

changes! {
    /// Stores a pair.
    firndex_table_put: put, Ok, Ok;
    /// Stores a pair if the key is absent.
    firndex_table_insert: insert, Present, Ok;
    /// Replaces the value if the key is present.
    firndex_table_update: update, Ok, Absent;
}

/// Removes a key.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_table_remove(
    table: *mut TableHandle,
    key: u64,
    former: *mut CState,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the argument.
        let former = unsafe { out_if(former, "former") }?;
        let found = visit(table)?.remove(key)?;
        Ok(tell(found, former, (Code::Ok, Code::Absent)))
    })
}

/// The state of a key: NULL is absence.
///
/// # Safety
///
/// If `state` is not NULL, and aligned, it can be read, and nobody writes to it meanwhile.
unsafe fn state(state: *const u64, what: &str) -> Result<Option<u64>, Failure> {
    if state.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches for it.
    Ok(Some(unsafe { array(state, 1, what) }?[0]))
}

/// Changes the state of a key from one to another.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_table_compare_exchange(
    table: *mut TableHandle,
    key: u64,
    expected: *const u64,
    desired: *const u64,
    found: *mut CState,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (found, expected, desired) = unsafe {
            (out_if(found, "found")?, state(expected, "expected")?, state(desired, "desired")?)
        };
        match visit(table)?.compare_exchange(key, expected, desired)? {
            Ok(()) => Ok(tell(expected, found, (Code::Ok, Code::Ok))),
            Err(other) => Ok(tell(other, found, (Code::Different, Code::Different))),
        }
    })
}

/// Tells the values of many keys.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_table_get_many(
    table: *mut TableHandle,
    keys: *const u64,
    count: usize,
    states: *mut CState,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arrays.
        let (keys, states) =
            unsafe { (array(keys, count, "keys")?, array_out(states, count, "states")?) };
        let found = visit(table)?.get_many(keys)?;
        for (state, found) in states.iter_mut().zip(found) {
            tell(found, Some(state), (Code::Ok, Code::Absent));
        }
        Ok(Code::Ok)
    })
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
            table: *mut TableHandle,
            keys: *const u64,
            values: *const u64,
            count: usize,
            codes: *mut c_int,
        ) -> c_int {
            call(|| {
                // SAFETY: the caller vouches for the arrays.
                let (codes, keys, values) = unsafe {
                    (codes_out(codes, count)?, array(keys, count, "keys")?, array(values, count, "values")?)
                };
                let pairs: Vec<(u64, u64)> = keys.iter().copied().zip(values.iter().copied()).collect();
                let outcome = visit(table)?.$change(&pairs);
                tell_batch(codes, outcome, (Code::$if_there, Code::$if_absent))
            })
        }
    )+};
}

batches! {
    /// Stores many pairs.
    firndex_table_put_many: put_many, Ok, Ok;
    /// Stores many pairs whose keys are absent.
    firndex_table_insert_many: insert_many, Present, Ok;
    /// Replaces the values of many keys that are present.
    firndex_table_update_many: update_many, Ok, Absent;
}

/// Removes many keys.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_table_remove_many(
    table: *mut TableHandle,
    keys: *const u64,
    count: usize,
    codes: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arrays.
        let (codes, keys) = unsafe { (codes_out(codes, count)?, array(keys, count, "keys")?) };
        let outcome = visit(table)?.remove_many(keys);
        tell_batch(codes, outcome, (Code::Ok, Code::Absent))
    })
}

/// Begins an iteration.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firndex_table_iterate(
    table: *mut TableHandle,
    iterator: *mut *mut TableIteratorHandle,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the argument.
        let iterator = unsafe { out(iterator, "iterator") }?;
        iterator.write(ptr::null_mut());
        let handle = lent::keep_table_iterator(&visit(table)?)?;
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
pub unsafe extern "C" fn firndex_table_iterator_next(
    iterator: *mut TableIteratorHandle,
    key: *mut u64,
    value: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for the arguments.
        let (key, value) = unsafe { (out(key, "key")?, out(value, "value")?) };
        let Some(next) = lent::next_of_table(iterator.addr() as u64)? else {
            return Ok(Code::End);
        };
        key.write(next.0);
        value.write(next.1);
        Ok(Code::Ok)
    })
}

/// Ends an iteration.
#[unsafe(no_mangle)]
pub extern "C" fn firndex_table_iterator_free(iterator: *mut TableIteratorHandle) -> c_int {
    call(|| {
        if !iterator.is_null() {
            lent::release(iterator.addr() as u64, Kind::TableIterator)?;
        }
        Ok(Code::Ok)
    })
}
