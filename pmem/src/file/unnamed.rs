//! Files that have no name yet, or one that nobody knows.

use super::names::{directory_of, io_error, names};
use crate::error::OpenError;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How a file that has no name yet gets it.
#[derive(Debug)]
pub(super) enum Unnamed {
    /// Made with O_TMPFILE: vanishes with its last descriptor.
    Linkable,
    /// A temporary name, where O_TMPFILE is not supported.
    Temporary(PathBuf),
}

/// What comes before the random end of a temporary name.
const CREATING: &[u8] = b".creating-";
/// Digits of that end.
const DIGITS: usize = 16;
/// A temporary name has no more bytes of the pool's name than this: with the rest it is a name still.
const NAME_BYTES_MAX: usize = 200;

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

/// A new file for `path`: without a name if the file system can do that.
pub(super) fn make(path: &Path) -> Result<(File, Unnamed), OpenError> {
    match rustix::fs::open(directory_of(path), FLAGS | OFlags::TMPFILE, MODE) {
        Ok(file) => Ok((File::from(file), Unnamed::Linkable)),
        Err(_) => make_temporary(path),
    }
}

/// A new, locked file for `path` under a temporary name. What others that died have left under such
/// names is removed, and in nobody's way in any case.
pub(super) fn make_temporary(path: &Path) -> Result<(File, Unnamed), OpenError> {
    sweep(path);
    let io = |error: Errno| io_error("creating", path)(error.into());
    loop {
        let name = directory_of(path).join(temporary_name(path));
        let file = match rustix::fs::open(&name, FLAGS | OFlags::CREATE | OFlags::EXCL, MODE) {
            Ok(file) => File::from(file),
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(io(error)),
        };
        // Until it was locked, another's sweep could take it for a dead one's.
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        match locked {
            Ok(()) if names(&name, &file) => return Ok((file, Unnamed::Temporary(name))),
            Ok(()) | Err(Errno::WOULDBLOCK) => {}
            Err(error) => {
                let _ = std::fs::remove_file(&name);
                return Err(io(error));
            }
        }
    }
}

fn prefix(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut prefix = name[..name.len().min(NAME_BYTES_MAX)].to_vec();
    prefix.extend_from_slice(CREATING);
    OsStr::from_bytes(&prefix).to_owned()
}

fn temporary_name(path: &Path) -> OsString {
    let mut name = prefix(path);
    let random = RandomState::new().hash_one(std::process::id());
    name.push(format!("{random:0width$x}", width = DIGITS));
    name
}

/// Removes what creators of `path` have left that died: nobody holds the lock on it.
fn sweep(path: &Path) {
    let prefix = prefix(path);
    let Ok(entries) = std::fs::read_dir(directory_of(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let end = name.as_bytes().strip_prefix(prefix.as_bytes());
        let is_temporary =
            end.is_some_and(|end| end.len() == DIGITS && end.iter().all(u8::is_ascii_hexdigit));
        if is_temporary && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            remove_if_dead(&entry.path());
        }
    }
}

fn remove_if_dead(name: &Path) {
    let Ok(file) = File::open(name) else { return };
    // A file that has its final name by now is left alone, and its lock too.
    let is_dead = names(name, &file)
        && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if is_dead {
        if names(name, &file) {
            let _ = std::fs::remove_file(name);
        }
        // A child that is being forked meanwhile has a copy of the descriptor.
        let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
    }
}

impl Unnamed {
    /// Gives the file its name, which must still be free.
    pub(super) fn name(self, file: &File, path: &Path) -> Result<(), Errno> {
        match self {
            Unnamed::Linkable => {
                let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(CWD, descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW)
            }
            Unnamed::Temporary(name) => {
                let renamed = match rustix::fs::renameat_with(
                    CWD,
                    &name,
                    CWD,
                    path,
                    RenameFlags::NOREPLACE,
                ) {
                    Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link(&name, path),
                    renamed => renamed,
                };
                if renamed.is_err() {
                    // The pool was refused its name; nobody knows it by the other one.
                    let _ = std::fs::remove_file(&name);
                }
                renamed
            }
        }
    }

    /// Gives the file a name, in place of the file that has it.
    pub(super) fn replace(self, path: &Path) -> Result<(), Errno> {
        match self {
            Unnamed::Linkable => Err(Errno::NOTSUP),
            Unnamed::Temporary(name) => rustix::fs::rename(&name, path).inspect_err(|_| {
                let _ = std::fs::remove_file(&name);
            }),
        }
    }

    /// Removes a temporary name that never became another.
    pub(super) fn discard(&self) {
        if let Unnamed::Temporary(name) = self {
            // Nobody misses it, and nobody is left to tell.
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Renames without replacing, where the file system cannot do that in one step.
fn link(name: &Path, path: &Path) -> Result<(), Errno> {
    rustix::fs::linkat(CWD, name, CWD, path, AtFlags::empty())?;
    let _ = std::fs::remove_file(name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_temporary(made: &(File, Unnamed)) -> &Path {
        match &made.1 {
            Unnamed::Temporary(name) => name,
            Unnamed::Linkable => panic!("it has no name"),
        }
    }

    fn names_in(directory: &Path) -> Vec<OsString> {
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn temporary_names_do_not_collide() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("pool"), directory.path().join("p".repeat(255))] {
            let made: Vec<_> = (0..20).map(|_| make_temporary(&path).unwrap()).collect();
            assert_eq!(names_in(directory.path()).len(), 20, "others' files are locked, and stay");
            for (file, unnamed) in made {
                unnamed.discard();
                drop(file);
            }
        }
        assert!(names_in(directory.path()).is_empty());
    }

    #[test]
    fn what_the_dead_have_left_is_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let live = make_temporary(&path).unwrap();
        let dead = make_temporary(&path).unwrap();
        let dead_name = is_temporary(&dead).to_owned();
        drop(dead);
        assert!(dead_name.exists());
        let others = [
            format!("pool.creating-{}", std::process::id()),
            "pool.creating-mine".into(),
            "other.creating-0123456789abcdef".into(),
            "pool".into(),
        ];
        for name in &others {
            std::fs::write(directory.path().join(name), "precious").unwrap();
        }
        let new = make_temporary(&path).unwrap();
        assert!(!dead_name.exists());
        assert!(is_temporary(&live).exists() && is_temporary(&new).exists());
        for name in &others {
            assert_eq!(std::fs::read(directory.path().join(name)).unwrap(), b"precious");
        }
    }

    #[test]
    fn the_first_of_two_gets_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let (first, second) = (make_temporary(&path).unwrap(), make_temporary(&path).unwrap());
        first.1.name(&first.0, &path).unwrap();
        assert_eq!(second.1.name(&second.0, &path), Err(Errno::EXIST));
        assert_eq!(names_in(directory.path()), ["pool"]);
        let linked = make_temporary(&path).unwrap();
        let name = is_temporary(&linked).to_owned();
        assert_eq!(link(&name, &path), Err(Errno::EXIST));
        std::fs::remove_file(&path).unwrap();
        link(&name, &path).unwrap();
        assert_eq!(names_in(directory.path()), ["pool"]);
    }
}
