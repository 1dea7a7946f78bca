//! The boundary: no panic crosses it, and arguments are looked at before they are used.

use crate::code::Code;
use crate::failure::{Failure, Outcome};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::slice;

/// Runs what a function of the interface does, and turns what comes of it into a code.
///
/// A panic is a defect of the library. The pool is as if the process had been killed at that point: nothing that had
/// returned is lost.
#[inline(always)]
pub(crate) fn call(body: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code as c_int,
        Ok(Err(failure)) => failure.report() as c_int,
        Err(panic) => after_panic(panic) as c_int,
    }
}

#[cold]
fn after_panic(panic: Box<dyn std::any::Any + Send>) -> Code {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    let failure = Failure::new(
        Code::Internal,
        format!(
            "the library failed ({said}), which is a defect of it: what returned before is stored; report this, with \
             the lines that it wrote to standard error, and open the pool again"
        ),
    );
    // To drop it may run code that panics again.
    std::mem::forget(panic);
    failure.report()
}

/// The caller's bytes. NULL is the empty string if `size` is 0.
///
/// # Safety
///
/// If `data` is not NULL, `size` bytes can be read there, and nobody writes to them while the result is used.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(
    data: *const u8,
    size: usize,
    what: &str,
) -> Result<&'a [u8], Failure> {
    if size == 0 {
        return Ok(&[]);
    }
    if data.is_null() || size > isize::MAX as usize {
        return Err(no_bytes(data.is_null(), size, what));
    }
    // SAFETY: it is not NULL and no larger than an object can be; the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts(data, size) })
}

#[cold]
fn no_bytes(is_null: bool, size: usize, what: &str) -> Failure {
    match is_null {
        true => Failure::argument(format!(
            "`{what}` is NULL, expected the address of {size} bytes; pass that, or the size 0"
        )),
        false => Failure::argument(format!(
            "`{what}` has {size} bytes, more than any object; pass its size in bytes"
        )),
    }
}

/// The caller's array.
///
/// # Safety
///
/// If `data` is not NULL, and aligned, `count` values of `T` can be read there, and nobody writes to them while the
/// result is used.
pub(crate) unsafe fn array<'a, T>(
    data: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(data, count, what)?;
    // SAFETY: it is not NULL, aligned, and no larger than an object can be; the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts(data, count) })
}

/// The caller's array to be written. It may hold anything.
///
/// # Safety
///
/// If `data` is not NULL, and aligned, `count` values of `T` can be written there, and nobody else uses them while the
/// result is used.
pub(crate) unsafe fn array_out<'a, T>(
    data: *mut T,
    count: usize,
    what: &str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array(data, count, what)?;
    // SAFETY: it is not NULL, aligned, and no larger than an object can be; the caller vouches for the rest.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), count) })
}

fn check_array<T>(data: *const T, count: usize, what: &str) -> Result<(), Failure> {
    let is_possible =
        count.checked_mul(size_of::<T>()).is_some_and(|size| size <= isize::MAX as usize);
    if data.is_null() || !data.is_aligned() || !is_possible {
        return Err(Failure::argument(format!(
            "`{what}` is {}, expected the address of an array of {count}; pass that, or the count 0",
            shown(data.cast())
        )));
    }
    Ok(())
}

/// Where the caller wants a result.
///
/// # Safety
///
/// If `place` is not NULL, and aligned, a `T` can be written there, and nobody else uses it while the result is used.
#[inline(always)]
pub(crate) unsafe fn out<'a, T>(
    place: *mut T,
    what: &str,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    if place.is_null() || !place.is_aligned() {
        return Err(no_place(place.cast(), what));
    }
    // SAFETY: it is not NULL, and aligned; any bytes are a `MaybeUninit`; the caller vouches for the rest.
    Ok(unsafe { &mut *place.cast() })
}

/// Where the caller wants a result, if anywhere.
///
/// # Safety
///
/// As for [`out`].
#[inline(always)]
pub(crate) unsafe fn out_if<'a, T>(
    place: *mut T,
    what: &str,
) -> Result<Option<&'a mut MaybeUninit<T>>, Failure> {
    if place.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches for what `out` demands.
    unsafe { out(place, what) }.map(Some)
}

#[cold]
fn no_place(place: *const u8, what: &str) -> Failure {
    let place = shown(place);
    Failure::argument(format!("`{what}` is {place}, expected the address of a variable for it"))
}

fn shown(address: *const u8) -> String {
    if address.is_null() { "NULL".into() } else { format!("{address:p}") }
}

/// The caller's text, which may be any bytes.
///
/// # Safety
///
/// If `text` is not NULL, it ends with a NUL, and nobody writes to it while the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(Failure::argument(format!("`{what}` is NULL, expected a string")));
    }
    // SAFETY: it is not NULL; the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// The caller's path.
///
/// # Safety
///
/// As for [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char, what: &str) -> Result<&'a Path, Failure> {
    // SAFETY: the caller vouches for what `text` demands.
    let path = unsafe { text(path, what) }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::told;

    #[test]
    fn no_panic_crosses() {
        type Body = fn() -> Outcome;
        let panics: [(Body, &str); 3] = [
            (|| panic!("a lid is missing"), "a lid is missing"),
            (|| panic!("{} lids are missing", std::hint::black_box(2)), "2 lids are missing"),
            (|| std::panic::panic_any(7), "no text"),
        ];
        for (body, says) in panics {
            assert_eq!(Code::of(call(body)), Some(Code::Internal));
            // SAFETY: it is this thread's message, which stays until the next one.
            let message = unsafe { CStr::from_ptr(told()) }.to_str().unwrap();
            assert!(message.contains(says) && message.contains("defect"), "{message}");
        }
    }

    #[test]
    fn impossible_arrays_are_refused() {
        let number = 7_u64;
        let odd = (&raw const number).cast::<u8>().wrapping_add(1).cast::<u64>();
        // SAFETY: none of them is read.
        unsafe {
            assert!(array(odd, 1, "keys").is_err());
            assert!(array(&raw const number, usize::MAX, "keys").is_err());
            assert!(array(std::ptr::null::<u64>(), 1, "keys").is_err());
            assert!(array(std::ptr::null::<u64>(), 0, "keys").is_ok());
            assert!(bytes((&raw const number).cast(), usize::MAX, "key").is_err());
            assert!(out(odd.cast_mut(), "count").is_err());
        }
    }
}
