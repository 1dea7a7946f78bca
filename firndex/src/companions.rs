//! A pool's companions: the directory of its log, checkpoint and sums. What is asked of them is answered here, and what
//! is left of them removed; they are made where a pool [starts](crate::open).

use crate::Options;
use pmem::OpenError;
use pmem::durability::disk::Disk;
use pmem::durability::{RestoreError, SafeCopy};
use pmem::file::{FoundSafe, Located, SafeDirectory};
use pmem::superblock::Superblock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Opened<T> = std::result::Result<T, OpenError>;

/// Where a pool's companions are: its directory, which need not exist.
pub(crate) struct Companions {
    pool: Located,
    /// `None` if the pool's name leaves no room for that of its directory.
    at: Option<Located>,
    is_elsewhere: bool,
}

fn safe_copy_in(directory: SafeDirectory) -> std::result::Result<Option<SafeCopy>, RestoreError> {
    SafeCopy::find(Arc::new(directory) as Arc<dyn Disk>)
}

impl Companions {
    /// Those of the pool at this place.
    pub(crate) fn of(options: &Options, pool: &Located) -> Opened<Companions> {
        let at = match pool.safe(options.log_directory.as_deref()) {
            Err(OpenError::NameTooLong { .. }) => None,
            at => Some(at?),
        };
        let is_elsewhere = at.as_ref().is_some_and(|at| !at.is_beside(pool));
        Ok(Companions { pool: pool.clone(), at, is_elsewhere })
    }

    /// What is there of them.
    pub(crate) fn find(&self) -> Opened<Option<SafeDirectory>> {
        let Some(at) = &self.at else { return Ok(None) };
        match SafeDirectory::find(at)? {
            FoundSafe::Nothing => Ok(None),
            FoundSafe::Directory(found) => Ok(Some(found)),
            FoundSafe::Others(found) => Err(OpenError::InTheWay { path: at.path().into(), found }),
        }
    }

    /// The pool's place.
    pub(crate) fn pool(&self) -> &Located {
        &self.pool
    }

    /// The place of its directory, unless the pool's name is too long for one.
    pub(crate) fn at(&self) -> Opened<&Located> {
        match &self.at {
            Some(at) => Ok(at),
            // It says so.
            None => {
                self.pool.safe(None).and(Err(OpenError::Missing { path: self.pool.path().into() }))
            }
        }
    }

    /// What the directory is or would be called.
    pub(crate) fn name(&self) -> String {
        let beside = || format!("{}.safe", self.pool.path().display());
        self.path().map_or_else(beside, |path| path.display().to_string())
    }

    /// The path of the directory, unless the pool's name is too long for one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.at.as_ref().map(Located::path)
    }

    /// Whether the directory is not next to the pool.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// The same if it is the pool's.
    fn find_own(&self, uuid: u128) -> Opened<Option<SafeDirectory>> {
        Ok(self.find()?.filter(|found| found.uuid() == uuid))
    }

    /// Whether there is a checkpoint, be it damaged.
    pub(crate) fn has_safe_copy(&self) -> bool {
        let found = self.find().ok().flatten();
        found.is_some_and(|found| !matches!(safe_copy_in(found), Ok(None)))
    }

    /// Refuses a new pool where another one's companions are, and if it `needs` some itself, where something else is in
    /// their place.
    pub(crate) fn refuse_others(&self, needs: bool) -> Opened<()> {
        let found = match self.find() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(OpenError::InTheWay { .. }) if !needs => return Ok(()),
            Err(error) => return Err(error),
        };
        let (uuid, companions) = (found.uuid(), found.path().into());
        match safe_copy_in(found) {
            Ok(None) => Err(OpenError::ForeignLog { path: companions, found: uuid }),
            _ => Err(OpenError::LeftLog { path: self.pool.path().into(), companions }),
        }
    }

    /// Whose companions there are: of a pool that does not tell any more who it is.
    pub(crate) fn owner(&self) -> Option<u128> {
        self.find().ok().flatten().map(|found| found.uuid())
    }

    /// Those of the pool `uuid`, for this process alone. What is another pool's, or no pool's, is not.
    fn own(&self, uuid: u128) -> Opened<Option<SafeDirectory>> {
        let mut found = match self.find_own(uuid) {
            Ok(Some(found)) => found,
            Ok(None) | Err(OpenError::InTheWay { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        found.lock()?;
        Ok(Some(found))
    }

    /// Removes the companions of the pool `uuid`, if they are its own.
    pub(crate) fn remove(&self, uuid: u128) -> Opened<()> {
        let Some(found) = self.own(uuid)? else { return Ok(()) };
        let path = PathBuf::from(found.path());
        found.clear().map_err(|source| OpenError::Io { action: "removing", path, source })
    }

    /// Says that the pool `next` is about to replace the pool `uuid`.
    pub(crate) fn announce(&self, uuid: u128, next: u128) -> Opened<()> {
        let Some(found) = self.own(uuid)? else { return Ok(()) };
        let path = PathBuf::from(found.path());
        found.announce(next).map_err(|source| OpenError::Io { action: "marking", path, source })
    }

    /// Whether the checkpoint is the one that the pool names. One that it does not name is from another time, and
    /// useless.
    pub(crate) fn is_current(&self, superblock: &Superblock) -> Opened<bool> {
        let is_here = superblock.logged().is_some_and(|it| it.is_elsewhere == self.is_elsewhere);
        let Some(found) = self.find()?.filter(|_| is_here) else { return Ok(false) };
        let safe = safe_copy_in(found);
        Ok(matches!(safe, Ok(Some(found)) if superblock.has_checkpoint(found.generation())))
    }
}
