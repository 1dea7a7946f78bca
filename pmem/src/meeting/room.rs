//! Memory that two processes share: the lanes of one guest, and the page on which the owner tells all guests whether it
//! sleeps.

use super::lane::{Doze, Lane};
use crate::sync::{AtomicU64, Ordering, Shared, Writers};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Lanes of a guest. More threads than that share them.
pub const LANES: usize = 64;
/// Words of a lane's part. A lane has 64 KiB, of which what is not used takes no memory.
pub const LANE_WORDS: usize = 8191;
/// A lane of a room.
pub type RoomLane = Lane<LANE_WORDS>;

const LANE_BYTES: usize = size_of::<RoomLane>();
const _: () = assert!(LANE_BYTES == 64 << 10 && align_of::<RoomLane>() <= 4096);
/// The room's first page. Its first word counts the lanes that the guest has used; a line further on the owner says
/// whether it looks there.
const FRONT_BYTES: usize = 4096;
const DOZE_AT: usize = 64;
const ROOM_BYTES: usize = FRONT_BYTES + LANES * LANE_BYTES;
const PAGE_BYTES: usize = 4096;

/// The lanes of one guest.
#[derive(Debug)]
pub(super) struct Room {
    memory: Shared,
}

impl Room {
    /// Owner: makes one; the descriptor is for the guest.
    pub(super) fn make() -> io::Result<(Room, OwnedFd)> {
        let (memory, descriptor) = Shared::make("firndex-lanes", ROOM_BYTES, Writers::All)?;
        Ok((Room { memory }, descriptor))
    }

    /// Guest: the one that was made for it.
    pub(super) fn enter(descriptor: BorrowedFd<'_>) -> io::Result<Room> {
        Ok(Room { memory: Shared::enter(descriptor, ROOM_BYTES, Writers::All)? })
    }

    fn used(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins with a page, of which only this word is used, and only so.
        unsafe { AtomicU64::from_ptr(self.memory.base().as_ptr().cast()) }
    }

    /// Whether the owner looks at these lanes without being rung for. Guests only look; one that does not harms itself.
    #[inline]
    pub(super) fn doze(&self) -> &Doze {
        // SAFETY: it lies in the first page, aligned. It consists of an atomic, for which any bytes will do.
        unsafe { self.memory.base().byte_add(DOZE_AT).cast().as_ref() }
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
            let lanes = self.memory.base().as_ptr().cast::<u8>().add(FRONT_BYTES);
            &*lanes.cast::<RoomLane>().add(lane)
        }
    }
}

/// The owner's page: one for all guests, who can only read it.
#[derive(Debug)]
pub(super) struct Page {
    memory: Shared,
}

impl Page {
    /// Owner: makes it; the descriptor is for guests.
    pub(super) fn make() -> io::Result<(Page, OwnedFd)> {
        let (memory, descriptor) = Shared::make("firndex-owner", PAGE_BYTES, Writers::Maker)?;
        Ok((Page { memory }, descriptor))
    }

    /// Guest: reads it.
    pub(super) fn enter(descriptor: BorrowedFd<'_>) -> io::Result<Page> {
        Ok(Page { memory: Shared::enter(descriptor, PAGE_BYTES, Writers::Maker)? })
    }

    /// Whether the owner sleeps. Guests only look.
    #[inline]
    pub(super) fn doze(&self) -> &Doze {
        // SAFETY: the page begins with it. It consists of an atomic, for which any bytes will do.
        unsafe { self.memory.base().cast().as_ref() }
    }
}
