//! Pool files: created whole or not at all, locked, and told from their copies.

mod access;
mod boot;
mod cow;
mod held;
mod inherited;
mod look;
mod names;
mod sums;
mod unnamed;

use crate::error::{OpenError, SpaceError};
use crate::heap::salvage::Remains;
use crate::heap::vacant_ranges;
use crate::medium::{CacheFlush, Dax, Mapped, Memory, allocate, give_back};
use crate::superblock::{Place, Superblock};
use crate::sync::forks;
pub use access::Access;
pub(crate) use boot::mark as mark_boot;
use held::Registration;
use inherited::GivenUp;
use names::{directory_of, io_error, leads_to};
use rustix::fs::{FileType, FlockOperation};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
pub use sums::Verified;
use unnamed::Unnamed;

/// A file that was replaced this often in a row is being replaced all the time.
const CLAIMS_MAX: usize = 100;

/// A locked pool file. The lock lives as long as this value and every medium made from it.
#[derive(Debug)]
pub struct PoolFile {
    /// Dropped before the file is closed: after that another file may get its inode.
    registration: Registration,
    file: File,
    path: PathBuf,
    access: Access,
    place: Place,
    unnamed: Option<Unnamed>,
    forks_at_open: u32,
    /// What of the pool needs no space of the file, in order.
    vacant: Vec<Range<u64>>,
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
        if path.symlink_metadata().is_ok() {
            return Err(OpenError::Exists { path: path.into() });
        }
        let directory = directory_of(path);
        if !directory.is_dir() {
            return Err(OpenError::NoDirectory { path: directory.into() });
        }
        Self::created(unnamed::make(path)?, path)
    }

    /// As [`PoolFile::create`], as if the file system did not support O_TMPFILE.
    #[cfg(test)]
    fn create_temporary(path: &Path) -> Result<PoolFile, OpenError> {
        Self::created(unnamed::make_temporary(path)?, path)
    }

    fn created((file, unnamed): (File, Unnamed), path: &Path) -> Result<PoolFile, OpenError> {
        cow::write_in_place(&file);
        let claimed = claim(&file, path, Access::Write);
        let (place, registration) = claimed.inspect_err(|_| unnamed.discard())?;
        Ok(PoolFile {
            file,
            path: path.into(),
            access: Access::Write,
            place,
            unnamed: Some(unnamed),
            forks_at_open: forks(),
            vacant: Vec::new(),
            registration,
        })
    }

    /// A new, empty, locked file that [`PoolFile::publish`] will put in place of this one.
    pub fn replacement(&self) -> Result<PoolFile, OpenError> {
        Self::created(unnamed::make_temporary(&self.path)?, &self.path)
    }

    /// Gives a replacement the name of what it replaces.
    pub fn publish_over(&mut self) -> Result<(), OpenError> {
        let io = io_error("naming", &self.path);
        if let Some(unnamed) = self.unnamed.take() {
            unnamed.replace(&self.path).map_err(|error| io(error.into()))?;
        }
        let directory = File::open(directory_of(&self.path)).map_err(&io)?;
        directory.sync_all().map_err(&io)
    }

    /// Locks an existing file for writing, whatever it holds.
    pub fn claim(path: &Path) -> Result<PoolFile, OpenError> {
        Self::claimed(path, Access::Write)
    }

    /// Locks an existing file against writers, whatever it holds.
    pub fn claim_to_read(path: &Path) -> Result<PoolFile, OpenError> {
        Self::claimed(path, Access::Read)
    }

    /// Bytes of the file.
    pub fn len(&self) -> Result<u64, OpenError> {
        let metadata = self.file.metadata().map_err(io_error("looking at", &self.path))?;
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

    fn claimed(path: &Path, access: Access) -> Result<PoolFile, OpenError> {
        for _ in 0..CLAIMS_MAX {
            let file = open_regular(path, access)?;
            // Between the two somebody may put another file in this one's place.
            if let Some(claimed) = Self::claimed_if_named(file, path, access)? {
                return Ok(claimed);
            }
        }
        Err(OpenError::Busy { path: path.into() })
    }

    /// `None`: the file has the name no longer, so that a lock on it keeps nobody out.
    fn claimed_if_named(
        file: File,
        path: &Path,
        access: Access,
    ) -> Result<Option<PoolFile>, OpenError> {
        let (place, registration) = claim(&file, path, access)?;
        // From here on dropping it unlocks.
        let claimed = PoolFile {
            file,
            path: path.into(),
            access,
            place,
            unnamed: None,
            forks_at_open: forks(),
            vacant: Vec::new(),
            registration,
        };
        Ok(leads_to(path, &claimed.file).then_some(claimed))
    }

    /// Whether the file holds nothing: it is empty, or its first bytes are zeros, as a file may be of which nothing
    /// had reached the disk when the power failed.
    pub fn is_blank(&self) -> Result<bool, OpenError> {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; crate::superblock::SUPERBLOCK_BYTES as usize];
        let read = self.file.read_at(&mut bytes, 0).map_err(io_error("reading", &self.path))?;
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
        look::superblock(&self.file, io_error("reading", &self.path))
    }

    /// Gives the file these permissions.
    pub fn set_mode(&self, mode: u32) -> Result<(), OpenError> {
        use std::os::unix::fs::PermissionsExt;
        let permissions = std::fs::Permissions::from_mode(mode);
        self.file.set_permissions(permissions).map_err(io_error("protecting", &self.path))
    }

    /// Its permissions.
    pub fn mode(&self) -> Result<u32, OpenError> {
        use std::os::unix::fs::MetadataExt;
        let metadata = self.file.metadata().map_err(io_error("looking at", &self.path))?;
        Ok(metadata.mode() & 0o777)
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was created and has no name yet.
    pub fn is_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    /// Gives a created file its name, which must still be free, and makes that durable.
    pub fn publish(&mut self) -> Result<(), OpenError> {
        let io = io_error("naming", &self.path);
        let Some(unnamed) = self.unnamed.take() else { return Ok(()) };
        unnamed.name(&self.file, &self.path).map_err(|error| match error {
            rustix::io::Errno::EXIST => OpenError::Exists { path: self.path.clone() },
            error => io(error.into()),
        })?;
        let directory = File::open(directory_of(&self.path)).map_err(&io)?;
        directory.sync_all().map_err(&io)
    }

    /// Opens and locks an existing file and reads its superblock.
    pub fn open(path: &Path, access: Access) -> Result<(PoolFile, Superblock), OpenError> {
        let mut pool_file = Self::claimed(path, access).map_err(|error| match error {
            OpenError::NotWritable { path, source, .. } => {
                let needs_recovery = Self::inspect(&path).is_ok_and(|found| !found.clean);
                OpenError::NotWritable { path, needs_recovery, source }
            }
            error => error,
        })?;
        let superblock = look::superblock(&pool_file.file, io_error("reading", path))?;
        if access == Access::Write {
            pool_file.vacant = vacant_ranges(&superblock, &pool_file);
        }
        Ok((pool_file, superblock))
    }

    /// Gives back the space of what needs none in the pool that was just restored into the file.
    pub fn give_vacant_back(&mut self, superblock: &Superblock) {
        self.vacant = vacant_ranges(superblock, self);
        for range in &self.vacant {
            // A file that stays larger than it has to be harms nothing.
            let _ = give_back(self.file.as_fd(), range.clone());
        }
    }

    /// Reads the superblock of a file without locking it: what it says may be out of date at
    /// once.
    pub fn inspect(path: &Path) -> Result<Superblock, OpenError> {
        look::superblock(&open_regular(path, Access::Read)?, io_error("reading", path))
    }

    /// Where the file at `path` is, and this boot.
    pub fn place_of(path: &Path) -> Result<Place, OpenError> {
        place(&open_regular(path, Access::Read)?, path)
    }

    /// Where the file is, and this boot.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Fails where the file is not on a DAX file system, or the processor cannot flush what is stored there.
    pub fn probe_dax(&self) -> Result<CacheFlush, OpenError> {
        self.map_sync()
            .map_err(|error| OpenError::NoDax { path: self.path.clone(), source: error.into() })?;
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
            _ => io_error("mapping", &self.path)(error),
        }
    }

    fn backed_file(&self, pool_bytes: u64) -> Result<File, OpenError> {
        if self.access == Access::Write && pool_bytes > 0 {
            // To a full page: all of it is mapped, and later extents may lie in it.
            let page = rustix::param::page_size() as u64;
            let end = pool_bytes.next_multiple_of(page);
            cow::unshare(&self.file, self.len()?)
                .map_err(|error| SpaceError::refused(pool_bytes, error))?;
            let ends = self.vacant.iter().map(|range| range.start).chain([end]);
            let starts = [0].into_iter().chain(self.vacant.iter().map(|range| range.end));
            for range in starts.zip(ends).map(|(start, end)| start..end) {
                allocate(self.file.as_fd(), range)
                    .map_err(|error| SpaceError::refused(pool_bytes, error))?;
            }
        }
        // A mapping of the locked opening would keep the lock in a forked child.
        let file = self.registration.unlocked().unwrap_or(&self.file);
        file.try_clone().map_err(io_error("opening", &self.path))
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

fn open_regular(path: &Path, access: Access) -> Result<File, OpenError> {
    let io = io_error("opening", path);
    let not_a_file = |found| Err(OpenError::NotAFile { path: path.into(), found });
    // Asked before opening: opening a FIFO would wait for its other end.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return not_a_file("a directory"),
        Ok(metadata) if !metadata.is_file() => return not_a_file("a device, pipe or socket"),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::Missing { path: path.into() });
        }
        Err(error) => return Err(io(error)),
    }
    let opened = File::options().read(true).write(access == Access::Write).open(path);
    let file = opened.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OpenError::Missing { path: path.into() },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            if access == Access::Write =>
        {
            OpenError::NotWritable { path: path.into(), needs_recovery: false, source }
        }
        _ => io(source),
    })?;
    let stat = rustix::fs::fstat(&file).map_err(|error| io(error.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => not_a_file("not a regular file"),
    }
}

