//! Errors that a full file system or a limit may cause.

use std::io::ErrorKind;

use firndex::{Error, OpenError};

/// Whether space was missing.
pub(super) fn is_of_space(error: &Error) -> bool {
    match error {
        Error::PoolFull(_) | Error::Open(OpenError::Space(_)) => true,
        Error::Io { source, .. } | Error::Open(OpenError::Io { source, .. }) => {
            source.kind() == ErrorKind::StorageFull
        }
        _ => false,
    }
}
