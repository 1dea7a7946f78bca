//! The one error type of the facade.

use index::ItemError;
use pmem::durability::LogError;
use pmem::heap::Corrupt;
use pmem::pool::WriteError;
use pmem::{OpenError, SpaceError};
use std::io;

/// Why an operation failed. Whatever failed, what was stored before is as it was.
///
/// A message says what was found, what was expected and what to do. It tells the operating system's error itself, so that
/// a chain of [causes](std::error::Error::source) does not say it again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool could not be created or opened.
    #[error(transparent)]
    Open(OpenError),
    /// The file system is full, or the pool's limit is reached, and moving values together made no room. Nothing was
    /// changed. The message says what lacks room, what holds it, and what helps.
    ///
    /// Reading and removing go on, and so does replacing a value by one that needs no more space.
    /// That can fail in two cases. The value has more than a megabyte: no second copy of it is kept
    /// free. Or [`Record`](crate::Record)s are held, which keep the space of what was replaced: drop them,
    /// the results of a batch among them.
    #[error(transparent)]
    PoolFull(SpaceError),
    /// The pool holds something that cannot be.
    #[error(transparent)]
    Corrupt(Corrupt),
    /// The key is too long, the value is, or too many keys share one hash.
    #[error(transparent)]
    Limit(ItemError),
    /// The pool's engine does not offer the operation.
    #[error(
        "a pool on {engine} cannot {operation} yet, pools on {others} can: copy the pairs to one of these"
    )]
    NotOffered {
        /// What was asked for.
        operation: &'static str,
        /// The pool's engine.
        engine: &'static str,
        /// Engines that offer it.
        others: String,
    },
    /// No table was made: its engine does not take keys and values of these sizes.
    #[error(
        "{engine} takes {takes}, not keys of {key_bytes} and values of {value_bytes} bytes; \
         {advice}"
    )]
    PairSizes {
        /// The engine asked for; where none was, the one that takes the most.
        engine: &'static str,
        /// What it takes.
        takes: &'static str,
        /// Bytes of the keys asked for.
        key_bytes: u32,
        /// Bytes of the values asked for.
        value_bytes: u32,
        /// What to do.
        advice: String,
    },
    /// No pool was made: its engine has no such parameter, or not with this value.
    #[error("{engine} has no parameter {name} of {value} here: {advice}")]
    Parameter {
        /// The engine asked for; where none was, the one that takes the most.
        engine: &'static str,
        /// The parameter's name.
        name: String,
        /// The value asked for.
        value: u64,
        /// What to do.
        advice: String,
    },
    /// Nothing was made or opened: an option has a value that it cannot have.
    #[error(
        "`Options::{option}` was given {found}, expected {expected}; leave it out to take its default"
    )]
    OutOfRange {
        /// The option's name.
        option: &'static str,
        /// The value asked for.
        found: String,
        /// What it can be.
        expected: String,
    },
    /// A value is no value of the type asked for, or cannot be written in its format. See `Store::get_as`.
    #[error(
        "the value cannot be {action} as {type_name} in the format postcard: {found}; use the type that it was written \
         with, or its bytes as they are (`Store::get`, `Store::put`)"
    )]
    Value {
        /// `read` or `written`.
        action: &'static str,
        /// The type.
        type_name: &'static str,
        /// What was found.
        found: String,
    },
    /// The pool's log could not be written, or has no room; or the log has failed before, and changes are refused.
    ///
    /// With [`Durability::Commit`](crate::Durability::Commit) the change itself may have been made: then it survives a
    /// killed process, and power loss once the log can be written again.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The pool has no log, so that nothing can be waited for but [`sync`](crate::Table::sync).
    #[error(
        "the pool is open with durability `process`, which keeps no log: open it with `periodic` or `commit` \
         (`Options::durability`), or use `sync`"
    )]
    NotLogged,
    /// The pool was opened read-only.
    #[error("the pool was opened read-only; open it for writing to change it")]
    ReadOnly,
    /// The handle was inherited by a forked process.
    #[error(
        "this handle was opened before the process forked, and its bookkeeping is a stale copy; \
         open the pool again in the child, after the parent has closed it"
    )]
    Forked,
    /// The operating system failed.
    #[error(
        "{action}: {source}; mend what the system tells, then try again: what was stored is as it was"
    )]
    Io {
        /// What was being done.
        action: &'static str,
        /// The operating system's error.
        r#source: io::Error,
    },
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Space(error) => error.into(),
            OpenError::Log(error) => Error::Log(error),
            error => Error::Open(error),
        }
    }
}

impl From<SpaceError> for Error {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Io { source, .. } => Error::Io { action: "growing the pool", source },
            full => Error::PoolFull(full),
        }
    }
}

impl From<index::Error> for Error {
    fn from(error: index::Error) -> Self {
        ItemError::from(error).into()
    }
}

impl From<ItemError> for Error {
    fn from(error: ItemError) -> Self {
        match error {
            ItemError::Space(error) => error.into(),
            ItemError::Corrupt(error) => Error::Corrupt(error),
            limit => Error::Limit(limit),
        }
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(source) => Error::Io { action: "marking the pool as written", source },
            _ => Error::ReadOnly,
        }
    }
}
