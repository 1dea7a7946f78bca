//! Pools that cannot be opened: waiting for a busy one, and beginning anew in place of a useless one.

use crate::companions::Companions;
use crate::contents::Contents;
use crate::draft::{Draft, Existing};
use crate::files;
use crate::guests::Guest;
use crate::held::Held;
use crate::info::inspect;
use crate::open::{self, Mode};
use crate::{Error, Options, Result};
use pmem::OpenError;
use pmem::file::{Located, PoolFile};
use pmem::superblock::Superblock;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a busy pool is tried.
const PAUSE: Duration = Duration::from_millis(20);

/// Opens or creates, as the options say of refusals.
pub(crate) fn open<T: Guest>(options: &Options, path: &Path, mode: Mode) -> Result<T> {
    let may_reset = options.reset_if_refused && !options.read_only && mode != Mode::Create;
    // An empty cache needs a capacity.
    if !may_reset || T::contents() == Contents::CACHE && options.cache_bytes.is_none() {
        return until_free(options, || open::open(options, path, mode));
    }
    let before = identity(path);
    let refusal = match until_free(options, || open::open(options, path, mode)) {
        Err(refusal) if is_useless(&refusal, options, path) => refusal,
        opened => return opened,
    };
    let is_reset = reset::<T>(options, path, before)?;
    let mut opened: T = until_free(options, || open::open(options, path, Mode::Open))?;
    if is_reset {
        opened.pool_mut().handle.set_reset(refusal);
    }
    Ok(opened)
}

/// The result of `open` when no other process has the pool, or when the time is up.
pub(crate) fn until_free<T>(options: &Options, open: impl Fn() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        let opened = open();
        let left = options.wait.saturating_sub(started.elapsed());
        let is_busy =
            matches!(opened, Err(Error::Open(OpenError::Busy { .. } | OpenError::BusyLog { .. })));
        if !is_busy || left.is_zero() {
            return opened;
        }
        std::thread::sleep(PAUSE.min(left));
    }
}

/// The pool's identity, if its superblock can be read.
fn identity(path: &Path) -> Option<u128> {
    PoolFile::inspect(path).ok().map(|superblock| superblock.uuid)
}

/// Whether the refused pool is one, and of no use to anybody who would open it so: see
/// [`Options::reset_if_refused`]. What is not listed here stays.
fn is_useless(refusal: &Error, options: &Options, path: &Path) -> bool {
    match refusal {
        Error::Open(
            OpenError::Damaged { .. }
            | OpenError::Truncated { .. }
            | OpenError::Corrupt { .. }
            | OpenError::Miscounted { .. }
            | OpenError::Dirty { .. }
            | OpenError::LogElsewhere { .. },
        )
        | Error::Corrupt(_) => true,
        // A pool that this build can read is somebody's: the path may be wrong, or the type.
        Error::Open(OpenError::Mismatch { .. }) => {
            let needs_more = |superblock: &Superblock| superblock.check_writable().is_err();
            inspect(path).is_err() || PoolFile::inspect(path).is_ok_and(|of| needs_more(&of))
        }
        Error::Open(OpenError::NotRestored { .. }) => {
            // They may be sound where they can be read.
            let files = files::files(options, path).map(|files| files.paths);
            let are_readable =
                files.is_ok_and(|paths| paths.iter().all(|one| File::open(one).is_ok()));
            are_readable && (path.exists() || has_checkpoint(options, path))
        }
        _ => false,
    }
}

/// Whether there is a checkpoint of a pool called so, be it damaged.
fn has_checkpoint(options: &Options, path: &Path) -> bool {
    let companions = Located::followed(path).and_then(|pool| Companions::of(options, &pool));
    companions.is_ok_and(|companions| companions.has_safe_copy())
}

/// Puts an empty pool in place of the useless one, unless another process has done so since `before` was asked for.
/// Whether it did.
fn reset<T: Held>(options: &Options, path: &Path, before: Option<u128>) -> Result<bool> {
    if !path.exists() && has_checkpoint(options, path) {
        files::remove_pool(options, path)?;
    }
    // It locks what is there.
    let draft = Draft::begin(options, path, Existing::Replace)?;
    if identity(path) != before {
        return Ok(false);
    }
    draft.make::<T>(options)?.into_pool().into_handle().close()?;
    draft.publish()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use pmem::SpaceError;
    use pmem::durability::LogError;
    use std::io;

    #[test]
    fn want_of_rights_room_or_patience_makes_no_pool_useless() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        Store::create(&path).unwrap().close().unwrap();
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let (own, needs_recovery) = (path.clone(), true);
        for refusal in [
            OpenError::Busy { path: own.clone(), advice: "" },
            OpenError::AlreadyOpen { path: own.clone() },
            OpenError::NotWritable { path: own.clone(), needs_recovery, source: denied() },
            OpenError::Io { action: "opening", path: own.clone(), source: denied() },
            OpenError::NotAPool { found: "a letter".into(), advice: "" },
            OpenError::ForeignLog { path: own.clone(), found: 1 },
            OpenError::LeftLog { path: own.clone(), companions: own.clone() },
            OpenError::InTheWay { path: own.clone(), found: "a letter".into() },
            OpenError::BusyLog { path: own },
            OpenError::NeedsRecovery,
            OpenError::Log(LogError::Closed),
            OpenError::Space(SpaceError::Full { needed_bytes: 1, reason: "it is full".into() }),
        ] {
            let refusal = Error::from(refusal);
            assert!(!is_useless(&refusal, &Options::new(), &path), "{refusal}");
        }
    }
    /// Another process may have been refused, too, and have begun anew and filled the pool.
    #[test]
    fn a_pool_that_somebody_has_made_anew_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let before = identity(&path);
        let store = Store::create(&path).unwrap();
        store.put("theirs", "since").unwrap();
        store.close().unwrap();
        assert!(!reset::<Store>(&Options::new(), &path, before).unwrap());
        assert_eq!(Store::open(&path).unwrap().len(), 1);
        assert!(reset::<Store>(&Options::new(), &path, identity(&path)).unwrap());
        assert_eq!(Store::open(&path).unwrap().len(), 0);
    }
}
