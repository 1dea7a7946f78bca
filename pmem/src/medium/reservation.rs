//! A range of addresses kept free for a pool to grow into.

use super::GUARD_BYTES;
use crate::limits;
use crate::offset::HUGE_PAGE_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags};
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
    /// Reserves addresses for `wanted_bytes`, without memory. If the system refuses, it asks for half as many, and so
    /// on down to `needed_bytes`. In a process whose address space is limited it takes a part of what is left.
    pub(super) fn new(needed_bytes: u64, wanted_bytes: u64) -> io::Result<Reservation> {
        let rounded =
            |bytes: u64| bytes.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX).next_power_of_two();
        let bytes_min = rounded(needed_bytes);
        let mut bytes = rounded(wanted_bytes.max(needed_bytes));
        if let Some(left_bytes) = limits::address_bytes_left() {
            // A pool that has more than its share must still be able to grow.
            bytes = bytes.min(share_of(left_bytes).max(2 * bytes_min));
        }
        loop {
            match Reservation::exactly(bytes) {
                Err(_) if bytes > bytes_min => bytes /= 2,
                reserved => return reserved,
            }
        }
    }

    /// Reserves addresses for exactly this many bytes.
    pub(super) fn exactly(bytes: u64) -> io::Result<Reservation> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                (bytes + HUGE_PAGE_BYTES) as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let start = start.map_err(|refused| limits::no_addresses(bytes, refused))?;
        // Core files leave it out. They would be as long as the reservation, and a pool's content is in its file. Later
        // mappings in this range are left out again, since a new mapping forgets the advice.
        leave_out_of_cores(start, (bytes + HUGE_PAGE_BYTES) as usize);
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

/// The part of `left_bytes` that a pool takes of its own accord: a power of two.
fn share_of(left_bytes: u64) -> u64 {
    let share = (left_bytes / limits::SHARE).max(RESERVE_BYTES_MIN);
    1 << share.ilog2()
}

/// Keeps a range of a mapping out of core files. It is as useful in one where that fails.
pub(super) fn leave_out_of_cores(start: *mut c_void, bytes: usize) {
    // SAFETY: advice about core files changes nothing in the process.
    let _ = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxDontDump) };
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
            assert_eq!(Reservation::new(0, wanted_bytes).unwrap().bytes, bytes, "{wanted_bytes}");
        }
    }

    #[test]
    fn of_what_a_limit_leaves_it_takes_a_quarter() {
        for (left_bytes, bytes) in [
            (0, RESERVE_BYTES_MIN),
            (256 << 20, 64 << 20),
            (4 << 30, 1 << 30),
            (6 << 30, 1 << 30),
            (8 << 30, 2 << 30),
        ] {
            assert_eq!(share_of(left_bytes), bytes, "{left_bytes}");
        }
    }
}
