//! Pool files: created whole or not at all, locked, and told from their copies.

mod access;
mod boot;
mod cow;
mod held;
mod inherited;
mod located;
mod look;
mod names;
mod ownership;
mod place;
mod safe;
mod sums;
#[cfg(test)]
mod tests;
mod unnamed;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
mod withheld;

use crate::arena::vacant_range;
use crate::error::{OpenError, SpaceError};
use crate::heap::salvage::Remains;
use crate::heap::vacant_ranges;
use crate::medium::{CacheFlush, Dax, Mapped, Memory, allocate, give_back, has_space, is_written};
use crate::superblock::{Place, Superblock};
use crate::sync::forks;
pub use access::Access;
pub(crate) use boot::mark as mark_boot;
use held::Registration;
use inherited::GivenUp;
pub use located::Located;
use located::{id_of, is_directory, is_file};
use names::io_error;
pub use ownership::Ownership;
use place::place;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub(crate) use safe::{BEGINNING_BYTES, is_ours};
pub use safe::{Displaced, Found as FoundSafe, SafeDirectory};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
pub use sums::Verified;
use unnamed::Unnamed;
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub(crate) use withheld::Withheld;

/// A file that was replaced this often in a row is being replaced all the time.
const CLAIMS_MAX: usize = 100;

/// A locked pool file. The lock lives as long as this value and every medium made from it.
#[derive(Debug)]
pub struct PoolFile {
    /// Dropped before the file is closed: after that another file may get its inode.
    registration: Registration,
    file: File,
    located: Located,
    access: Access,
    place: Place,
    unnamed: Option<Unnamed>,
    forks_at_open: u32,
    /// What of the pool needs no space of the file, in order.
    vacant: Vec<Range<u64>>,
    /// Whether its last opening for writing found it in this place, in this boot: then it is no copy.
    is_in_its_place: bool,
}

impl Remains for PoolFile {
    fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        self.read_exact_at(bytes, at).is_ok()
    }

    fn len(&self) -> u64 {
        PoolFile::len(self).unwrap_or(0)
    }
}

impl PoolFile {
    /// A new, empty, locked file that [`PoolFile::publish`] will put at `path`. Until then no other process sees it,
    /// and a crash leaves nothing behind (on file systems without O_TMPFILE: a file with a random name, which the next
    /// creation at `path` removes).
    pub fn create(path: &Path) -> Result<PoolFile, OpenError> {
        Self::create_at(&Located::new(path)?)
    }

    /// The same in a directory that is held.
    pub fn create_at(located: &Located) -> Result<PoolFile, OpenError> {
        if located.exists() {
            return Err(OpenError::Exists { path: located.path().into() });
        }
        Self::created(unnamed::make(located)?, located)
    }

    /// As [`PoolFile::create`], as if the file system did not support O_TMPFILE.
    #[cfg(test)]
    fn create_temporary(path: &Path) -> Result<PoolFile, OpenError> {
        let located = Located::new(path)?;
        Self::created(unnamed::make_temporary(&located)?, &located)
    }

    fn created((file, unnamed): (File, Unnamed), located: &Located) -> Result<PoolFile, OpenError> {
        cow::write_in_place(&file);
        let claimed = claim(&file, located, Access::Write);
        let (place, registration) = claimed.inspect_err(|_| unnamed.discard())?;
        Ok(PoolFile {
            file,
            located: located.clone(),
            access: Access::Write,
            place,
            unnamed: Some(unnamed),
            forks_at_open: forks(),
            vacant: Vec::new(),
            is_in_its_place: false,
            registration,
        })
    }

    /// A new, empty, locked file that [`PoolFile::publish_over`] will put in place of this one, with its owner, group
    /// and permissions.
    pub fn replacement(&self) -> Result<PoolFile, OpenError> {
        let ownership = self.ownership()?;
        ownership.demand(self.path())?;
        let new = Self::created(unnamed::make_temporary(&self.located)?, &self.located)?;
        new.set_ownership(ownership)?;
        Ok(new)
    }

    /// Gives a replacement the name of what it replaces.
    pub fn publish_over(&mut self) -> Result<(), OpenError> {
        let io = io_error("naming", self.path());
        if let Some(unnamed) = self.unnamed.take() {
            unnamed.replace(&self.located).map_err(|error| io(error.into()))?;
        }
        self.located.sync_directory().map_err(io)
    }

    /// Locks the file that `path` leads to for writing, whatever it holds.
    pub fn claim(path: &Path) -> Result<PoolFile, OpenError> {
        Self::claim_at(&followed(path)?, Access::Write)
    }

    /// Locks the file that `path` leads to against writers, whatever it holds.
    pub fn claim_to_read(path: &Path) -> Result<PoolFile, OpenError> {
        Self::claim_at(&followed(path)?, Access::Read)
    }

