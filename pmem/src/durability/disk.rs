//! The disk under a pool's log and checkpoint: a directory of files. The one seam at which a test puts a simulated
//! disk.

use super::held;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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
    /// Frees some of the space of files that lost their names, where that is not done at once. Returns whether there is
    /// more.
    fn free_some(&self) -> bool {
        false
    }
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

/// Space that is freed at a time: less than the log writes while the disk takes it in.
const FREE_STEP_BYTES: u64 = 16 << 20;

/// A directory of the operating system's.
///
/// A file that loses its name stays open, and its space is freed in [steps](Disk::free_some). A file system that tells
/// the disk what is free (mount option `discard`) tells it all at once, and the disk writes nothing else meanwhile: for
/// a former checkpoint of some gigabytes, for 100 ms. After a crash the file system frees what has no name.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    mode: Mode,
    /// Files in whose place others were put. They may get their names back until that is durable.
    replaced: Mutex<Vec<File>>,
    /// Files of which nothing is needed any more.
    useless: Arc<Mutex<Vec<File>>>,
}

impl Directory {
    /// The directory at `path`. Files made in it have the permissions `mode`, less the process's mask: a pool's own,
    /// since they hold what it does.
    pub fn new(path: &Path, mode: u32) -> Directory {
        Directory {
            path: path.to_owned(),
            mode: Mode::from_bits_truncate(mode),
            replaced: Mutex::default(),
            useless: Arc::default(),
        }
    }

    /// The file of this name, if it has much space and no other name.
    fn large(&self, name: &str) -> Option<File> {
        let file = File::options().write(true).open(self.path.join(name)).ok()?;
        let metadata = file.metadata().ok()?;
        let is_large = metadata.is_file() && metadata.len() > FREE_STEP_BYTES;
        (is_large && metadata.nlink() == 1).then_some(file)
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
        Ok(Box::new(OsFile { file: File::from(file), useless: Arc::clone(&self.useless) }))
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
        let replaced = self.large(to);
        std::fs::rename(self.path.join(from), self.path.join(to))?;
        held(&self.replaced).extend(replaced);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.large(name);
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        held(&self.replaced).extend(removed);
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut replaced = held(&self.replaced);
        File::open(&self.path)?.sync_all()?;
        held(&self.useless).append(&mut replaced);
        Ok(())
    }

    fn free_some(&self) -> bool {
        if !held(&self.replaced).is_empty() && self.sync_names().is_err() {
            return false;
        }
        let mut useless = held(&self.useless);
        let Some(file) = useless.last() else { return false };
        let shortened = file.metadata().and_then(|metadata| {
            let rest = metadata.len().saturating_sub(FREE_STEP_BYTES);
            file.set_len(rest)?;
            // The space is told of when this is durable. Left to itself, the file system collects several steps.
            file.sync_data()?;
            Ok(rest)
        });
        // What cannot be shortened is freed when it is closed.
        if shortened.map_or(true, |rest| rest == 0) {
            useless.pop();
        }
        !useless.is_empty()
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
    /// The directory's.
    useless: Arc<Mutex<Vec<File>>>,
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
        let allocate = || crate::medium::allocate_for_writes(self.file.as_fd(), 0..bytes);
        let allocated = allocate().or_else(|refused| {
            let useless = std::mem::take(&mut *held(&self.useless));
            if useless.is_empty() {
                return Err(refused);
            }
            drop(useless);
            allocate()
        });
        Ok(allocated?)
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

    fn links_and_bytes(file: &File) -> (u64, u64) {
        let metadata = file.metadata().unwrap();
        (metadata.nlink(), metadata.len())
    }

    #[test]
    fn space_of_a_replaced_file_is_freed_in_steps_once_that_is_durable() {
        let temporary = tempfile::tempdir().unwrap();
        let disk = Directory::new(temporary.path(), 0o600);
        for (name, steps) in [("current", 3), ("next", 1), ("kept", 2)] {
            disk.create(name).unwrap().allocate(steps * FREE_STEP_BYTES - 4096).unwrap();
        }
        let former = File::open(temporary.path().join("current")).unwrap();
        std::fs::hard_link(temporary.path().join("kept"), temporary.path().join("again")).unwrap();
        disk.rename("next", "current").unwrap();
        // Somebody else has a name of it.
        disk.remove("kept").unwrap();
        assert_eq!(links_and_bytes(&former), (0, 3 * FREE_STEP_BYTES - 4096));
        disk.sync_names().unwrap();
        let mut bytes = vec![];
        while disk.free_some() {
            bytes.push(links_and_bytes(&former).1);
        }
        assert_eq!(bytes, [2 * FREE_STEP_BYTES - 4096, FREE_STEP_BYTES - 4096]);
        assert_eq!(links_and_bytes(&former).1, 0);
        assert_eq!(disk.open("current").unwrap().len().unwrap(), FREE_STEP_BYTES - 4096);
        assert_eq!(disk.open("again").unwrap().len().unwrap(), 2 * FREE_STEP_BYTES - 4096);
    }
}
