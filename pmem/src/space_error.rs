//! Why there is no space for a pool.

use crate::{limits, show_as_text};
use rustix::io::Errno;
use std::io;

/// Space for the pool could not be had. Nothing was changed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// The file system is full, or a limit set for the pool is reached.
    #[error(
        "the pool is full: it would have to grow to {needed_bytes} bytes, and {reason}; remove \
         entries, then try again"
    )]
    Full {
        /// Size the pool would have had to grow to.
        needed_bytes: u64,
        /// The reason, and what helps other than removing entries.
        reason: String,
    },
    /// There is no room for a new pool, for the reasons of [`SpaceError::Full`]. None was made.
    #[error("there is no room for the new pool: it needs {needed_bytes} bytes, and {reason}")]
    NoRoom {
        /// Size that it needs.
        needed_bytes: u64,
        /// The reason, and what helps.
        reason: String,
    },
    /// The buckets of a key are full, though the table is nearly empty.
    #[error(
        "the key finds no room, and the table does not double for it: it has {slots} slots for {pairs} pairs already, and too \
         many of its keys belong to the same buckets, as keys do that were chosen by someone who knows the pool's seed: \
         copy the pairs to a new pool, which has another seed"
    )]
    Crowded {
        /// Pairs that the table has.
        pairs: u64,
        /// Slots that it has.
        slots: u64,
    },
    /// The operating system refused for another reason.
    #[error(
        "the pool could not grow to {needed_bytes} bytes: {source}; nothing was changed: fix what the system reports, then \
         try again"
    )]
    Io {
        /// Size the pool would have had to grow to.
        needed_bytes: u64,
        /// The operating system's error.
        r#source: io::Error,
    },
}

show_as_text!(SpaceError {
    Full { needed_bytes, reason },
    NoRoom { needed_bytes, reason },
    Crowded { pairs, slots },
    Io { needed_bytes, r#source },
});

impl SpaceError {
    /// The limit set for the pool is reached.
    pub(crate) fn beyond_limit(needed_bytes: u64, limit_bytes: u64) -> SpaceError {
        let reason = format!("its limit is {limit_bytes} bytes: raise `Options::max_bytes`");
        SpaceError::Full { needed_bytes, reason }
    }

    /// The same of a pool that is being made: nothing can be removed from it.
    pub fn of_a_new_pool(self) -> SpaceError {
        match self {
            SpaceError::Full { needed_bytes, reason } => {
                SpaceError::NoRoom { needed_bytes, reason }
            }
            other => other,
        }
    }

    /// The pool's next checkpoint would have no room.
    pub(crate) fn of_log(needed_bytes: u64, error: io::Error) -> SpaceError {
        match error.kind() {
            io::ErrorKind::StorageFull => SpaceError::Full {
                needed_bytes,
                reason: format!("its checkpoint would have no room then: {error}"),
            },
            _ => SpaceError::Io { needed_bytes, source: error },
        }
    }

    /// The operating system gave no space, for want of it or by a fault.
    pub(crate) fn refused(needed_bytes: u64, error: Errno) -> SpaceError {
        let reason = match error {
            Errno::NOSPC => "its file system has too little space left: free some there".into(),
            Errno::DQUOT => {
                "the disk quota is used up: free space that counts towards it, or raise it".into()
            }
            Errno::FBIG => match limits::file_bytes_max() {
                Some(limit) => format!(
                    "no file of this process may become larger than {limit} bytes: raise that limit (`ulimit -f`)"
                ),
                None => "its file system has no files that large: use another one".into(),
            },
            Errno::NOMEM => "its file system has too little memory left: free some".into(),
            error => return SpaceError::Io { needed_bytes, source: error.into() },
        };
        SpaceError::Full { needed_bytes, reason }
    }
}