    /// Bytes of the file.
    pub fn len(&self) -> Result<u64, OpenError> {
        let metadata = self.file.metadata().map_err(io_error("looking at", self.path()))?;
        Ok(metadata.len())
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> Result<bool, OpenError> {
        Ok(self.len()? == 0)
    }

    /// Fills `bytes` from the file's bytes at `at` on.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, at)
    }

    /// Locks an existing file, whatever it holds.
    pub fn claim_at(located: &Located, access: Access) -> Result<PoolFile, OpenError> {
        for _ in 0..CLAIMS_MAX {
            let file = open_regular(located, access)?;
            // Between the two somebody may put another file in this one's place.
            if let Some(claimed) = Self::claimed_if_named(file, located, access)? {
                return Ok(claimed);
            }
        }
        Err(busy(located.path()))
    }

    /// `None` if the file has lost the name: a lock on it would keep no other process out.
    fn claimed_if_named(
        file: File,
        located: &Located,
        access: Access,
    ) -> Result<Option<PoolFile>, OpenError> {
        let (place, registration) = claim(&file, located, access)?;
        // From here on dropping it unlocks.
        let claimed = PoolFile {
            file,
            located: located.clone(),
            access,
            place,
            unnamed: None,
            forks_at_open: forks(),
            vacant: Vec::new(),
            is_in_its_place: false,
            registration,
        };
        Ok(located.is_of(&claimed.file).then_some(claimed))
    }

