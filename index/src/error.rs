//! Why an operation on an engine failed.

use pmem::SpaceError;
use pmem::heap::Corrupt;

/// A change failed. The table is unchanged and keeps working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Space could not be had.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The pool holds something that cannot be.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The process that makes changes for this one has not done it, for a reason that no engine knows.
    #[error("{error}")]
    Other {
        /// The reason.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// An operation on byte strings failed. The store is unchanged and keeps working.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ItemError {
    /// Space could not be had.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The pool holds something that cannot be.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The key is too long.
    #[error("the key has {found} bytes, at most {limit} are possible; use a digest of it")]
    KeyTooLong {
        /// Length of the key in bytes.
        found: usize,
        /// Longest key in bytes.
        limit: usize,
    },
    /// The value is too long.
    #[error("the value has {found} bytes, at most {limit} are possible; store it in parts")]
    ValueTooLong {
        /// Length of the value in bytes.
        found: usize,
        /// Longest value in bytes.
        limit: usize,
    },
    /// Too many keys share one 64-bit hash.
    #[error(
        "{limit} keys share one 64-bit hash, and no more can, as keys do that were chosen by someone who knows the pool's \
         seed: copy the pairs to a new pool, which has another seed"
    )]
    TooManyCollisions {
        /// Most keys that may share a hash.
        limit: usize,
    },
    /// As [`Error::Other`].
    #[error("{error}")]
    Other {
        /// The reason.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

pmem::show_as_text!(ItemError {
    Space(error),
    Corrupt(error),
    KeyTooLong { found, limit },
    ValueTooLong { found, limit },
    TooManyCollisions { limit },
    Other { error },
});

impl From<Error> for ItemError {
    fn from(error: Error) -> Self {
        match error {
            Error::Space(error) => ItemError::Space(error),
            Error::Corrupt(error) => ItemError::Corrupt(error),
            Error::Other { error } => ItemError::Other { error },
        }
    }
}
