//! Zeroed memory from the allocator: a simulated machine has little of it, and short lived.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

fn layout(bytes: usize) -> io::Result<Layout> {
    Layout::from_size_align(bytes.max(1), 64).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Takes `bytes` zero bytes, aligned to lines.
pub(in crate::sync) fn zeroed(bytes: usize) -> io::Result<NonNull<c_void>> {
    // SAFETY: the layout is of at least one byte.
    let start = unsafe { alloc_zeroed(layout(bytes)?) };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Gives back what [`zeroed`] returned for `bytes`.
///
/// # Safety
///
/// Nothing refers to it any more.
pub(in crate::sync) unsafe fn free(start: NonNull<c_void>, bytes: usize) {
    if let Ok(layout) = layout(bytes) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout, and is done with.
        unsafe { dealloc(start.as_ptr().cast(), layout) };
    }
}

/// Nothing.
///
/// # Safety
///
/// None: nothing is done.
pub(in crate::sync) unsafe fn advise(_: NonNull<c_void>, _: usize, _: Range<usize>, _: bool) {}

/// Nothing.
///
/// # Safety
///
/// None: nothing is done.
pub(in crate::sync) unsafe fn advise_shared(_: NonNull<c_void>, _: usize, _: Range<usize>) {}

/// Memory that simulated processes share, all of which are in this one.
#[derive(Debug)]
pub(crate) struct Shared {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the memory is this value's until it is dropped, and is only accessed through atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn make(bytes: usize) -> io::Result<Shared> {
        Ok(Shared { base: zeroed(bytes)?, bytes })
    }

    pub(crate) fn base(&self) -> NonNull<c_void> {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the memory is this value's own, and whoever refers to it keeps this value.
        unsafe { free(self.base, self.bytes) };
    }
}
