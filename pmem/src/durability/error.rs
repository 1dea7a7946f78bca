//! What can go wrong with a log.

use crate::file::Displaced;
use crate::show_as_text;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The log of a pool, or its checkpoint, could not be written. The pool can still be read, and keeps what it has if the
/// process is killed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no room for more of the log. Nothing was changed.
    #[error(
        "{path} cannot be made ({source}), so changes cannot be logged any more: {}; look-ups go on, and changes resume \
         once there is room",
        how_to_make_room(source)
    )]
    Full {
        /// The file that was to be made.
        path: PathBuf,
        /// The operating system's error.
        r#source: Arc<io::Error>,
    },
    /// A file could not be written.
    #[error(
        "{action} {path} failed ({source}): changes since the last sync survive a killed process, but may not survive power \
         loss; changes are refused until a new checkpoint can be written, which is tried every second{}",
        if_full(source)
    )]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        r#source: Arc<io::Error>,
    },
    /// Another file has the name of the pool, or another directory that of its log; or neither is there any more.
    #[error(
        "{displaced}: nothing that is written from now on would survive power loss, so changes are refused, and what has \
         the name now is left alone; close this handle, and open the pool where it is by now"
    )]
    Displaced {
        /// What was found.
        displaced: Displaced,
    },
    /// A file that is not the pool's has the name of one of its files. It is left alone.
    #[error("{path} is not one of this pool's files, and stands in the way of one: move it away")]
    InTheWay {
        /// The file.
        path: PathBuf,
    },
    /// The threads that write the log could not be started. The pool was not opened.
    #[error(
        "a thread that writes the pool's log could not be started ({source}): raise the limit on processes and threads \
         (`ulimit -u`, or the container's), or open the pool with durability `process`, which needs \
         none"
    )]
    NoThread {
        /// The operating system's error.
        r#source: Arc<io::Error>,
    },
    /// The pool's log has ended.
    #[error("the pool is being closed, and takes no more changes; open it again to make them")]
    Closed,
    /// The process that writes the log has said so.
    #[error("{found}")]
    Told {
        /// What it has said.
        found: String,
    },
}

show_as_text!(LogError {
    Full { path, r#source },
    Io { action, path, r#source },
    Displaced { displaced },
    InTheWay { path },
    NoThread { r#source },
    Closed,
    Told { found },
});

/// What gives a file room that was refused it.
fn how_to_make_room(refused: &io::Error) -> &'static str {
    match refused.kind() {
        io::ErrorKind::QuotaExceeded => {
            "free space that counts towards the disk quota, or raise that"
        }
        io::ErrorKind::FileTooLarge => {
            "raise the process's limit on the size of files (`ulimit -f`), if it has one, or put log and checkpoint on \
             another file system"
        }
        _ => "free space on its file system",
    }
}

/// The same as the end of a message, if room is what was refused.
fn if_full(refused: &io::Error) -> String {
    if LogError::is_full(refused) {
        format!(": {}", how_to_make_room(refused))
    } else {
        String::new()
    }
}

/// Errors are the same that say the same.
impl PartialEq for LogError {
    fn eq(&self, other: &LogError) -> bool {
        self.to_string() == other.to_string()
    }
}

impl LogError {
    pub(super) fn io(action: &'static str, path: PathBuf) -> impl FnOnce(io::Error) -> LogError {
        move |source| match source.get_ref().and_then(|inner| inner.downcast_ref::<Displaced>()) {
            Some(displaced) => LogError::Displaced { displaced: displaced.clone() },
            None => LogError::Io { action, path, source: Arc::new(source) },
        }
    }

    /// The same of a file that was to be made, or to become longer: nothing was written.
    pub(super) fn refused(action: &'static str, path: PathBuf, error: io::Error) -> LogError {
        if LogError::is_full(&error) {
            return LogError::Full { path, source: Arc::new(error) };
        }
        LogError::io(action, path)(error)
    }

    /// Whether room is all that is missing.
    pub(super) fn is_full(error: &io::Error) -> bool {
        matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }
}

impl From<LogError> for io::Error {
    fn from(error: LogError) -> io::Error {
        let kind = match &error {
            LogError::Full { .. } => io::ErrorKind::StorageFull,
            LogError::Io { source, .. } => source.kind(),
            LogError::Displaced { .. } => io::ErrorKind::NotFound,
            LogError::InTheWay { .. } => io::ErrorKind::AlreadyExists,
            LogError::NoThread { source } => source.kind(),
            LogError::Closed => io::ErrorKind::BrokenPipe,
            LogError::Told { .. } => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// A pool's checkpoint and log do not give the pool back. They are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// There is no checkpoint.
    #[error("{path} is missing")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The checkpoint is another pool's.
    #[error("{path} belongs to the pool {found:032x}, not to {expected:032x}")]
    Foreign {
        /// The checkpoint.
        path: PathBuf,
        /// Whose it is.
        found: u128,
        /// Whose it should be.
        expected: u128,
    },
    /// The checkpoint is the pool's, but from another time.
    #[error(
        "{path} is from another time: the pool was moved and used without it since; to go back to what is in it, \
         move the pool's own file away"
    )]
    Outdated {
        /// The checkpoint.
        path: PathBuf,
    },
    /// A file does not hold what it should.
    #[error("{path} is damaged: {found}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Another version wrote the file.
    #[error("{path} has the format version {found}, expected {expected}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// This build's.
        expected: u64,
    },
    /// There is no space for what is restored.
    #[error(transparent)]
    Space(#[from] crate::SpaceError),
    /// The operating system refused.
    #[error("reading {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        r#source: io::Error,
    },
}

/// A pool with a log cannot be had as it is at one moment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The log does not go on.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its checkpoint cannot be read.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}