    /// Whether the file holds nothing: it is empty, or its first bytes are zeros, as a file may be of which nothing
    /// had reached the disk when the power failed.
    pub fn is_blank(&self) -> Result<bool, OpenError> {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; crate::superblock::SUPERBLOCK_BYTES as usize];
        let read = self.file.read_at(&mut bytes, 0).map_err(io_error("reading", self.path()))?;
        Ok(bytes[..read].iter().all(|&byte| byte == 0))
    }

    /// Whether the file lies in memory, and so is gone after power loss.
    pub fn is_in_memory(&self) -> bool {
        rustix::fs::fstatfs(&self.file).is_ok_and(|system| keeps_files_in_memory(&system))
    }

    /// As [`PoolFile::is_in_memory`], of the file at `path`.
    pub fn is_in_memory_at(path: &Path) -> bool {
        rustix::fs::statfs(path).is_ok_and(|system| keeps_files_in_memory(&system))
    }

    /// Whether what is stored in the file at `path` is put elsewhere than what it replaces, so that a full file system
    /// ends the process by SIGBUS.
    pub fn is_copied_on_write(path: &Path) -> bool {
        cow::is_copied(path)
    }

    /// The superblock that it holds.
    pub fn superblock(&self) -> Result<Superblock, OpenError> {
        look::superblock(&self.file, io_error("reading", self.path()))
    }

    /// Gives the file this owner, group and permissions.
    pub fn set_ownership(&self, ownership: Ownership) -> Result<(), OpenError> {
        ownership.give(&self.file).map_err(io_error("protecting", self.path()))
    }

    /// Its owner, group and permissions.
    pub fn ownership(&self) -> Result<Ownership, OpenError> {
        Ownership::of(&self.file).map_err(io_error("looking at", self.path()))
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        self.located.path()
    }

    /// Where it is.
    pub fn located(&self) -> &Located {
        &self.located
    }

    /// Whether the name by which it was opened is still its own.
    pub fn has_its_name(&self) -> bool {
        self.located.is_of(&self.file)
    }

    /// Whether it was created and has no name yet.
    pub fn is_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Gives a created file its name, which must still be free, and makes that durable. If it cannot be made durable,
    /// the name is taken back.
    pub fn publish(&mut self) -> Result<(), OpenError> {
        let io = io_error("naming", self.path());
        let Some(unnamed) = self.unnamed.take() else { return Ok(()) };
        unnamed.name(&self.file, &self.located).map_err(|error| match error {
            Errno::EXIST => OpenError::Exists { path: self.path().into() },
            error => io(error.into()),
        })?;
        self.located.sync_directory().map_err(|error| {
            self.withdraw();
            io(error)
        })
    }

    /// Takes the name from a file that was created and could not be completed. It is locked, so nobody has used it.
    pub fn withdraw(&self) {
        if self.has_its_name() {
            // If this fails, too, a pool is left that the caller is told of.
            let _ = self.located.unlink();
        }
    }

    /// Removes the file, if it still has its name.
    pub fn remove(self) -> Result<(), OpenError> {
        let io = io_error("removing", self.path());
        if self.has_its_name() {
            self.located.unlink().map_err(|error| io(error.into()))?;
        }
        self.located.sync_directory().map_err(io)
    }

    /// Opens and locks an existing file and reads its superblock.
    pub fn open(path: &Path, access: Access) -> Result<(PoolFile, Superblock), OpenError> {
        Self::open_at(&followed(path)?, access)
    }

    /// The same in a directory that is held.
    pub fn open_at(located: &Located, access: Access) -> Result<(PoolFile, Superblock), OpenError> {
        let mut pool_file = Self::claim_at(located, access).map_err(|error| match error {
            OpenError::NotWritable { path, source, .. } => {
                let needs_recovery = Self::inspect_at(located).is_ok_and(|found| !found.clean);
                OpenError::NotWritable { path, needs_recovery, source }
            }
            error => error,
        })?;
        let superblock = look::superblock(&pool_file.file, io_error("reading", located.path()))?;
        if access == Access::Write {
            pool_file.vacant = pool_file.vacant_in(&superblock);
            pool_file.is_in_its_place = superblock.place == pool_file.place;
        }
        Ok((pool_file, superblock))
    }

    /// Gives back the space of what needs none in the pool that was just restored into the file.
    pub fn give_vacant_back(&mut self, superblock: &Superblock) {
        self.vacant = self.vacant_in(superblock);
        for range in &self.vacant {
            // A file that stays larger than it has to be harms nothing.
            let _ = give_back(self.file.as_fd(), range.clone());
        }
    }

    /// The ranges of the pool in the file that need no space, in order.
    fn vacant_in(&self, superblock: &Superblock) -> Vec<Range<u64>> {
        match vacant_range(superblock) {
            Some(range) => vec![range],
            None => vacant_ranges(superblock, self),
        }
    }

    /// Reads the superblock of a file without locking it: what it says may be out of date at
    /// once.
    pub fn inspect(path: &Path) -> Result<Superblock, OpenError> {
        Self::inspect_at(&followed(path)?)
    }

    /// The same in a directory that is held.
    pub fn inspect_at(located: &Located) -> Result<Superblock, OpenError> {
        let file = open_regular(located, Access::Read)?;
        look::superblock(&file, io_error("reading", located.path()))
    }

    /// The pool in a file that another process has locked and writes to, mapped for reading; whose the file is, and its
    /// inode.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    pub fn beside(
        located: &Located,
        size_max: impl FnOnce(u64) -> u64,
    ) -> Result<(crate::Pool<Mapped>, Ownership, u64), OpenError> {
        let file = open_regular(located, Access::Read)?;
        let io = io_error("looking at", located.path());
        let superblock = look::superblock(&file, &io)?;
        let (place, ownership) =
            (place(&file, located.path())?, Ownership::of(&file).map_err(&io)?);
        let (end, size_max) = (superblock.end, size_max(superblock.end));
        let mapped = Memory::mapped(file, end, size_max, false).map_err(&io)?;
        Ok((crate::Pool::open_beside(mapped, place)?, ownership, place.inode))
    }

    /// Where the file at `path` is, and this boot.
    pub fn place_of(path: &Path) -> Result<Place, OpenError> {
        place(&open_regular(&followed(path)?, Access::Read)?, path)
    }

    /// Where the file is, and this boot.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Fails where the file is not on a DAX file system, or the processor cannot flush what is stored there.
    pub fn probe_dax(&self) -> Result<CacheFlush, OpenError> {
        self.map_sync()
            .map_err(|error| OpenError::NoDax { path: self.path().into(), source: error.into() })?;
        CacheFlush::detect().ok_or(OpenError::Unsupported {
            missing: "an instruction that flushes a line, without which the medium `dax` promises nothing",
        })
    }

    fn map_sync(&self) -> rustix::io::Result<()> {
        use rustix::mm::{MapFlags, ProtFlags};
        let bytes = rustix::param::page_size();
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: a new mapping at an address of the kernel's choice, which is never accessed.
        unsafe {
            let protection = ProtFlags::READ;
            let null = std::ptr::null_mut();
            let map = rustix::mm::mmap(null, bytes, protection, flags, self.file.as_fd(), 0)?;
            rustix::mm::munmap(map, bytes)
        }
    }

    /// The file's `pool_bytes`, allocated again where a sparse copy lost them, as a mapped medium
    /// that may grow to `size_max`. What is vacant stays a hole.
    pub fn mapped(&self, pool_bytes: u64, size_max: u64) -> Result<Mapped, OpenError> {
        let file = self.backed_file(pool_bytes)?;
        Memory::mapped(file, pool_bytes, size_max, self.access == Access::Write)
            .map_err(|error| self.map_error(error))
    }

    /// As [`PoolFile::mapped`], with MAP_SYNC.
    pub fn dax(&self, pool_bytes: u64, size_max: u64) -> Result<Dax, OpenError> {
        let flush = self.probe_dax()?;
        let file = self.backed_file(pool_bytes)?;
        Memory::dax(file, pool_bytes, size_max, self.access == Access::Write, flush)
            .map_err(|error| self.map_error(error))
    }

    fn map_error(&self, error: io::Error) -> OpenError {
        match error.kind() {
            io::ErrorKind::Unsupported if !crate::pair::is_supported() => {
                OpenError::Unsupported { missing: "atomic loads of 16 bytes" }
            }
            _ => io_error("mapping", self.path())(error),
        }
    }

    fn backed_file(&self, pool_bytes: u64) -> Result<File, OpenError> {
        if self.access == Access::Write && pool_bytes > 0 {
            // To a full page: all of it is mapped, and later extents may lie in it.
            let page = rustix::param::page_size() as u64;
            let end = pool_bytes.next_multiple_of(page);
            cow::unshare(&self.file, self.len()?)
                .map_err(|error| SpaceError::refused(pool_bytes, error))?;
            let vacant_bytes: u64 = self.vacant.iter().map(|range| range.end - range.start).sum();
            let file = self.file.as_fd();
            let is_written = match self.is_in_its_place {
                true => has_space(file, end, vacant_bytes),
                false => is_written(file, end),
            };
            let ends = self.vacant.iter().map(|range| range.start).chain([end]);
            let starts = [0].into_iter().chain(self.vacant.iter().map(|range| range.end));
            let ranges = starts.zip(ends).map(|(start, end)| start..end);
            for range in ranges.filter(|_| !is_written) {
                allocate(self.file.as_fd(), range)
                    .map_err(|error| SpaceError::refused(pool_bytes, error))?;
            }
        }
        // A mapping of the locked opening would keep the lock in a forked child.
        let file = self.registration.unlocked().unwrap_or(&self.file);
        file.try_clone().map_err(io_error("opening", self.path()))
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        // A forked child has no say in its parent's file.
        if forks() == self.forks_at_open {
            if let Some(unnamed) = &self.unnamed {
                unnamed.discard();
            }
            // Closing would do, were it not for children: one that was forked, or that has not yet
            // got from fork to exec, has the same lock through its copy of the descriptor.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

fn keeps_files_in_memory(system: &rustix::fs::StatFs) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    [TMPFS, RAMFS].contains(&system.f_type.cast_unsigned())
}

/// Where an existing file is. Without its directory, there is no such file.
fn followed(path: &Path) -> Result<Located, OpenError> {
    Located::followed(path).map_err(|error| match error {
        OpenError::NoDirectory { .. } => OpenError::Missing { path: path.into() },
        error => error,
    })
}

fn open_regular(located: &Located, access: Access) -> Result<File, OpenError> {
    let path = located.path();
    let io = io_error("opening", path);
    let not_a_file = |found| Err(OpenError::NotAFile { path: path.into(), found });
    // Asked before opening: opening a FIFO would wait for its other end.
    match located.stat() {
        Ok(stat) if is_directory(&stat) => return not_a_file("a directory"),
        Ok(stat) if !is_file(&stat) => return not_a_file("a device, pipe, socket or link"),
        Ok(_) => {}
        Err(Errno::NOENT) => return Err(OpenError::Missing { path: path.into() }),
        Err(error) => return Err(io(error.into())),
    }
    let flags = if access == Access::Write { OFlags::RDWR } else { OFlags::RDONLY };
    let file = located.open(flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT => OpenError::Missing { path: path.into() },
        Errno::ACCESS | Errno::PERM | Errno::ROFS if access == Access::Write => {
            OpenError::NotWritable {
                path: path.into(),
                needs_recovery: false,
                source: error.into(),
            }
        }
        error => io(error.into()),
    })?;
    let stat = rustix::fs::fstat(&file).map_err(|error| io(error.into()))?;
    if is_file(&stat) { Ok(file) } else { not_a_file("not a regular file") }
}

fn busy(path: &Path) -> OpenError {
    OpenError::Busy { path: path.into(), advice: "close it there first" }
}

/// Locks a file against other processes and other handles of this one.
fn claim(
    file: &File,
    located: &Located,
    access: Access,
) -> Result<(Place, Registration), OpenError> {
    let path = located.path();
    crate::sync::register_process();
    let io = io_error("locking", path);
    let stat = rustix::fs::fstat(file).map_err(|error| io(error.into()))?;
    let Some(mut registration) = Registration::enter(id_of(&stat), access) else {
        return Err(OpenError::AlreadyOpen { path: path.into() });
    };
    // Before there is a lock: a child that is forked meanwhile gives up what it has no time to inherit.
    registration.set_given_up(GivenUp::by_children(file, Some(located), access));
    let operation = match access {
        Access::Write => FlockOperation::NonBlockingLockExclusive,
        Access::Read => FlockOperation::NonBlockingLockShared,
    };
    rustix::fs::flock(file, operation).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => busy(path),
        error => io(error.into()),
    })?;
    Ok((place(file, path)?, registration))
}
