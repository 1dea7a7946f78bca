//! Files that have no name yet, or one that nobody knows.

use super::located::Located;
use super::names::io_error;
use crate::error::OpenError;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How a file that has no name yet gets it.
#[derive(Debug)]
pub(super) enum Unnamed {
    /// Made with O_TMPFILE: vanishes with its last descriptor.
    Linkable,
    /// A temporary name, where O_TMPFILE is not supported.
    Temporary(Located),
}

/// What comes before the random end of a temporary name.
const CREATING: &[u8] = b".creating-";
/// Digits of that end.
const DIGITS: usize = 16;
/// A temporary name has no more bytes of the pool's name than this: with the rest it is a name still.
const NAME_BYTES_MAX: usize = 200;
/// Where the kernel shows this process's open files.
const DESCRIPTORS: &str = "/proc/self/fd";

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

/// A new file for this place: without a name if the file system can do that, and if the file can get a name later.
pub(super) fn make(at: &Located) -> Result<(File, Unnamed), OpenError> {
    // In a chroot there may be no /proc.
    if rustix::fs::stat(DESCRIPTORS).is_ok()
        && let Ok(file) = rustix::fs::openat(at.directory(), ".", FLAGS | OFlags::TMPFILE, MODE)
    {
        return Ok((File::from(file), Unnamed::Linkable));
    }
    make_temporary(at)
}

/// A new, locked file for this place under a temporary name. What others that died have left under such
/// names is removed, and in nobody's way in any case.
pub(super) fn make_temporary(at: &Located) -> Result<(File, Unnamed), OpenError> {
    sweep(at);
    let io = |error: Errno| io_error("creating", at.path())(error.into());
    loop {
        let name = at.sibling(temporary_name(at));
        let file = match name.open(FLAGS | OFlags::CREATE | OFlags::EXCL, MODE) {
            Ok(file) => file,
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(io(error)),
        };
        // Until it was locked, another's sweep could take it for a dead one's.
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        match locked {
            Ok(()) if name.is_of(&file) => return Ok((file, Unnamed::Temporary(name))),
            Ok(()) | Err(Errno::WOULDBLOCK) => {}
            Err(error) => {
                let _ = name.unlink();
                return Err(io(error));
            }
        }
    }
}

fn prefix(at: &Located) -> Vec<u8> {
    let name = at.name().as_bytes();
    [&name[..name.len().min(NAME_BYTES_MAX)], CREATING].concat()
}

fn temporary_name(at: &Located) -> OsString {
    let random = RandomState::new().hash_one(std::process::id());
    let mut name = prefix(at);
    name.extend_from_slice(format!("{random:0width$x}", width = DIGITS).as_bytes());
    OsString::from_vec(name)
}

/// Removes what creators of this file have left that died: nobody holds the lock on it.
///
/// A file counts as one of theirs if it is empty or begins as a pool does, or with zeros: somebody else may have called
/// a file so.
fn sweep(at: &Located) {
    let prefix = prefix(at);
    for name in at.names().unwrap_or_default() {
        let end = name.as_bytes().strip_prefix(&prefix[..]);
        let is_temporary =
            end.is_some_and(|end| end.len() == DIGITS && end.iter().all(u8::is_ascii_hexdigit));
        if is_temporary {
            remove_if_dead(&at.sibling(name));
        }
    }
}

fn remove_if_dead(name: &Located) {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let Ok(file) = name.open(flags, Mode::empty()) else { return };
    if !is_a_draft(&file) {
        return;
    }
    // A file that has its final name by now is left alone, and its lock too.
    let is_dead = name.is_of(&file)
        && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if is_dead {
        if name.is_of(&file) {
            let _ = name.unlink();
        }
        // A child that is being forked meanwhile has a copy of the descriptor.
        let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
    }
}

/// Whether a pool may have been about to be made in the file.
fn is_a_draft(file: &File) -> bool {
    use std::os::unix::fs::FileExt;
    let mut first = [0; crate::superblock::SUPERBLOCK_BYTES as usize];
    let is_regular = file.metadata().is_ok_and(|found| found.is_file());
    match file.read_at(&mut first, 0) {
        Ok(0) => is_regular,
        Ok(read) => {
            is_regular
                && (first.starts_with(b"FIRNDEX\0") || first[..read].iter().all(|&byte| byte == 0))
        }
        Err(_) => false,
    }
}

