//! What ends a demonstration early.

use std::io;
use std::process::ExitStatus;

/// Why a demonstration, or its writing process, did not finish. Lost chunks are no such error: see
/// [`Outcome::breach`](crate::Outcome::breach).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system failed.
    #[error("{action}")]
    System {
        /// What was being done.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The pool failed.
    #[error("{action}")]
    Pool {
        /// What was being done.
        action: &'static str,
        /// The pool's error.
        source: firndex::Error,
    },
    /// The process that this one should write for is not its parent.
    #[error("process {0} is gone, which this one works for")]
    Orphaned(u32),
    /// The writing process did not live until it was killed.
    #[error("the writing process ended by itself ({0}) before it was killed")]
    EndedEarly(ExitStatus),
    /// The writing process failed.
    #[error("the writing process failed ({0})")]
    WriterFailed(ExitStatus),
    /// The writing process left something out.
    #[error("the writing process reported {reported} chunks and ended, expected all {chunks}")]
    Incomplete {
        /// Chunks that it reported.
        reported: u64,
        /// Chunks that there are.
        chunks: u64,
    },
    /// The writing process reported something impossible.
    #[error("the writing process reported chunk {0}, which was never handed to it")]
    Invented(u64),
}

impl Error {
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { action, source }
    }

    pub(crate) fn pool(action: &'static str) -> impl FnOnce(firndex::Error) -> Error {
        move |source| Error::Pool { action, source }
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
