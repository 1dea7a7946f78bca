//! The disk under a pool's log and checkpoint: a directory of files. The one seam at which a test puts a simulated
//! disk.

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// All reads and writes are of whole pages of this size, at multiples of it, in memory with this alignment.
pub const PAGE_BYTES: usize = 4096;

/// A directory.
///
/// After a crash, a name that was made, moved or removed may be in its former state, unless [`Disk::sync_names`] has
/// returned. A file may have any of the sectors written since its last [`DiskFile::sync`].
pub trait Disk: Send + Sync {
    /// Makes a new, empty file, in place of an existing one. Its name must be synced. An existing file is not reused:
    /// if a sync of its name has failed, that may never become durable.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, in place of a file with that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file, if there is one.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes all changes of names durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Whether nobody may read a file who may not read those that are made from now on.
    fn is_as_private(&self, _name: &str) -> io::Result<bool> {
        Ok(true)
    }
    /// Whose files these are, for messages.
    fn path(&self, name: &str) -> PathBuf;
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
    /// Takes space for the first `bytes`.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes everything durable that was written.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether there is nothing in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A directory of the operating system's.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    mode: Mode,
}

impl Directory {
    /// The directory at `path`. Files made in it have the permissions `mode`, less the process's mask: a pool's own,
    /// since they hold what it does.
    pub fn new(path: &Path, mode: u32) -> Directory {
        Directory { path: path.to_owned(), mode: Mode::from_bits_truncate(mode) }
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path.join(name);
        let mode = self.mode;
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
        // Past the page cache where the file system offers that: what is written is not read again, and a log that is
        // as large as its pool would push the pool out of memory.
        let file = match rustix::fs::open(&path, flags | OFlags::DIRECT, mode) {
            Err(Errno::INVAL) => rustix::fs::open(&path, flags, mode)?,
            opened => opened?,
        };
        Ok(Box::new(OsFile { file: File::from(file) }))
    }
}

impl Disk for Directory {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.remove(name)?;
        self.open_with(name, OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open_with(name, OFlags::empty())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn is_as_private(&self, name: &str) -> io::Result<bool> {
        let mode = Mode::from_bits_truncate(std::fs::metadata(self.path.join(name))?.mode());
        let everything = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        Ok(self.mode.contains(mode & everything))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

struct OsFile {
    file: File,
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

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        Ok(crate::medium::allocate(self.file.as_fd(), 0..bytes)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
