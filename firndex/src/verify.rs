//! A closed pool and the sums of its file.

use crate::{Error, Result};
use pmem::file::{Access, PoolFile, Verified};
use std::path::Path;

/// Compares the closed pool file at `path` with the sums that were written when it was closed
/// ([`Options::keep_sums`](crate::Options::keep_sums)). Reads the whole file and changes nothing. The pool may not be
/// open for writing, here or elsewhere.
///
/// What differs has been changed by something else than firndex: a disk that flipped a bit, a copy that went wrong.
/// Then restore the file from a backup, or copy out what reads well, with [`Salvage`](crate::Salvage).
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("ports.firn");
/// use firndex::{Options, Verified};
///
/// let ports = Options::new().keep_sums(true).create_table_of::<u64, u16>(&path)?;
/// ports.put(17, 8080)?;
/// ports.close()?;
/// assert!(matches!(firndex::verify(&path)?, Verified::Sound { .. }));
/// # Ok(())
/// # }
/// ```
pub fn verify(path: impl AsRef<Path>) -> Result<Verified> {
    let (file, superblock) = PoolFile::open(path.as_ref(), Access::Read)?;
    let verified = file.verify(&superblock, &file.place());
    verified.map_err(|source| Error::Io { action: "comparing the pool with its sums", source })
}
