//! A range of addresses kept free for a pool to grow into.

use super::GUARD_BYTES;
use crate::offset::HUGE_PAGE_BYTES;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// Largest range of addresses reserved for a pool. A process has 128 TiB of them.
const RESERVE_BYTES_MAX: u64 = 1 << 40;
/// Below this a reservation is not worth having.
const RESERVE_BYTES_MIN: u64 = 1 << 26;

/// Addresses that nothing else is mapped at, given back when dropped with whatever was mapped
/// there meanwhile.
#[derive(Debug)]
pub(super) struct Reservation {
    /// The first usable address, aligned to a huge page.
    pub(super) base: NonNull<u8>,
    /// Usable bytes from there, a power of two for a pool. What every access is held against. At least [`GUARD_BYTES`]
    /// behind them are free, too.
    pub(super) bytes: u64,
    /// Start and length of the whole mapping, which is unaligned.
    whole: (NonNull<c_void>, usize),
}

impl Reservation {
    /// Addresses for `wanted_bytes`, without memory behind them; half as many, and so on, if the system does not grant
    /// that.
    pub(super) fn new(wanted_bytes: u64) -> io::Result<Reservation> {
        let mut bytes =
            wanted_bytes.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX).next_power_of_two();
        loop {
            match Reservation::exactly(bytes) {
                Err(_) if bytes > RESERVE_BYTES_MIN => bytes /= 2,
                reserved => return reserved,
            }
        }
    }

    /// Addresses for so many bytes.
    pub(super) fn exactly(bytes: u64) -> io::Result<Reservation> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                (bytes + HUGE_PAGE_BYTES) as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let whole = (
            NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?,
            (bytes + HUGE_PAGE_BYTES) as usize,
        );
        let padding = (start as usize).next_multiple_of(HUGE_PAGE_BYTES as usize) - start as usize;
        // A page is left behind at least, since the padding consists of whole ones.
        const { assert!(GUARD_BYTES <= 4096) };
        // SAFETY: `padding` is less than the HUGE_PAGE_BYTES by which the mapping is larger.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_large_as_asked_within_bounds() {
        for (wanted_bytes, bytes) in [
            (0, RESERVE_BYTES_MIN),
            (1 << 30, 1 << 30),
            ((1 << 30) + 1, 1 << 31),
            (u64::MAX, RESERVE_BYTES_MAX),
        ] {
            assert_eq!(Reservation::new(wanted_bytes).unwrap().bytes, bytes, "{wanted_bytes}");
        }
    }
}