/// Locks a file against other processes and other handles of this one.
fn claim(file: &File, path: &Path, access: Access) -> Result<(Place, Registration), OpenError> {
    crate::sync::register_process();
    let io = io_error("locking", path);
    let stat = rustix::fs::fstat(file).map_err(|error| io(error.into()))?;
    let Some(mut registration) = Registration::enter((stat.st_dev, stat.st_ino), access) else {
        return Err(OpenError::AlreadyOpen { path: path.into() });
    };
    // Before there is a lock: a child that is forked meanwhile gives up what it has no time to inherit.
    registration.set_given_up(GivenUp::by_children(file, path, access));
    let operation = match access {
        Access::Write => FlockOperation::NonBlockingLockExclusive,
        Access::Read => FlockOperation::NonBlockingLockShared,
    };
    rustix::fs::flock(file, operation).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => OpenError::Busy { path: path.into() },
        error => io(error.into()),
    })?;
    Ok((place(file, path)?, registration))
}

fn place(file: &File, path: &Path) -> Result<Place, OpenError> {
    let io = io_error("looking at", path);
    let stat = rustix::fs::fstat(file).map_err(|error| io(error.into()))?;
    let vfs = rustix::fs::fstatvfs(file).map_err(|error| io(error.into()))?;
    let recorded = || look::superblock(file, &io).ok().map(|found| found.place.boot_id);
    let file_system = file_system(vfs.f_fsid, stat.st_dev);
    Ok(Place { boot_id: boot::id(file, recorded), inode: stat.st_ino, file_system })
}

