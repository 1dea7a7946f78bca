//! The files that belong to a pool: which there are, and their removal.

use crate::companions::Companions;
use crate::{Error, Options, Result};
use pmem::OpenError;
use pmem::file::{Access, Located, PoolFile, SafeDirectory};
use std::path::{Path, PathBuf};

/// Files of a pool's log and checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogFiles {
    /// Paths of all files.
    pub paths: Vec<PathBuf>,
    /// Bytes of the log's segments.
    pub log_bytes: u64,
    /// Bytes of the checkpoint, and of the room for the next one.
    pub checkpoint_bytes: u64,
}

pub(crate) fn files(options: &Options, path: &Path) -> Result<LogFiles> {
    let listing = |source| Error::Io { action: "listing the pool's files", source };
    let mut files = LogFiles::default();
    let Some(found) = Companions::of(options, &Located::followed(path)?)?.find()? else {
        return Ok(files);
    };
    for (name, bytes) in found.files().map_err(listing)? {
        let of = |kind: &str| name.as_encoded_bytes().starts_with(kind.as_bytes());
        if of("log.") {
            files.log_bytes += bytes;
        } else if of("checkpoint.") {
            files.checkpoint_bytes += bytes;
        }
        files.paths.push(found.path().join(name));
    }
    Ok(files)
}

/// Removes the pool at `path` with everything that belongs to it: its file, and the directory of its log, checkpoint
/// and sums. If its file is gone already, the rest is removed.
///
/// The pool may not be open. What is not firndex's stays, whatever it is called. If `path` is a link, what it leads to
/// is removed, and the link stays. For a pool whose log is in another directory, name that as
/// [`Options::log_directory`](crate::Options::log_directory) does, with [`Options::remove`](crate::Options::remove).
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("ports.firn");
/// firndex::Table::<u64, u16>::create(&path)?.close()?;
/// firndex::remove(&path)?;
/// assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
/// # Ok(())
/// # }
/// ```
pub fn remove(path: impl AsRef<Path>) -> Result<()> {
    Options::new().remove(path)
}

pub(crate) fn remove_pool(options: &Options, path: &Path) -> Result<()> {
    let pool = Located::followed(path)?;
    let companions = Companions::of(options, &pool)?;
    let file = match PoolFile::claim_at(&pool, Access::Write) {
        Ok(file) => Some(file),
        Err(OpenError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let found = companions.find()?;
    let uuid = match &file {
        None => found.as_ref().map(SafeDirectory::uuid),
        Some(file) => match (file.superblock(), &found) {
            (Ok(superblock), _) => {
                if superblock.logged().is_some_and(|logged| logged.is_elsewhere)
                    && options.log_directory.is_none()
                {
                    return Err(OpenError::LogElsewhere { path: path.into() }.into());
                }
                Some(superblock.uuid)
            }
            // A damaged pool, or what is left of one, is known by its companions.
            (Err(OpenError::NotAPool { .. }), Some(found)) if file.is_blank()? => {
                Some(found.uuid())
            }
            (Err(error @ OpenError::NotAPool { .. }), _) => return Err(error.into()),
            (Err(_), found) => found.as_ref().map(SafeDirectory::uuid),
        },
    };
    if file.is_none() && found.is_none() {
        return Err(OpenError::Missing { path: path.into() }.into());
    }
    drop(found);
    // Before the file: after a crash in between they would bring the pool back.
    if let Some(uuid) = uuid {
        companions.remove(uuid)?;
        if options.log_directory.is_some() {
            // Sums lie beside the pool.
            Companions::of(&Options::new(), &pool)?.remove(uuid)?;
        }
    }
    let Some(file) = file else { return Ok(()) };
    if let Some(uuid) = uuid {
        pmem::meeting::remove(&pool, file.place().inode, uuid);
    }
    file.remove().map_err(Into::into)
}
