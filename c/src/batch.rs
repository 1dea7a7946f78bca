//! What became of each entry of a batch.

use crate::call::array_out;
use crate::code::Code;
use crate::failure::{Failure, Outcome};
use firndex::BatchError;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Where the caller wants to know what became of each entry of a batch, if anywhere.
///
/// # Safety
///
/// As for [`array_out`].
pub(crate) unsafe fn codes_out<'a>(
    codes: *mut c_int,
    count: usize,
) -> Result<&'a mut [MaybeUninit<c_int>], Failure> {
    if codes.is_null() {
        return Ok(&mut []);
    }
    // SAFETY: the caller vouches for it.
    unsafe { array_out(codes, count, "codes") }
}

/// Tells what became of each entry of a batch.
pub(crate) fn tell_batch<T>(
    codes: &mut [MaybeUninit<c_int>],
    outcome: Result<Vec<Option<T>>, BatchError>,
    (if_there, if_absent): (Code, Code),
) -> Outcome {
    let (outcome, failure) = match outcome {
        Ok(found) => (Ok(found), None),
        Err(error) => {
            let failure = Failure::of_batch(&error);
            (Err(error), Some(failure))
        }
    };
    for (at, code) in codes.iter_mut().enumerate() {
        let entry = match (&outcome, &failure) {
            (Ok(found), _) if found[at].is_some() => if_there,
            (Ok(_), _) => if_absent,
            (Err(error), _) if error.is_done(at) => Code::Ok,
            (Err(error), Some(failure)) if error.failed() == Some(at) => failure.code(),
            (Err(_), _) => Code::Undone,
        };
        code.write(entry as c_int);
    }
    failure.map_or(Ok(Code::Ok), Err)
}
