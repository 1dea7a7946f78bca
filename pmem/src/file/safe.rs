//! The directory `POOL.safe`: everything that firndex keeps beside a pool, and nothing else.
//!
//! | name | what it is |
//! |---|---|
//! | `identity` | whose directory it is |
//! | `checkpoint.0`, `checkpoint.1` | one is the last checkpoint, the other room for the next |
//! | `log.N` | segment N of the log |
//! | `log.reserve` | room for a segment where the disk has none left |
//! | `sums` | checksums of the closed pool |
//!
//! A name says nothing: others may have called a file so, in a directory that they have called so. A directory is the
//! pool's if `identity` says so. A file in it is firndex's if it is called as one, begins as such files do and names
//! the same pool. What is not recognised is never written to, renamed over or removed.

mod identity;

use super::PoolFile;
use super::access::Access;
use super::inherited::GivenUp;
use super::located::{FileId, Located, id_of, names_in, sync_names};
use super::names::io_error;
use super::ownership::Ownership;
use crate::error::OpenError;
use crate::sync::forks;
pub(crate) use identity::{BEGINNING_BYTES, is_ours};
use identity::{IDENTITY, IDENTITY_BYTES, decode, encode, is_name};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What the directory's name has behind the pool's.
const SUFFIX: &str = ".safe";
/// The longest name that file systems take.
const NAME_BYTES_MAX: usize = 255;

/// Another file has the name of an open pool, or another directory that of its companions; or neither has one any
/// more. What is there by now is not this pool's, and is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {found}", path.display())]
pub struct Displaced {
    /// The path by which the pool, or its directory, was found.
    pub path: PathBuf,
    /// What was found instead.
    pub found: &'static str,
}

/// What has the name of a pool's directory.
#[derive(Debug)]
pub enum Found {
    /// Nothing, or what a crash has left of making it.
    Nothing,
    /// A pool's directory.
    Directory(SafeDirectory),
    /// Something else.
    Others(String),
}

/// A pool's directory for log, checkpoints and sums. It is held open: what happens to the path does not matter to it.
#[derive(Debug)]
pub struct SafeDirectory {
    at: Located,
    directory: OwnedFd,
    /// Of the lock on `identity`.
    given_up: Option<GivenUp>,
    /// The process's [`forks`] when that was locked.
    locked_at: Option<u32>,
    /// Locked by who writes to the directory.
    identity: File,
    uuid: u128,
    next: u128,
    /// Of what is made in it.
    ownership: Ownership,
    /// The pool: what must have this name.
    pool: Option<(Located, FileId)>,
}

impl Located {
    /// Where the directory of the pool at this place is: beside it, or in `elsewhere`.
    pub fn safe(&self, elsewhere: Option<&Path>) -> Result<Located, OpenError> {
        let mut name = self.name().to_owned();
        name.push(SUFFIX);
        if name.len() > NAME_BYTES_MAX {
            return Err(OpenError::NameTooLong {
                path: self.path().into(),
                found_bytes: self.name().len(),
                expected_bytes: NAME_BYTES_MAX - SUFFIX.len(),
            });
        }
        let Some(elsewhere) = elsewhere else { return Ok(self.sibling(name)) };
        Located::new(&elsewhere.join(name)).map_err(|error| match error {
            OpenError::NoDirectory { path } => OpenError::NoLogDirectory { path },
            error => error,
        })
    }

    /// Whether both are in the same directory.
    pub fn is_beside(&self, other: &Located) -> bool {
        let id = |at: &Located| rustix::fs::fstat(at.directory()).map(|stat| id_of(&stat)).ok();
        id(self).is_some() && id(self) == id(other)
    }
}

