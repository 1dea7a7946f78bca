//! The disk under a pool's log and checkpoints: a directory of files. The one seam at which a test puts a simulated
//! disk.

pub use super::pages::PAGE_BYTES;
use crate::file::{BEGINNING_BYTES, SafeDirectory, is_ours};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A directory.
///
/// After a crash, a name that was made, moved or removed may be in its former state, unless [`Disk::sync_names`] has
/// returned. A file may have any of the sectors written since its last [`DiskFile::sync`].
pub trait Disk: Send + Sync {
    /// Makes a new, empty file. Its name must be synced. Fails if anything has the name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file. Fails if anything has the other name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file, if there is one and it is the pool's.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes all changes of names durable.
    fn sync_names(&self) -> io::Result<()>;
    /// An error if the pool, or this directory, has lost its name.
    fn demand_names(&self) -> io::Result<()> {
        Ok(())
    }
    /// Whose files these are, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// Whether a file is one that was made for the pool `uuid`; `None` if there is none.
pub(super) fn recognises(disk: &dyn Disk, name: &str, uuid: u128) -> io::Result<Option<bool>> {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if is_of_others(&error) => return Ok(Some(false)),
        Err(error) => return Err(error),
    };
    let mut page = super::pages::Pages::zeroed(PAGE_BYTES);
    let read = file.read_at(page.bytes_mut(), 0)?;
    let beginning = &page.bytes()[..read.min(BEGINNING_BYTES)];
    Ok(Some(is_ours(beginning, file.len()?, uuid)))
}

/// Whether a file that cannot be opened is none that was made for a pool: a link, a directory, a socket, or somebody
/// else's alone.
pub(super) fn is_of_others(error: &io::Error) -> bool {
    let others = [io::ErrorKind::InvalidInput, io::ErrorKind::PermissionDenied];
    others.contains(&error.kind())
        || matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO))
}

