//! A range of addresses kept free for a pool to grow into.

use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// Alignment of the reservation and of large extents: the size of a huge page.
const HUGE_PAGE: u64 = 2 << 20;
/// Address range reserved for a pool, if the system grants it; halved until it does.
const RESERVE_BYTES_MAX: u64 = 1 << 40;
/// Below this a reservation is not worth having.
const RESERVE_BYTES_MIN: u64 = 1 << 26;

/// Addresses that nothing else is mapped at, given back when dropped with whatever was mapped
/// there meanwhile.
#[derive(Debug)]
pub(super) struct Reservation {
    /// The first usable address, aligned to a huge page.
    pub(super) base: NonNull<u8>,
    /// Usable bytes from there, a power of two. What every access is held against.
    pub(super) bytes: u64,
    /// Start and length of the whole mapping, which is unaligned.
    whole: (NonNull<c_void>, usize),
}

impl Reservation {
    /// As many addresses as the system grants, without memory behind them.
    pub(super) fn new() -> io::Result<Reservation> {
        let mut bytes = RESERVE_BYTES_MAX;
        let start = loop {
            // SAFETY: a new anonymous mapping at an address of the kernel's choice.
            let mapped = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    (bytes + HUGE_PAGE) as usize,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            };
            match mapped {
                Ok(start) => break start,
                Err(error) if bytes <= RESERVE_BYTES_MIN => return Err(error.into()),
                Err(_) => bytes /= 2,
            }
        };
        let whole =
            (NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?, (bytes + HUGE_PAGE) as usize);
        let padding = (start as usize).next_multiple_of(HUGE_PAGE as usize) - start as usize;
        // SAFETY: `padding` is less than the HUGE_PAGE by which the mapping is larger.
        let base = unsafe { NonNull::new_unchecked(start.cast::<u8>().add(padding)) };
        Ok(Reservation { base, bytes, whole })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let (start, bytes) = self.whole;
        // SAFETY: the mapping is this value's own, and whoever hands out references into it owns
        // this value and lends them for no longer than its own life.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr(), bytes) };
    }
}