impl SafeDirectory {
    /// Looks at what is there.
    pub fn find(at: &Located) -> Result<Found, OpenError> {
        let io = io_error("opening", at.path());
        let others = |found: &str| Ok(Found::Others(found.into()));
        // A link is followed: whose directory it leads to is seen there.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(at.directory(), at.name(), flags, Mode::empty());
        let directory = match opened {
            Ok(directory) => directory,
            Err(Errno::NOENT) if !at.exists() => return Ok(Found::Nothing),
            Err(Errno::NOENT) => return others("it is a link that leads nowhere"),
            Err(Errno::NOTDIR) => return others("it is not a directory"),
            Err(error) => return Err(io(error.into())),
        };
        let names = names_in(directory.as_fd()).map_err(|error| io(error.into()))?;
        let is_alone = names.iter().all(|name| name == IDENTITY);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let identity = match rustix::fs::openat(&directory, IDENTITY, flags, Mode::empty()) {
            Ok(identity) => File::from(identity),
            Err(Errno::NOENT) if is_alone => return Ok(Found::Nothing),
            Err(Errno::NOENT) => return others("it has no file `identity`"),
            Err(error) => return Err(io(error.into())),
        };
        let stat = rustix::fs::fstat(&identity).map_err(|error| io(error.into()))?;
        let mut bytes = vec![0; IDENTITY_BYTES];
        let read = identity.read_at(&mut bytes, 0).map_err(&io)?;
        if is_alone && bytes[..read].iter().all(|&byte| byte == 0) {
            return Ok(Found::Nothing);
        }
        match decode(&bytes[..read]) {
            Ok((uuid, next)) => Ok(Found::Directory(SafeDirectory {
                at: at.clone(),
                directory,
                given_up: None,
                locked_at: None,
                identity,
                uuid,
                next,
                ownership: Ownership::of_stat(&stat),
                pool: None,
            })),
            Err(found) => others(&format!("its file `identity` {found}")),
        }
    }

