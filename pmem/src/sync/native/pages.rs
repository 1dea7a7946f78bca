//! Zeroed memory that is taken when first touched.

use crate::limits;
use crate::offset::HUGE_PAGE_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

const HUGE_PAGE: usize = HUGE_PAGE_BYTES as usize;
/// One call touches at most this much: other threads that map memory wait for it.
const POPULATE_STEP_BYTES: usize = HUGE_PAGE;

/// Reserves addresses for `bytes` zero bytes, aligned to pages.
pub(in crate::sync) fn zeroed(bytes: usize) -> io::Result<NonNull<c_void>> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let start = start.map_err(|refused| limits::no_addresses(bytes as u64, refused))?;
    // A core would be as long as all that is reserved; and nearly all of it is made anew from the pool when that is
    // opened.
    // SAFETY: advice about core files changes nothing in the process.
    let _ = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxDontDump) };
    NonNull::new(start).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Gives back what [`zeroed`] returned for `bytes`.
///
/// # Safety
///
/// Nothing refers to it any more.
pub(in crate::sync) unsafe fn free(start: NonNull<c_void>, bytes: usize) {
    // SAFETY: the mapping is the caller's, who has no further use for it.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr(), bytes) };
}

/// Asks for huge pages behind a range of bytes that is as large as one or larger, its ends included,
/// and touches the range if `populate`. A hint.
///
/// # Safety
///
/// The range lies in what [`zeroed`] returned as `start` for `len` bytes.
pub(in crate::sync) unsafe fn advise(
    start: NonNull<c_void>,
    len: usize,
    bytes: Range<usize>,
    populate: bool,
) {
    let base = start.as_ptr() as usize;
    let (from, to) = (base + bytes.start, base + bytes.end);
    if to.saturating_sub(from) >= HUGE_PAGE {
        let page = rustix::param::page_size();
        let huge_from = (from / HUGE_PAGE * HUGE_PAGE).max(base);
        let huge_to = to.next_multiple_of(HUGE_PAGE).min((base + len).next_multiple_of(page));
        let start = huge_from as *mut c_void;
        // SAFETY: the range lies in a mapping of ours; advice changes no content.
        let _ = unsafe { rustix::mm::madvise(start, huge_to - huge_from, Advice::LinuxHugepage) };
    }
    if populate && from < to {
        let page = rustix::param::page_size();
        let (mut at, end) = (from / page * page, to.next_multiple_of(page));
        while at < end {
            let step = POPULATE_STEP_BYTES.min(end - at);
            // SAFETY: as above; populating changes no content.
            let _ =
                unsafe { rustix::mm::madvise(at as *mut c_void, step, Advice::LinuxPopulateWrite) };
            at += step;
        }
    }
}

/// Puts huge pages behind a range of shared memory that is as large as one or larger, its ends included. A hint.
///
/// Of shared memory the kernel makes no huge pages by itself, unless the system is set so. Asked to put pages together,
/// it takes one that is there and fills up with zeros: so one of each is touched, which is faster than to touch all.
///
/// # Safety
///
/// The range lies in the `len` bytes from `start` on, a mapping of shared memory that this process may write.
pub(in crate::sync) unsafe fn advise_shared(
    start: NonNull<c_void>,
    len: usize,
    bytes: Range<usize>,
) {
    let base = start.as_ptr() as usize;
    let (from, to) = (base + bytes.start, base + bytes.end);
    if to.saturating_sub(from) < HUGE_PAGE {
        return;
    }
    let first = (from / HUGE_PAGE * HUGE_PAGE).max(base.next_multiple_of(HUGE_PAGE));
    let end = to.next_multiple_of(HUGE_PAGE).min((base + len) / HUGE_PAGE * HUGE_PAGE);
    for huge_page in (first..end).step_by(HUGE_PAGE) {
        let huge_page = huge_page as *mut c_void;
        let page = rustix::param::page_size();
        // SAFETY: all of it lies in the mapping. Neither call changes any content.
        let is_given = unsafe {
            rustix::mm::madvise(huge_page, page, Advice::LinuxPopulateWrite).is_ok()
                && libc::madvise(huge_page, HUGE_PAGE, libc::MADV_COLLAPSE) == 0
        };
        if !is_given {
            return;
        }
    }
}