impl Unnamed {
    /// Gives the file its name, which must still be free.
    pub(super) fn name(self, file: &File, at: &Located) -> Result<(), Errno> {
        match self {
            Unnamed::Linkable => {
                let descriptor = format!("{DESCRIPTORS}/{}", file.as_raw_fd());
                let follow = AtFlags::SYMLINK_FOLLOW;
                rustix::fs::linkat(CWD, descriptor, at.directory(), at.name(), follow)
            }
            Unnamed::Temporary(name) => {
                let (from, to) = (name.directory(), at.directory());
                let flags = RenameFlags::NOREPLACE;
                let renamed =
                    match rustix::fs::renameat_with(from, name.name(), to, at.name(), flags) {
                        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link(&name, at),
                        renamed => renamed,
                    };
                if renamed.is_err() {
                    // The pool was refused its name; nobody knows it by the other one.
                    let _ = name.unlink();
                }
                renamed
            }
        }
    }

    /// Gives a file the name, in place of the file that has it.
    pub(super) fn replace(self, at: &Located) -> Result<(), Errno> {
        match self {
            Unnamed::Linkable => Err(Errno::NOTSUP),
            Unnamed::Temporary(name) => {
                let (from, to) = (name.directory(), at.directory());
                rustix::fs::renameat(from, name.name(), to, at.name()).inspect_err(|_| {
                    let _ = name.unlink();
                })
            }
        }
    }

    /// Removes a temporary name that never became another.
    pub(super) fn discard(&self) {
        if let Unnamed::Temporary(name) = self {
            // Nobody misses it, and nobody is left to tell.
            let _ = name.unlink();
        }
    }
}

/// Renames without replacing, where the file system cannot do that in one step.
fn link(from: &Located, to: &Located) -> Result<(), Errno> {
    let (old, new) = (from.directory(), to.directory());
    rustix::fs::linkat(old, from.name(), new, to.name(), AtFlags::empty())?;
    let _ = from.unlink();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn temporary(made: &(File, Unnamed)) -> &Path {
        match &made.1 {
            Unnamed::Temporary(name) => name.path(),
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
            let made: Vec<_> =
                (0..20).map(|_| make_temporary(&Located::new(&path).unwrap()).unwrap()).collect();
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
        let live = make_temporary(&Located::new(&path).unwrap()).unwrap();
        let dead = make_temporary(&Located::new(&path).unwrap()).unwrap();
        let dead_name = temporary(&dead).to_owned();
        drop(dead);
        assert!(dead_name.exists());
        let others = [
            format!("pool.creating-{}", std::process::id()),
            "pool.creating-mine".into(),
            "pool.creating-00000000deadbeef".into(),
            "other.creating-0123456789abcdef".into(),
            "pool".into(),
        ];
        for name in &others {
            std::fs::write(directory.path().join(name), "precious").unwrap();
        }
        let new = make_temporary(&Located::new(&path).unwrap()).unwrap();
        assert!(!dead_name.exists());
        assert!(temporary(&live).exists() && temporary(&new).exists());
        for name in &others {
            assert_eq!(std::fs::read(directory.path().join(name)).unwrap(), b"precious");
        }
    }

    #[test]
    fn the_first_of_two_gets_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let (first, second) = (
            make_temporary(&Located::new(&path).unwrap()).unwrap(),
            make_temporary(&Located::new(&path).unwrap()).unwrap(),
        );
        let at = Located::new(&path).unwrap();
        first.1.name(&first.0, &at).unwrap();
        assert_eq!(second.1.name(&second.0, &at), Err(Errno::EXIST));
        assert_eq!(names_in(directory.path()), ["pool"]);
        let linked = make_temporary(&Located::new(&path).unwrap()).unwrap();
        let name = Located::new(temporary(&linked)).unwrap();
        assert_eq!(link(&name, &at), Err(Errno::EXIST));
        std::fs::remove_file(&path).unwrap();
        link(&name, &at).unwrap();
        assert_eq!(names_in(directory.path()), ["pool"]);
    }
}