    /// Makes the directory of the pool `uuid`, where nothing was [found](SafeDirectory::find).
    pub fn make(
        at: &Located,
        uuid: u128,
        ownership: Ownership,
    ) -> Result<SafeDirectory, OpenError> {
        let io = |error: Errno| match error {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                OpenError::NoRightToLog { path: at.path().into(), source: error.into() }
            }
            error => io_error("making", at.path())(error.into()),
        };
        match rustix::fs::mkdirat(at.directory(), at.name(), Mode::RWXU) {
            // What a crash has left.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io(error)),
        }
        let made = SafeDirectory::fill(at, uuid, ownership);
        made.map_err(|error| {
            // If it is not empty, it is not removed.
            let _ = rustix::fs::unlinkat(at.directory(), at.name(), AtFlags::REMOVEDIR);
            match Errno::from_io_error(&error) {
                Some(error) => io(error),
                None => io_error("making", at.path())(error),
            }
        })
    }

    fn fill(at: &Located, uuid: u128, ownership: Ownership) -> io::Result<SafeDirectory> {
        // What was found through a link is followed again.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(at.directory(), at.name(), flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let identity = rustix::fs::openat(&directory, IDENTITY, flags, Mode::RUSR | Mode::WUSR)?;
        let identity = File::from(identity);
        let completed = || -> io::Result<()> {
            ownership.give(&identity)?;
            ownership.of_directory().give(&directory)?;
            identity.write_all_at(&encode(uuid, 0), 0)?;
            identity.sync_all()?;
            sync_names(directory.as_fd())?;
            at.sync_directory()
        };
        completed().inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&directory, IDENTITY, AtFlags::empty());
        })?;
        let at = at.clone();
        Ok(SafeDirectory {
            at,
            directory,
            given_up: None,
            locked_at: None,
            identity,
            uuid,
            next: 0,
            ownership,
            pool: None,
        })
    }

    /// Whose it is.
    pub fn uuid(&self) -> u128 {
        self.uuid
    }

    /// Whether it is left from a pool that the pool `uuid` has replaced.
    pub fn was_replaced_by(&self, uuid: u128) -> bool {
        self.next == uuid
    }

    /// Owner, group and permissions of its files.
    pub fn ownership(&self) -> Ownership {
        self.ownership
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// Keeps every other process, and every other handle of this one, from writing to it, until this is dropped. The
    /// lock on the pool does not do that: somebody may have removed the pool's file while it was open.
    pub fn lock(&mut self) -> Result<(), OpenError> {
        // Before there is a lock, as for the pool's own.
        self.given_up = GivenUp::by_children(&self.identity, None, Access::Read);
        let locked = rustix::fs::flock(&self.identity, FlockOperation::NonBlockingLockExclusive);
        self.locked_at = locked.is_ok().then(forks);
        locked.map_err(|error| match error {
            Errno::WOULDBLOCK => OpenError::BusyLog { path: self.path().into() },
            error => io_error("locking", self.path())(error.into()),
        })
    }

    /// From now on it belongs to this open pool: what is made in it is as private as the pool, and nothing is made or
    /// removed once another file has the pool's name.
    pub fn belong_to(&mut self, pool: &PoolFile) -> Result<(), OpenError> {
        let io = io_error("protecting", self.path());
        let ownership = pool.ownership()?;
        let stat = rustix::fs::fstat(&pool.file).map_err(|error| io(error.into()))?;
        self.pool = Some((pool.located().clone(), id_of(&stat)));
        if Ownership::of(&self.identity).map_err(&io)? != ownership {
            ownership.give(&self.identity).map_err(&io)?;
        }
        if Ownership::of(&self.directory).map_err(&io)? != ownership.of_directory() {
            ownership.of_directory().give(&self.directory).map_err(&io)?;
        }
        self.ownership = ownership;
        Ok(())
    }

    /// Records that the pool `next` is about to replace this one's pool. After a crash the files in it are neither
    /// taken for that one's nor in its way.
    pub fn announce(&self, next: u128) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let identity = rustix::fs::openat(&self.directory, IDENTITY, flags, Mode::empty())?;
        let identity = File::from(identity);
        identity.write_all_at(&encode(self.uuid, next), 0)?;
        identity.sync_all()
    }

    /// An error if the directory or the pool has lost its name to another one, or altogether.
    pub fn demand_names(&self) -> Result<(), Displaced> {
        let displaced = |at: &Located| Displaced {
            path: at.path().into(),
            found: match at.exists() {
                true => {
                    "is another one by now: the open pool's was moved or removed, and another was put in its place"
                }
                false => "was moved or removed while the pool was open",
            },
        };
        let own = rustix::fs::fstat(&self.directory);
        // Through a link, if it was found through one.
        let named = rustix::fs::statat(self.at.directory(), self.at.name(), AtFlags::empty());
        if !matches!((own, named), (Ok(own), Ok(named)) if id_of(&own) == id_of(&named)) {
            return Err(displaced(&self.at));
        }
        match &self.pool {
            Some((pool, id)) if !pool.stat().is_ok_and(|found| id_of(&found) == *id) => {
                Err(displaced(pool))
            }
            _ => Ok(()),
        }
    }

    fn demand(&self) -> io::Result<()> {
        self.demand_names().map_err(io::Error::other)
    }

    /// Opens a file for reading and writing; a link is not followed.
    pub(crate) fn open(&self, name: &OsStr, flags: OFlags) -> rustix::io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty()).map(File::from)
    }

    /// Makes a new, empty file. Fails if anything has the name.
    pub(crate) fn create(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        self.demand()?;
        let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::openat(&self.directory, name, flags, mode)?);
        self.ownership.give(&file).inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        })?;
        Ok(file)
    }

    /// Renames a file. Fails if anything has the other name.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.demand()?;
        let (directory, flags) = (&self.directory, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(directory, from, directory, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(directory, from, AtFlags::empty())?)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes a file that is recognised as this pool's, if there is one. Others stay, and that is no error.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.demand()?;
        match self.recognises(name) {
            Some(true) => match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            },
            _ => Ok(()),
        }
    }

    /// Whether a file is this pool's; `None` if there is none.
    fn recognises(&self, name: &OsStr) -> Option<bool> {
        let file = match self.open(name, OFlags::RDONLY) {
            Ok(file) => file,
            Err(Errno::NOENT) => return None,
            Err(_) => return Some(false),
        };
        let mut beginning = [0; BEGINNING_BYTES];
        let Ok(found) = file.metadata() else { return Some(false) };
        // What cannot be read is not known to be the pool's.
        let Ok(read) = file.read_at(&mut beginning, 0) else { return Some(false) };
        Some(found.is_file() && is_ours(&beginning[..read], found.len(), self.uuid))
    }

    /// Whether nobody may read a file who may not read what is made here from now on.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    pub(crate) fn is_as_private(&self, file: &File) -> io::Result<bool> {
        Ok(Ownership::of(file)?.is_as_private_as(&self.ownership))
    }

    /// Names in it.
    pub(crate) fn names(&self) -> rustix::io::Result<Vec<OsString>> {
        names_in(self.directory.as_fd())
    }

    /// Makes changes of names in it durable.
    pub(crate) fn sync_names(&self) -> io::Result<()> {
        sync_names(self.directory.as_fd())
    }

    /// Its files that are this pool's, with their lengths.
    pub fn files(&self) -> io::Result<Vec<(OsString, u64)>> {
        let mut files = Vec::new();
        for name in self.names()? {
            if name.to_str().is_some_and(is_name)
                && self.recognises(&name) == Some(true)
                && let Ok(stat) =
                    rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW)
            {
                files.push((name, stat.st_size.cast_unsigned()));
            }
        }
        files.sort();
        Ok(files)
    }

    /// Removes it, with all files that are this pool's. If others are in it, they stay, and so does the directory.
    pub fn clear(self) -> io::Result<()> {
        // A copy that somebody has made of one, under another name, is theirs.
        let is_known = |name: &OsString| name.to_str().is_some_and(is_name);
        let names: Vec<OsString> = self.names()?.into_iter().filter(is_known).collect();
        let is_checkpoint = |name: &&OsString| name.as_encoded_bytes().starts_with(b"checkpoint");
        // Checkpoints first: without them the rest is useless.
        for name in names.iter().filter(is_checkpoint) {
            self.remove(name)?;
        }
        self.sync_names()?;
        for name in names.iter().filter(|name| *name != IDENTITY) {
            self.remove(name)?;
        }
        // Before `identity` goes: a power loss between the two would leave files that nobody knows.
        self.sync_names()?;
        if self.names()?.iter().any(|name| name != IDENTITY) {
            return Ok(());
        }
        self.remove(IDENTITY.as_ref())?;
        let removed = rustix::fs::unlinkat(self.at.directory(), self.at.name(), AtFlags::REMOVEDIR);
        match removed {
            // A link that leads to it stays: who has made it may want it for the next one.
            Ok(()) | Err(Errno::NOTDIR) => self.at.sync_directory(),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for SafeDirectory {
    fn drop(&mut self) {
        if self.locked_at == Some(forks()) {
            // As for the pool's file: a child that has not got from fork to exec has the lock, too.
            let _ = rustix::fs::flock(&self.identity, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_in(directory: &Path) -> (PoolFile, Located) {
        let path = directory.join("pool");
        let mut pool = PoolFile::create(&path).unwrap();
        pool.publish().unwrap();
        let at = pool.located().safe(None).unwrap();
        (pool, at)
    }

    fn made(at: &Located, pool: &PoolFile) -> SafeDirectory {
        let mut made = SafeDirectory::make(at, 7, pool.ownership().unwrap()).unwrap();
        made.belong_to(pool).unwrap();
        made
    }

    fn found(at: &Located) -> Option<u128> {
        match SafeDirectory::find(at).unwrap() {
            Found::Directory(found) => Some(found.uuid()),
            Found::Nothing => None,
            Found::Others(found) => panic!("{found}"),
        }
    }

    #[test]
    fn what_is_made_is_found_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, at) = pool_in(directory.path());
        assert_eq!(found(&at), None);
        let safe = made(&at, &pool);
        assert_eq!(found(&at), Some(7));
        safe.announce(9).unwrap();
        let Found::Directory(again) = SafeDirectory::find(&at).unwrap() else { panic!() };
        assert!(again.was_replaced_by(9) && !again.was_replaced_by(0));
        safe.clear().unwrap();
        assert!(!at.exists());
    }

    #[test]
    fn what_others_have_put_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, at) = pool_in(directory.path());
        let safe = made(&at, &pool);
        let target = directory.path().join("precious");
        std::fs::write(&target, "precious").unwrap();
        std::fs::write(at.path().join("log.7"), "a log, but not ours").unwrap();
        std::os::unix::fs::symlink(&target, at.path().join("sums")).unwrap();
        let foreign = [&b"FIRNSEG\0"[..], &1_u64.to_le_bytes(), &8_u128.to_le_bytes()].concat();
        std::fs::write(at.path().join("log.8"), &foreign).unwrap();
        let own = [&b"FIRNSEG\0"[..], &1_u64.to_le_bytes(), &7_u128.to_le_bytes()].concat();
        std::fs::write(at.path().join("log.9"), &own).unwrap();
        std::fs::write(at.path().join("log.9.bak"), &own).unwrap();
        std::fs::write(at.path().join("log.10"), []).unwrap();
        for name in ["log.7", "log.8", "sums"] {
            assert!(safe.create(name.as_ref(), OFlags::empty()).is_err(), "{name}");
            assert!(safe.rename("log.9".as_ref(), name.as_ref()).is_err(), "{name}");
            safe.remove(name.as_ref()).unwrap();
        }
        safe.clear().unwrap();
        let names = Located::new(&at.path().join("any")).unwrap().names().unwrap();
        let mut names: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["identity", "log.7", "log.8", "log.9.bak", "sums"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    }

    #[test]
    fn a_link_to_an_empty_directory_is_filled_and_emptied_there() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (pool, at) = pool_in(directory.path());
        std::os::unix::fs::symlink(other.path(), at.path()).unwrap();
        for _ in 0..2 {
            let safe = made(&at, &pool);
            assert!(other.path().join(IDENTITY).exists());
            safe.clear().unwrap();
            assert!(at.exists() && std::fs::read_dir(other.path()).unwrap().next().is_none());
        }
    }

    #[test]
    fn nothing_is_touched_once_another_has_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, at) = pool_in(directory.path());
        let safe = made(&at, &pool);
        safe.create("log.1".as_ref(), OFlags::empty()).unwrap();
        let refused = || {
            safe.create("log.2".as_ref(), OFlags::empty()).unwrap_err();
            safe.rename("log.1".as_ref(), "log.2".as_ref()).unwrap_err();
            safe.remove("log.1".as_ref()).unwrap_err();
            safe.demand_names().unwrap_err().to_string()
        };
        let aside = directory.path().join("aside");
        std::fs::rename(pool.path(), &aside).unwrap();
        assert!(refused().contains("was moved or removed"));
        std::fs::write(pool.path(), "another").unwrap();
        assert!(refused().contains("another was put in its place"));
        std::fs::rename(&aside, pool.path()).unwrap();
        safe.demand_names().unwrap();
        std::fs::rename(at.path(), &aside).unwrap();
        std::fs::create_dir(at.path()).unwrap();
        assert!(refused().contains("pool.safe is another one"));
        assert!(aside.join("log.1").exists());
    }

    #[test]
    fn one_at_a_time_writes_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, at) = pool_in(directory.path());
        let mut first = made(&at, &pool);
        first.lock().unwrap();
        let Found::Directory(mut second) = SafeDirectory::find(&at).unwrap() else { panic!() };
        assert!(matches!(second.lock(), Err(OpenError::BusyLog { .. })));
        drop(first);
        second.lock().unwrap();
    }

    #[test]
    fn what_a_crash_left_is_made_anew_and_what_is_not_ours_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, at) = pool_in(directory.path());
        std::fs::create_dir(at.path()).unwrap();
        assert_eq!(found(&at), None);
        std::fs::write(at.path().join(IDENTITY), [0; 56]).unwrap();
        assert_eq!(found(&at), None);
        drop(made(&at, &pool));
        assert_eq!(found(&at), Some(7));
        for (content, says) in [
            (&b"mine"[..], "cut short"),
            (&[1; 56], "not one of"),
            (&encode(7, 0)[..55], "cut short"),
        ] {
            std::fs::write(at.path().join(IDENTITY), content).unwrap();
            let found = SafeDirectory::find(&at).unwrap();
            assert!(matches!(&found, Found::Others(found) if found.contains(says)), "{found:?}");
        }
        std::fs::remove_dir_all(at.path()).unwrap();
        std::fs::write(at.path(), "a file").unwrap();
        assert!(matches!(SafeDirectory::find(&at).unwrap(), Found::Others(_)));
    }
}
