//! How memory gets its pages: mapping, growth, touching.

use super::{Backing, Memory};
use crate::error::SpaceError;
use crate::limits;
use crate::medium::allocate::is_in_tmpfs;
use crate::medium::huge::Haste;
use crate::medium::reservation::leave_out_of_cores;
use crate::medium::{Medium, MediumKind, allocate, give_back};
use crate::offset::Offset;
use rustix::fd::AsFd;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One call touches at most this much: mapping and advice wait for it.
const POPULATE_STEP_BYTES: u64 = 1 << 20;
/// How long it sleeps in between, the system's slack aside.
const POPULATE_PAUSE: Duration = Duration::from_micros(1);

/// The kernel reads at least this much ahead for one call, and need not read more.
const READ_AHEAD_BYTES: u64 = 128 << 10;
/// Of so few bytes nobody asks whether memory has room for them.
const SURELY_IN_MEMORY_BYTES: u64 = 16 << 20;

/// Whether the first of so many bytes is still in memory when the last has been read.
fn fits_in_memory(bytes: u64) -> bool {
    bytes <= SURELY_IN_MEMORY_BYTES || {
        let system = rustix::system::sysinfo();
        bytes <= system.totalram.saturating_mul(system.mem_unit.into()) / 2
    }
}

impl Memory {
    pub(super) fn map_existing(&self, size: u64) -> io::Result<()> {
        let size = round_to_page(size);
        if size > self.reservation.bytes {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("cannot reserve {size} bytes of address space for the pool"),
            ));
        }
        if size > 0 {
            self.map(0..size)?;
            self.size.store(size, Ordering::Release);
        }
        Ok(())
    }

    /// Puts pages behind a range of the reservation.
    fn map(&self, range: Range<u64>) -> io::Result<()> {
        let address = self.at(Offset(range.start)).cast::<c_void>();
        let bytes = (range.end - range.start) as usize;
        match &self.backing {
            // SAFETY: the range lies in this value's reservation.
            Backing::Anonymous => unsafe {
                rustix::mm::mprotect(address, bytes, MprotectFlags::READ | MprotectFlags::WRITE)?;
            },
            Backing::File { file, map, writable } => {
                let mut protection = ProtFlags::READ;
                protection.set(ProtFlags::WRITE, *writable);
                // SAFETY: MAP_FIXED replaces pages of this value's own reservation, which have
                // no memory behind them yet.
                unsafe {
                    rustix::mm::mmap(
                        address,
                        bytes,
                        protection,
                        *map | MapFlags::FIXED,
                        file.as_fd(),
                        range.start,
                    )?;
                }
            }
        }
        leave_out_of_cores(address, bytes);
        if self.is_for_huge_pages() {
            // SAFETY: advice on pages just mapped; it changes no content. Kernels without huge pages
            // for this backing refuse, which is fine.
            let _ = unsafe { rustix::mm::madvise(address, bytes, Advice::LinuxHugepage) };
        } else {
            // Otherwise the kernel reads what is around a page as well, megabytes of it where the device is set so,
            // into pages of that size. Of such a page it later writes all to the disk for a change of one word.
            // SAFETY: as above.
            let _ = unsafe { rustix::mm::madvise(address, bytes, Advice::Random) };
        }
        Ok(())
    }

    /// Whether huge pages make it faster. Not those of a disk's page cache: for a change of one word the kernel writes
    /// two megabytes to the disk, where it writes some pages otherwise.
    fn is_for_huge_pages(&self) -> bool {
        match &self.backing {
            Backing::Anonymous => true,
            Backing::File { file, .. } => {
                self.kind != MediumKind::Mapped || is_in_tmpfs(file.as_fd())
            }
        }
    }

    /// [`Medium::grow`] and [`Medium::grow_ahead`].
    pub(super) fn grow_to(&self, size: u64, haste: Haste) -> Result<(), SpaceError> {
        let target = round_to_page(size.min(1 << 62));
        while self.size() < target {
            if size > self.size_max {
                return Err(self.beyond_limit(size));
            }
            // Steps let others in between: a writer that needs one extent now does not wait for
            // a helper that prepares gigabytes. Nothing is mapped before there is space for all,
            // so that a refusal can give back all that it has taken.
            let mut space = self.growing.lock();
            let mapped = self.size();
            if mapped >= target {
                break;
            }
            if let Backing::File { file, writable, .. } = &self.backing {
                let io = |source: io::Error| SpaceError::Io { needed_bytes: size, source };
                if !writable {
                    return Err(io(io::ErrorKind::ReadOnlyFilesystem.into()));
                }
                self.demand_length(file, mapped).map_err(io)?;
                if !space.reaches(target, mapped) {
                    let taken = space.take_step(file.as_fd(), mapped, target, haste);
                    taken.map_err(|error| SpaceError::refused(size, error))?;
                    continue;
                }
                // Before the pool may use it: a checkpoint must never lack room for what the pool has.
                if let Some(log) = &self.log
                    && let Err(error) = log.make_room(target)
                {
                    space.give_back(file.as_fd(), mapped);
                    return Err(SpaceError::of_log(size, error));
                }
                let published = match self.kind {
                    // The file's new length must survive with the data stored in it.
                    MediumKind::Dax => file.sync_data(),
                    _ => Ok(()),
                };
                if let Err(error) = published.and_then(|()| self.map(mapped..target)) {
                    space.give_back(file.as_fd(), mapped);
                    return Err(io(error));
                }
            } else if let Err(error) = self.map(mapped..target) {
                return Err(SpaceError::Io { needed_bytes: size, source: error });
            }
            if let Some(watch) = &self.watch {
                watch.set_mapped(target);
            }
            self.size.store(target, Ordering::Release);
        }
        Ok(())
    }

    /// [`Medium::follow`].
    #[cold]
    pub(super) fn follow_to(&self, size: u64) -> bool {
        let needed = round_to_page(size.min(1 << 62));
        if needed > self.reservation.bytes {
            return false;
        }
        let _growing = self.growing.lock();
        let mapped = self.size();
        if needed <= mapped {
            return true;
        }
        let Backing::File { file, .. } = &self.backing else { return false };
        // All that is in the file, and nothing else: who touches that would die.
        let found = file.metadata().map_or(0, |found| found.len());
        let page = rustix::param::page_size() as u64;
        let target = (found / page * page).min(self.reservation.bytes);
        if target < needed || self.map(mapped..target).is_err() {
            return false;
        }
        if let Some(watch) = &self.watch {
            watch.set_mapped(target);
        }
        self.size.store(target, Ordering::Release);
        true
    }

    /// An error if somebody has truncated the file. Growing it would put zeros in place of what is missing, and nobody
    /// would notice.
    fn demand_length(&self, file: &File, mapped: u64) -> io::Result<()> {
        let found = file.metadata()?.len();
        if found < mapped {
            if let Some(watch) = &self.watch {
                watch.fail();
            }
            return Err(io::Error::other(format!(
                "the file has {found} bytes, and the pool {mapped}: another program has truncated it"
            )));
        }
        self.demand_whole()
    }

    /// [`Medium::give_back`].
    pub(super) fn give_pages_back(&self, range: Range<u64>) -> bool {
        let page = rustix::param::page_size() as u64;
        let pages = range.start.next_multiple_of(page)..range.end.min(self.size()) / page * page;
        if pages.is_empty() {
            return false;
        }
        match &self.backing {
            Backing::File { writable: false, .. } => false,
            Backing::File { file, .. } => give_back(file.as_fd(), pages).is_ok(),
            Backing::Anonymous => {
                let address = self.at(Offset(pages.start)).cast();
                let bytes = (pages.end - pages.start) as usize;
                // SAFETY: the range is mapped. It reads as zero afterwards, and the caller knows that nobody needs what
                // was there.
                unsafe { rustix::mm::madvise(address, bytes, Advice::LinuxDontNeed) }.is_ok()
            }
        }
    }

    /// [`Medium::take_back`].
    pub(super) fn take_pages_back(&self, range: Range<u64>) -> Result<(), SpaceError> {
        let Backing::File { file, .. } = &self.backing else { return Ok(()) };
        let needed_bytes = range.end - range.start;
        let io = |source| SpaceError::Io { needed_bytes, source };
        // Taking space beyond the end of a truncated file would lengthen it.
        self.demand_length(file, self.size()).map_err(io)?;
        allocate(file.as_fd(), range).map_err(|error| SpaceError::refused(needed_bytes, error))
    }

    /// [`Medium::populate`].
    pub(super) fn touch(&self, range: Range<u64>) {
        let page = rustix::param::page_size() as u64;
        let end = range.end.min(self.size()) / page * page;
        let mut from = range.start.next_multiple_of(page);
        while from < end {
            let bytes = (end - from).min(POPULATE_STEP_BYTES);
            let address = self.at(Offset(from)).cast();
            // SAFETY: the range is mapped; populating changes no content.
            let populated =
                unsafe { rustix::mm::madvise(address, bytes as usize, Advice::LinuxPopulateWrite) };
            if populated.is_err() {
                return;
            }
            from += bytes;
            // This is done beside writers: where one shares the processor, it goes on now and not
            // after a whole slice of the scheduler's.
            std::thread::sleep(POPULATE_PAUSE);
        }
    }

    /// [`Medium::read_ahead`].
    pub(super) fn read_pages_ahead(&self, range: Range<u64>) {
        let Backing::File { file, .. } = &self.backing else { return };
        let bytes = range.end.min(self.size()).saturating_sub(range.start);
        if self.is_for_huge_pages() || !fits_in_memory(bytes) {
            return;
        }
        for from in (range.start..range.start + bytes).step_by(READ_AHEAD_BYTES as usize) {
            let step = NonZeroU64::new(READ_AHEAD_BYTES);
            let _ = rustix::fs::fadvise(file, from, step, rustix::fs::Advice::WillNeed);
        }
    }

    #[cold]
    fn beyond_limit(&self, needed_bytes: u64) -> SpaceError {
        if !self.lacks_addresses {
            return SpaceError::beyond_limit(needed_bytes, self.size_max);
        }
        let reserved = format!("{} bytes of addresses are reserved for it", self.reservation.bytes);
        let reason = match limits::address_bytes_max() {
            Some(limit) => format!(
                "{reserved}, its part of the {limit} that the process may have: raise that limit (`ulimit -v`), and open \
                 the pool again"
            ),
            None => format!("{reserved}, a tebibyte or else what the system grants"),
        };
        SpaceError::Full { needed_bytes, reason }
    }
}

pub(super) fn round_to_page(size: u64) -> u64 {
    size.next_multiple_of(rustix::param::page_size() as u64)
}