/// A file system and the device that it is on: a snapshot of it has the same id on another device, and the snapshot's
/// files have nothing of what was still in memory. What lies on no device has a number in place of one, which may be
/// another one after each mount.
fn file_system(id: u64, device: u64) -> u64 {
    if rustix::fs::major(device) == 0 { id } else { id ^ device.rotate_left(32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_created_file_appears_only_when_published() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        drop(PoolFile::create(&path).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let mut file = PoolFile::create(&path).unwrap();
        file.publish().unwrap();
        assert!(path.is_file());
        assert!(matches!(PoolFile::create(&path), Err(OpenError::Exists { .. })));
    }

    /// An opener is held up between opening and locking, while another one restores the pool, which is then in use.
    #[test]
    fn a_file_that_was_replaced_is_not_taken_for_the_pool() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        PoolFile::create(&path).unwrap().publish().unwrap();
        let late = open_regular(&path, Access::Write).unwrap();
        let former = PoolFile::claim(&path).unwrap();
        let mut new = former.replacement().unwrap();
        new.publish_over().unwrap();
        drop(former);
        assert!(PoolFile::claimed_if_named(late, &path, Access::Write).unwrap().is_none());
        assert!(matches!(PoolFile::claim(&path), Err(OpenError::AlreadyOpen { .. })));
        drop(new);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        PoolFile::claim(&link).unwrap();
    }

    #[test]
    fn the_second_of_two_creators_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let mut first = PoolFile::create(&path).unwrap();
        let mut second = PoolFile::create(&path).unwrap();
        first.publish().unwrap();
        assert!(matches!(second.publish(), Err(OpenError::Exists { .. })));
    }

    /// The outcomes of threads that create one file at once: exactly one may name it, and to the others it
    /// is one that exists, whichever way it is made.
    fn outcomes(create: fn(&Path) -> Result<PoolFile, OpenError>) {
        const THREADS: usize = 4;
        let directory = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let path = directory.path().join(round.to_string());
            let barrier = std::sync::Barrier::new(THREADS);
            let race = || {
                barrier.wait();
                let created = create(&path).and_then(|mut file| file.publish().map(|()| file));
                barrier.wait();
                created.map(drop)
            };
            let outcomes: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(race)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(
                outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
                1,
                "{outcomes:?}"
            );
            for error in outcomes.into_iter().filter_map(Result::err) {
                assert!(matches!(error, OpenError::Exists { .. }), "{error:?}");
            }
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), round + 1);
        }
    }

    #[test]
    fn threads_that_create_one_file_at_once() {
        outcomes(PoolFile::create);
        outcomes(PoolFile::create_temporary);
    }

    /// The next file may get the inode of one that is just being given up.
    #[test]
    fn files_that_are_given_up_stand_in_nobody_s_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let create_and_give_up = || {
            for _ in 0..2000 {
                drop(PoolFile::create(&path).unwrap());
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(create_and_give_up)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn a_leftover_of_a_dead_creator_stops_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let leftover = format!("pool.creating-{}", std::process::id());
        std::fs::write(directory.path().join(leftover), "").unwrap();
        PoolFile::create_temporary(&path).unwrap().publish().unwrap();
        assert!(path.is_file());
    }

    #[test]
    fn what_is_not_a_pool_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let open = |path: &Path| PoolFile::open(path, Access::Write).unwrap_err();
        assert!(matches!(open(&path), OpenError::Missing { .. }));
        assert!(matches!(open(directory.path()), OpenError::NotAFile { .. }));
        assert!(matches!(open(Path::new("/dev/null")), OpenError::NotAFile { .. }));
        let nowhere = directory.path().join("no/such/pool");
        assert!(matches!(PoolFile::create(&nowhere), Err(OpenError::NoDirectory { .. })));
        std::fs::write(&path, b"").unwrap();
        assert!(open(&path).to_string().contains("empty"));
        std::fs::write(&path, b"hello").unwrap();
        assert!(matches!(open(&path), OpenError::NotAPool { .. }));
        std::fs::write(&path, vec![1; 100_000]).unwrap();
        assert!(matches!(open(&path), OpenError::NotAPool { .. }));
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        std::fs::write(&path, b"").unwrap();
        let claim_as = |access| {
            let file = open_regular(&path, access).unwrap();
            claim(&file, &path, access).map(|(_, registration)| (file, registration))
        };
        let readers = (claim_as(Access::Read).unwrap(), claim_as(Access::Read).unwrap());
        assert!(matches!(claim_as(Access::Write), Err(OpenError::AlreadyOpen { .. })));
        drop(readers.0);
        assert!(matches!(claim_as(Access::Write), Err(OpenError::AlreadyOpen { .. })));
        drop(readers.1);
        let writer = claim_as(Access::Write).unwrap();
        assert!(matches!(claim_as(Access::Read), Err(OpenError::AlreadyOpen { .. })));
        drop(writer);
        claim_as(Access::Write).unwrap();
    }
}