/// A file of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// Writes pages. They are durable after the next [`DiskFile::sync`].
    fn write_at(&self, pages: &[u8], at: u64) -> io::Result<()>;
    /// Writes pages, and waits until they, and the length that the file has by them, are durable. Of what was written
    /// elsewhere in the file before nothing is said.
    fn write_durably_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        self.write_at(pages, at)?;
        self.sync()
    }
    /// Reads pages; how many bytes there were.
    fn read_at(&self, pages: &mut [u8], at: u64) -> io::Result<usize>;
    /// Takes space for these bytes.
    fn allocate(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes the file so long, which is shorter than it is.
    fn shorten(&self, bytes: u64) -> io::Result<()>;
    /// Whether nobody may read this file who may not read those that are made from now on.
    fn is_as_private(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Makes everything durable that was written.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is nothing in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// The operating system's, past the page cache where the file system offers that: what is written is not read again,
/// and a log that is as large as its pool would push the pool out of memory.
impl Disk for SafeDirectory {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let name = name.as_ref();
        let file = match SafeDirectory::create(self, name, OFlags::DIRECT) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                // It may have been made before the flag was refused.
                SafeDirectory::remove(self, name)?;
                SafeDirectory::create(self, name, OFlags::empty())?
            }
            made => made?,
        };
        Ok(Box::new(OsFile { file, is_as_private: true }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let name = name.as_ref();
        let file = match SafeDirectory::open(self, name, OFlags::RDWR | OFlags::DIRECT) {
            Err(Errno::INVAL) => SafeDirectory::open(self, name, OFlags::RDWR)?,
            // Who may only read the pool looks at its checkpoint.
            Err(Errno::ACCESS | Errno::ROFS) => SafeDirectory::open(self, name, OFlags::RDONLY)?,
            opened => opened?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let is_as_private = self.is_as_private(&file)?;
        Ok(Box::new(OsFile { file, is_as_private }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        SafeDirectory::rename(self, from.as_ref(), to.as_ref())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        SafeDirectory::remove(self, name.as_ref())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        // What is no text is no file of the log's.
        let names = SafeDirectory::names(self)?.into_iter();
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        SafeDirectory::sync_names(self)
    }

    fn demand_names(&self) -> io::Result<()> {
        SafeDirectory::demand_names(self).map_err(io::Error::other)
    }

    fn path(&self, name: &str) -> PathBuf {
        SafeDirectory::path(self).join(name)
    }
}

struct OsFile {
    file: File,
    is_as_private: bool,
}

impl DiskFile for OsFile {
    fn write_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(pages, at)
    }

    /// One call, where the kernel has it: the disk is asked once, and not for a write and then for a flush.
    fn write_durably_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < pages.len() {
            let (rest, at) = ([IoSlice::new(&pages[done..])], at + done as u64);
            match pwritev2(&self.file, &rest, at, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.write_at(&pages[done..], at)?;
                    return self.sync();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_at(&self, pages: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < pages.len() {
            match self.file.read_at(&mut pages[done..], at + done as u64) {
                Ok(0) => break,
                // What is not a whole page is the end of the file: reading on would be unaligned.
                Ok(bytes) if bytes % PAGE_BYTES != 0 => return Ok(done + bytes),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        Ok(crate::medium::allocate_for_writes(self.file.as_fd(), range)?)
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn is_as_private(&self) -> io::Result<bool> {
        Ok(self.is_as_private)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::pages::Pages;
    use crate::file::PoolFile;

    const UUID: u128 = 7;

    fn page(beginning: &[u8]) -> Pages {
        let mut page = Pages::zeroed(PAGE_BYTES);
        page.bytes_mut()[..beginning.len()].copy_from_slice(beginning);
        page
    }

    fn beginning(uuid: u128) -> Vec<u8> {
        [&b"FIRNSEG\0"[..], &1_u64.to_le_bytes(), &uuid.to_le_bytes()].concat()
    }

    #[test]
    fn a_directory_is_a_disk() {
        let temporary = tempfile::tempdir().unwrap();
        let mut pool = PoolFile::create(&temporary.path().join("pool")).unwrap();
        pool.publish().unwrap();
        let at = pool.located().safe(None).unwrap();
        let mut safe = SafeDirectory::make(&at, UUID, pool.ownership().unwrap()).unwrap();
        safe.belong_to(&pool).unwrap();
        let disk: &dyn Disk = &safe;
        let file = disk.create("log.1").unwrap();
        let own = page(&beginning(UUID));
        file.write_durably_at(own.bytes(), 0).unwrap();
        file.allocate(0..4 * PAGE_BYTES as u64).unwrap();
        file.write_at(own.bytes(), 2 * PAGE_BYTES as u64).unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        assert_eq!(file.len().unwrap(), 4 * PAGE_BYTES as u64);
        assert!(file.is_as_private().unwrap());
        disk.rename("log.1", "log.2").unwrap();
        let again = disk.open("log.2").unwrap();
        let mut read = Pages::zeroed(5 * PAGE_BYTES);
        assert_eq!(again.read_at(read.bytes_mut(), PAGE_BYTES as u64).unwrap(), 3 * PAGE_BYTES);
        assert_eq!(read.bytes()[PAGE_BYTES..2 * PAGE_BYTES], *own.bytes());
        again.shorten(PAGE_BYTES as u64).unwrap();
        assert_eq!(file.len().unwrap(), PAGE_BYTES as u64);
        assert_eq!(recognises(disk, "log.1", UUID).unwrap(), None);
        assert_eq!(recognises(disk, "log.2", UUID).unwrap(), Some(true));
        assert_eq!(recognises(disk, "log.2", UUID + 1).unwrap(), Some(false));
        disk.remove("log.2").unwrap();
        disk.remove("log.2").unwrap();
        assert_eq!(disk.names().unwrap(), ["identity"]);
    }

    #[test]
    fn what_is_not_the_pool_s_is_left_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let mut pool = PoolFile::create(&temporary.path().join("pool")).unwrap();
        pool.publish().unwrap();
        let at = pool.located().safe(None).unwrap();
        let mut safe = SafeDirectory::make(&at, UUID, pool.ownership().unwrap()).unwrap();
        safe.belong_to(&pool).unwrap();
        let inside = |name: &str| at.path().join(name);
        std::fs::write(inside("log.1"), beginning(UUID + 1)).unwrap();
        std::fs::create_dir(inside("log.2")).unwrap();
        std::os::unix::fs::symlink(pool.path(), inside("log.3")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, inside("log.4"), 0o600.into()).unwrap();
        let disk: &dyn Disk = &safe;
        disk.create("log.9").unwrap();
        for name in ["log.1", "log.2", "log.3", "log.4"] {
            assert_eq!(recognises(disk, name, UUID).unwrap(), Some(false), "{name}");
            let taken = disk.create(name).map(drop).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists, "{name}");
            let taken = disk.rename("log.9", name).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists, "{name}");
            disk.remove(name).unwrap();
        }
        assert_eq!(disk.names().unwrap().len(), 6);
    }
}
