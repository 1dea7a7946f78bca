//! Memory that two processes share: the lanes of one guest, and the page on which the owner tells all guests whether it
//! sleeps.

use super::lane::{Doze, Lane};
use crate::sync::{AtomicU64, Ordering};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// Lanes of a guest. More threads than that share them.
pub const LANES: usize = 64;
/// Words of a lane's part. A lane has 64 KiB, of which what is not used takes no memory.
pub const LANE_WORDS: usize = 8191;
/// A lane of a room.
pub type RoomLane = Lane<LANE_WORDS>;

const LANE_BYTES: usize = size_of::<RoomLane>();
const _: () = assert!(LANE_BYTES == 64 << 10 && align_of::<RoomLane>() <= 4096);
/// The room's first page; its first word counts the lanes that the guest has used.
const FRONT_BYTES: usize = 4096;
const ROOM_BYTES: usize = FRONT_BYTES + LANES * LANE_BYTES;
const PAGE_BYTES: usize = 4096;

/// A mapping of shared memory.
#[derive(Debug)]
struct Mapped {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping is this value's until it is dropped, and is only accessed through atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(memory: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> io::Result<Mapped> {
        // SAFETY: a new mapping at an address of the kernel's choice. The memory is at least as long and cannot become
        // shorter: it is sealed.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, memory, 0)?
        };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapped { base, bytes })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: what was lent of it borrows its owner, which is being dropped.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// Memory without a name of so many zero bytes.
fn memory(name: &str, bytes: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&memory, bytes as u64)?;
    Ok(memory)
}

/// An error unless the memory has so many bytes and cannot lose them.
fn demand(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let found = rustix::fs::fstat(memory)?.st_size;
    let seals = rustix::fs::fcntl_get_seals(memory)?;
    if found == bytes as i64 && seals.contains(SealFlags::SHRINK) {
        return Ok(());
    }
    Err(io::Error::other(format!("shared memory of {found} bytes with {seals:?}")))
}

/// The lanes of one guest.
#[derive(Debug)]
pub(super) struct Room {
    mapped: Mapped,
}

impl Room {
    /// Owner: makes one; the descriptor is for the guest.
    pub(super) fn make() -> io::Result<(Room, OwnedFd)> {
        let memory = memory("firndex-lanes", ROOM_BYTES)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals)?;
        Ok((Room::over(memory.as_fd())?, memory))
    }

    /// Guest: the one that was made for it.
    pub(super) fn enter(memory: BorrowedFd<'_>) -> io::Result<Room> {
        demand(memory, ROOM_BYTES)?;
        Room::over(memory)
    }

    fn over(memory: BorrowedFd<'_>) -> io::Result<Room> {
        let mapped = Mapped::new(memory, ROOM_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Room { mapped })
    }

    fn used(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins with a page, of which only this word is used, and only so.
        unsafe { AtomicU64::from_ptr(self.mapped.base.as_ptr().cast()) }
    }

    /// Guest: says that it uses this lane from now on, and no larger one yet that it has not said.
    pub(super) fn use_lane(&self, lane: usize) {
        self.used().fetch_max(lane as u64 + 1, Ordering::AcqRel);
    }

    /// Owner: how many lanes to look at.
    #[inline]
    pub(super) fn lanes_used(&self) -> usize {
        (self.used().load(Ordering::Acquire) as usize).min(LANES)
    }

    /// A lane.
    ///
    /// # Panics
    ///
    /// If `lane` is not below [`LANES`].
    #[inline]
    pub(super) fn lane(&self, lane: usize) -> &RoomLane {
        assert!(lane < LANES, "a room has {LANES} lanes, and no lane {lane}");
        // SAFETY: the lane lies in the mapping, aligned. It consists of atomics, for which any bytes will do.
        unsafe {
            let lanes = self.mapped.base.as_ptr().cast::<u8>().add(FRONT_BYTES);
            &*lanes.cast::<RoomLane>().add(lane)
        }
    }
}

/// The owner's page: one for all guests, who can only read it.
#[derive(Debug)]
pub(super) struct Page {
    mapped: Mapped,
}

impl Page {
    /// Owner: makes it; the descriptor is for guests.
    pub(super) fn make() -> io::Result<(Page, OwnedFd)> {
        let memory = memory("firndex-owner", PAGE_BYTES)?;
        let mapped = Mapped::new(memory.as_fd(), PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        // After the owner's mapping, which this does not concern.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals)?;
        Ok((Page { mapped }, memory))
    }

    /// Guest: reads it.
    pub(super) fn enter(memory: BorrowedFd<'_>) -> io::Result<Page> {
        demand(memory, PAGE_BYTES)?;
        Ok(Page { mapped: Mapped::new(memory, PAGE_BYTES, ProtFlags::READ)? })
    }

    /// Whether the owner sleeps. Guests only look.
    #[inline]
    pub(super) fn doze(&self) -> &Doze {
        // SAFETY: the page begins with it. It consists of an atomic, for which any bytes will do.
        unsafe { self.mapped.base.cast().as_ref() }
    }
}
