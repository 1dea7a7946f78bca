//! Where a file is: a name in a directory that is held open.
//!
//! A path means something else after `chdir`, when a link on it is switched, and when a directory is moved. So it is
//! followed once, down to the last directory. From then on names are looked up in that one, wherever it is by now.

use super::names::{directory_of, io_error};
use crate::error::OpenError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many links in a row are followed.
const LINKS_MAX: usize = 40;

/// Device and inode.
pub(crate) type FileId = (u64, u64);

pub(super) fn id_of(stat: &Stat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

/// A name in a directory that is held open. Copies share the directory.
#[derive(Debug, Clone)]
pub struct Located {
    directory: Arc<OwnedFd>,
    name: OsString,
    /// As the caller named it, for messages.
    path: PathBuf,
}

impl Located {
    /// The name that `path` ends with, in the directory that it leads to now. If the name is a link, it is not
    /// followed.
    ///
    /// Fails with [`OpenError::NoDirectory`] if there is no such directory.
    pub fn new(path: &Path) -> Result<Located, OpenError> {
        let Some(name) = path.file_name() else {
            return Err(OpenError::NotAFile { path: path.into(), found: "a directory" });
        };
        let above = directory_of(path);
        // Only a name is looked up in it, which takes no right to read it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(above, flags, Mode::empty()).map_err(|error| match error {
                Errno::NOENT | Errno::NOTDIR => OpenError::NoDirectory { path: above.into() },
                error => io_error("opening", above)(error.into()),
            })?;
        Ok(Located { directory: Arc::new(directory), name: name.to_owned(), path: path.into() })
    }

    /// The same, of the file that `path` leads to: if the name is a link, of what that leads to.
    ///
    /// Companions lie beside the pool itself. If they lay beside each link, those of a link that was not used for a
    /// while would restore an old state.
    pub fn followed(path: &Path) -> Result<Located, OpenError> {
        let mut located = Located::new(path)?;
        for _ in 0..LINKS_MAX {
            match rustix::fs::readlinkat(&*located.directory, &located.name, Vec::new()) {
                Ok(target) => {
                    use std::os::unix::ffi::OsStrExt;
                    let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                    located = located.beside(target)?;
                }
                Err(_) => return Ok(located),
            }
        }
        Err(io_error("following the links of", path)(Errno::LOOP.into()))
    }

    /// What a link with this target, in this directory, leads to.
    fn beside(&self, target: &Path) -> Result<Located, OpenError> {
        let path = directory_of(&self.path).join(target);
        let Some(name) = target.file_name() else {
            return Err(OpenError::NotAFile { path, found: "a directory" });
        };
        let above = directory_of(target);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*self.directory, above, flags, Mode::empty());
        let directory =
            opened.map_err(|_| OpenError::NoDirectory { path: directory_of(&path).into() })?;
        Ok(Located { directory: Arc::new(directory), name: name.to_owned(), path })
    }

    /// Another name in the same directory.
    pub(crate) fn sibling(&self, name: OsString) -> Located {
        let path = self.path.with_file_name(&name);
        Located { directory: Arc::clone(&self.directory), name, path }
    }

    /// The path by which it was found. By now that may lead elsewhere: it is for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name, without the directory.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// What has the name now; a link is not followed.
    pub(crate) fn stat(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&*self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The inode that has the name now; a link is not followed.
    pub fn inode(&self) -> Option<u64> {
        self.stat().ok().map(|found| found.st_ino)
    }

    /// Whether anything has the name, be it a link that leads nowhere.
    pub fn exists(&self) -> bool {
        self.stat().is_ok()
    }

    /// Whether the name is this file's.
    pub(crate) fn is_of(&self, file: impl AsFd) -> bool {
        match (self.stat(), rustix::fs::fstat(file)) {
            (Ok(named), Ok(opened)) => id_of(&named) == id_of(&opened),
            _ => false,
        }
    }

    /// Opens what has the name, unless it is a link.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(&*self.directory, &self.name, flags, mode).map(File::from)
    }

    /// Removes a file of this name.
    pub(crate) fn unlink(&self) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&*self.directory, &self.name, AtFlags::empty())
    }

    /// Makes changes of names in the directory durable.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        sync_names(self.directory())
    }

    /// Names in the directory.
    pub(crate) fn names(&self) -> rustix::io::Result<Vec<OsString>> {
        names_in(self.directory())
    }
}

/// Makes changes of names in a directory durable.
pub(crate) fn sync_names(directory: BorrowedFd<'_>) -> io::Result<()> {
    File::from(readable(directory)?).sync_all()
}

fn readable(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, ".", flags, Mode::empty())
}

/// Names in a directory.
pub(crate) fn names_in(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<OsString>> {
    use std::os::unix::ffi::OsStrExt;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(readable(directory)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Whether it is a regular file.
pub(crate) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Whether it is a directory.
pub(crate) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_name_stays_in_the_directory_that_the_path_led_to() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for directory in ["one", "two"] {
            std::fs::create_dir(path(directory)).unwrap();
            std::fs::write(path(directory).join("pool"), directory).unwrap();
        }
        symlink("one", path("current")).unwrap();
        symlink("current/pool", path("link")).unwrap();
        let found = Located::followed(&path("link")).unwrap();
        std::fs::remove_file(path("current")).unwrap();
        symlink("two", path("current")).unwrap();
        std::fs::rename(path("one"), path("moved")).unwrap();
        let read = || std::io::read_to_string(found.open(OFlags::RDONLY, Mode::empty()).unwrap());
        assert_eq!(read().unwrap(), "one");
        found.unlink().unwrap();
        found.sync_directory().unwrap();
        assert!(!path("moved/pool").exists() && path("two/pool").exists());
    }

    #[test]
    fn names_are_bytes_and_links_are_followed_once() {
        let root = tempfile::tempdir().unwrap();
        let [one, other] =
            [&b"caf\xe9"[..], b"caf\xe8"].map(|name| root.path().join(OsStr::from_bytes(name)));
        std::fs::write(&one, "one").unwrap();
        assert!(Located::new(&one).unwrap().exists() && !Located::new(&other).unwrap().exists());
        let ring = root.path().join("ring");
        symlink("ring", &ring).unwrap();
        assert!(Located::new(&ring).unwrap().exists());
        assert!(Located::followed(&ring).unwrap_err().to_string().contains("links"));
        let nowhere = Located::new(&root.path().join("no/pool"));
        assert!(matches!(nowhere, Err(OpenError::NoDirectory { .. })), "{nowhere:?}");
        assert!(matches!(Located::new(Path::new("/")), Err(OpenError::NotAFile { .. })));
    }
}
