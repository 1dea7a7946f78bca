//! Errors of opening a pool, with what only the command line knows.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Error, Result};
use firndex::{OpenError, PoolInfo};

use crate::failure::Failure;

/// What the pool says about itself.
pub(crate) fn inspect(path: &Path) -> Result<PoolInfo> {
    firndex::inspect(path).map_err(|error| explain(path, error))
}

/// Adds what only the command line knows: the command that would have made the pool.
pub(crate) fn explain(path: &Path, error: firndex::Error) -> Error {
    let shown = path.display();
    if let Some(source) = unreadable(path, &error) {
        let hint = "run this as a user who may read it, or change its permissions";
        return Failure::new(format!("{shown} cannot be read ({source})"), hint).into();
    }
    match error {
        firndex::Error::Open(OpenError::Missing { .. }) => {
            return Failure::new(
                format!("there is no pool at {shown}"),
                format!("make one first: firndex create {shown}"),
            )
            .into();
        }
        // Whether to open it read-only is not for the user to say here.
        firndex::Error::Open(OpenError::NotWritable { needs_recovery, source, .. }) => {
            let hint = if needs_recovery {
                "it was not closed cleanly, and must be made writable even to be read: recovery writes"
            } else {
                "make it writable; as it is, firndex get, dump, scan, stat and check can read it"
            };
            return Failure::new(format!("{shown} cannot be written ({source})"), hint).into();
        }
        firndex::Error::Open(error @ OpenError::Busy { .. }) => {
            return Failure::new(error.to_string(), "or wait until it is: --wait SECONDS").into();
        }
        firndex::Error::Open(error @ OpenError::NeedsRecovery) => {
            return Failure::new(error.to_string(), "without --read-only it is recovered").into();
        }
        _ => {}
    }
    Error::new(error).context(format!("opening {}", path.display()))
}

/// Why the file may not even be read, if that is behind the error.
fn unreadable(path: &Path, error: &firndex::Error) -> Option<io::Error> {
    match error {
        firndex::Error::Open(OpenError::NotWritable { .. } | OpenError::Io { .. }) => {
            let refused = File::open(path).err()?;
            (refused.kind() == io::ErrorKind::PermissionDenied).then_some(refused)
        }
        _ => None,
    }
}
