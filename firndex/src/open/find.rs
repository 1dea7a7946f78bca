//! What is where a pool should be: one that counts, one that must be restored, or none.

use super::ready::Mode;
use crate::companions::Companions;
use crate::{Options, Result};
use pmem::OpenError;
use pmem::file::{Access, Located, PoolFile};
use pmem::superblock::Superblock;
use std::path::Path;

pub(super) enum Found {
    Pool(Locked),
    Lost(Lost),
    Nothing,
}

/// A pool's file, which counts, locked.
pub(super) struct Locked {
    pub(super) file: PoolFile,
    pub(super) superblock: Superblock,
}

/// A pool whose file does not count, or is gone. Its checkpoint and log may tell what was in it.
pub(super) struct Lost {
    /// Its file, locked, if there is one.
    pub(super) former: Option<PoolFile>,
    /// The superblock of that, if it is trustworthy.
    pub(super) known: Option<Superblock>,
    /// The error if it cannot be restored, instead of what is in the way of that.
    pub(super) refusal: Option<OpenError>,
}

/// Where the pool at `path` is. Its directory is held from now on.
pub(super) fn followed(path: &Path, mode: Mode) -> Result<Located> {
    Ok(Located::followed(path).map_err(|error| match error {
        OpenError::NoDirectory { .. } if mode == Mode::Open => {
            OpenError::Missing { path: path.into() }
        }
        error => error,
    })?)
}

/// Locks the pool's file and sees whether it counts.
pub(super) fn find(options: &Options, mode: Mode, companions: &Companions) -> Result<Found> {
    let pool = companions.pool();
    let access = if options.read_only { Access::Read } else { Access::Write };
    let has_safe_copy = || companions.has_safe_copy();
    let claimed = || PoolFile::claim_at(pool, Access::Write);
    let lost = match PoolFile::open_at(pool, access) {
        Ok((file, superblock)) => {
            let state = superblock.check_state(&file.place());
            let Some(logged) = superblock.logged().filter(|_| state.is_err()) else {
                return Ok(Found::Pool(Locked { file, superblock }));
            };
            if logged.is_elsewhere && options.log_directory.is_none() {
                return Err(OpenError::LogElsewhere { path: pool.path().into() }.into());
            }
            Lost { former: Some(file), known: Some(superblock), refusal: None }
        }
        Err(OpenError::Missing { .. }) if has_safe_copy() => {
            Lost { former: None, known: None, refusal: None }
        }
        Err(OpenError::Missing { .. }) if mode == Mode::OpenOrCreate && !options.read_only => {
            return Ok(Found::Nothing);
        }
        Err(error @ (OpenError::Damaged { .. } | OpenError::Truncated { .. }))
            if !options.read_only && has_safe_copy() =>
        {
            Lost { former: Some(claimed()?), known: None, refusal: Some(error) }
        }
        Err(error @ OpenError::NotAPool { .. }) if !options.read_only && has_safe_copy() => {
            let file = claimed()?;
            if !file.is_blank()? {
                return Err(error.into());
            }
            Lost { former: Some(file), known: None, refusal: None }
        }
        Err(error) => return Err(error.into()),
    };
    if options.read_only {
        return Err(OpenError::NeedsRecovery.into());
    }
    Ok(Found::Lost(lost))
}

/// Whether nothing has to be restored, as far as can be seen without a lock.
pub(super) fn counts(companions: &Companions, path: &Path) -> bool {
    PoolFile::inspect_at(companions.pool()).is_ok_and(|superblock| {
        let place = PoolFile::place_of(path);
        superblock.logged().is_none() || place.is_ok_and(|now| superblock.check_state(&now).is_ok())
    })
}
