//! Memory without a name that processes share, for as long as any of them maps it.

use crate::limits;
use crate::offset::HUGE_PAGE_BYTES;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

const HUGE_PAGE: usize = HUGE_PAGE_BYTES as usize;

/// Who may store to shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Whoever has the descriptor.
    All,
    /// Only the process that made it, whatever others do with the descriptor.
    Maker,
}

/// A mapping of shared memory, aligned to a huge page if it is as large as one.
#[derive(Debug)]
pub(crate) struct Shared {
    base: NonNull<c_void>,
    bytes: usize,
    /// Start and length of all that was mapped.
    whole: (NonNull<c_void>, usize),
}

// SAFETY: the mapping is this value's until it is dropped, and is only accessed through atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Memory of so many zero bytes, which it always has. It takes room when first touched. The descriptor is for the
    /// others.
    pub(crate) fn make(
        name: &str,
        bytes: usize,
        writers: Writers,
    ) -> io::Result<(Shared, OwnedFd)> {
        limits::demand_file_bytes(bytes as u64)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create(name, flags)?;
        rustix::fs::ftruncate(&memory, bytes as u64)?;
        let shared = Shared::map(memory.as_fd(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        // It does not concern the mapping that there is.
        seals.set(SealFlags::FUTURE_WRITE, writers == Writers::Maker);
        rustix::fs::fcntl_add_seals(&memory, seals)?;
        Ok((shared, memory))
    }

    /// Memory that another process has made. An error unless it has so many bytes and cannot lose them: who reads a
    /// page that has gone dies of it.
    pub(crate) fn enter(
        memory: BorrowedFd<'_>,
        bytes: usize,
        writers: Writers,
    ) -> io::Result<Shared> {
        let found = Shared::length(memory)?;
        if found != bytes as u64 {
            return Err(io::Error::other(format!("shared memory of {found} bytes, not {bytes}")));
        }
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, writers == Writers::All);
        Shared::map(memory, bytes, protection)
    }

    /// How long such memory is, and will be.
    pub(crate) fn length(memory: BorrowedFd<'_>) -> io::Result<u64> {
        let seals = rustix::fs::fcntl_get_seals(memory)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::other(format!("shared memory that has {seals:?}")));
        }
        Ok(rustix::fs::fstat(memory)?.st_size.cast_unsigned())
    }

    fn map(memory: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> io::Result<Shared> {
        let spare = if bytes < HUGE_PAGE { 0 } else { HUGE_PAGE };
        let reserved = bytes.checked_add(spare).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), reserved, ProtFlags::empty(), flags)
        };
        let start = start.map_err(|refused| limits::no_addresses(reserved as u64, refused))?;
        let whole = (NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?, reserved);
        let padding = if spare == 0 { 0 } else { start.addr().wrapping_neg() % HUGE_PAGE };
        // SAFETY: the padding is less than what was reserved in excess.
        let base = unsafe { whole.0.byte_add(padding) };
        let shared = Shared { base, bytes, whole };
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: MAP_FIXED replaces a part of the range reserved above. The memory is at least as long, and cannot
        // become shorter: it is sealed, or about to be by its maker.
        unsafe { rustix::mm::mmap(base.as_ptr(), bytes, protection, flags, memory, 0)? };
        // SAFETY: advice about core files changes nothing in the process.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr(), bytes, Advice::LinuxDontDump) };
        Ok(shared)
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
        let (start, bytes) = self.whole;
        // SAFETY: the mapping is this value's own, and whoever refers to it keeps this value.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr(), bytes) };
    }
}
