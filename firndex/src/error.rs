//! The one error type of the facade.

use index::ItemError;
use pmem::durability::LogError;
use pmem::heap::Corrupt;
use pmem::pool::WriteError;
use pmem::{OpenError, SpaceError};
use std::io;
use std::time::Duration;

/// Why an operation failed. After any error, everything stored before is unchanged. Batches of changes, which may fail
/// part-way, have a [`BatchError`](crate::BatchError).
///
/// A message says what was found, what was expected and what to do. It includes the operating system's error, so that
/// error is not repeated as a [cause](std::error::Error::source).
///
/// `main` shows the error that it returns by [`Debug`](std::fmt::Debug), and so does [`Result::unwrap`]. So `{:?}` has
/// the message, and behind it the variant's name. `{:#?}` has the fields.
///
/// ```
/// let missing = firndex::Store::open("no-such-pool.firn").expect_err("it is not there");
/// let shown = format!("{missing:?}");
/// assert!(shown.starts_with("there is no pool at no-such-pool.firn; create it first"));
/// assert!(shown.ends_with(" [Error::Open(OpenError::Missing)]"));
/// assert!(format!("{missing:#?}").contains("path: \"no-such-pool.firn\""));
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool could not be created or opened.
    #[error(transparent)]
    Open(OpenError),
    /// The file system is full, or the pool's limit is reached, and moving values together made no room. Nothing was
    /// changed. The message says what is missing, what takes the space, and what helps.
    ///
    /// Reading and removing still work, and so does replacing a value by one that needs no more space, except in two
    /// cases. For a value above one megabyte, the pool keeps no space for a second copy. And [`Record`](crate::Record)s
    /// keep the space of replaced values: drop them, including the results of batches.
    #[error(transparent)]
    PoolFull(SpaceError),
    /// The pool holds something impossible: it is damaged.
    #[error(transparent)]
    Corrupt(Corrupt),
    /// The key or the value is too long, or too many keys share one hash or belong to the same buckets.
    #[error(transparent)]
    Limit(ItemError),
    /// Nothing was put into the cache: key and value would take more than a quarter of it.
    #[error(
        "key and value take {found} bytes, more than a quarter of the cache; at most {limit} are possible: give the cache \
         more, or keep this elsewhere"
    )]
    TooLarge {
        /// Bytes that the entry would take.
        found: u64,
        /// Most bytes of an entry.
        limit: u64,
    },
    /// Nothing was put into the cache: what would make room is still being read.
    #[error(
        "no room can be made in the cache, since values that were read are still held; drop the `Record`s of this and \
         other threads, then try again"
    )]
    CacheHeld,
    /// No table was made: the engine does not take keys and values of these sizes.
    #[error(
        "{engine} takes {takes}, not keys of {key_bytes} and values of {value_bytes} bytes; \
         {advice}"
    )]
    PairSizes {
        /// The engine asked for. If none was, the one with the largest pairs.
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
    /// No pool was made: the engine has no such parameter, or the value is out of its range.
    #[error("{}: {advice}", parameter(engine, name, *value, *exists))]
    Parameter {
        /// The engine asked for. If none was, the one with the largest pairs.
        engine: &'static str,
        /// The parameter's name.
        name: String,
        /// The value asked for.
        value: u64,
        /// Whether the engine has the parameter.
        exists: bool,
        /// What it can be, and what to do.
        advice: String,
    },
    /// Nothing was made or opened: an option's value is out of range.
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
    /// The bytes are no value of the type asked for, or the value cannot be written in the format. See `Store::get_as`.
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
    /// The pool's log could not be written or has no room; or it failed earlier, and changes are refused until it is
    /// mended.
    ///
    /// With [`Durability::Commit`](crate::Durability::Commit) the change itself may have been made. It then survives a
    /// killed process, and power loss once the log can be written again.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no log to wait for: only [`sync`](crate::Pool::sync) can be waited for. The pool has the durability
    /// `process`, or was opened read-only, or is in memory, where nothing survives.
    #[error(
        "there is no log to wait for: the pool has the durability `process`, was opened read-only, or is in memory; open \
         a pool in a file for writing with `periodic` or `commit` (`Options::durability`), or use `sync`"
    )]
    NotLogged,
    /// The pool was opened read-only.
    #[error("the pool was opened read-only; open it for writing to change it")]
    ReadOnly,
    /// A forked process used an inherited handle.
    #[error(
        "this handle was opened before the process forked, and its bookkeeping is a stale copy; \
         open the pool again in the child, after the parent has closed it or as its guest (`Options::guests`)"
    )]
    Forked,
    /// The process that owned the pool has ended while it did what this process, a guest, had asked for. So that may
    /// have happened or not: look before you do it again. Of a batch, entries that do not count as done may have taken
    /// effect; of a scan, the rest is missing. Nothing that was answered is lost, and the next call finds the new
    /// owner.
    #[error(
        "the process that owned the pool ended while it did this, so it may have been done or not: look, and do it again \
         if it was not"
    )]
    Interrupted,
    /// The process that owns the pool has not answered this one, a guest, for [`Options::patience`]: it is stopped, or
    /// its machine is far too busy, or it is taking long to open the pool. What was asked may happen yet, unless nobody
    /// has begun it. Nobody takes the pool from a process that may go on.
    ///
    /// [`Options::patience`]: crate::Options::patience
    #[error(
        "{} has not answered for {:.1} s; look whether it is stopped (`kill -CONT` lets it go on), or end it, or wait longer \
         (`Options::patience`)",
        owner(*process), waited.as_secs_f64()
    )]
    Silent {
        /// The process, as its own namespace numbers it; 0 if it has not said its number.
        process: u32,
        /// How long this one has waited.
        waited: Duration,
    },
    /// The process that owns the pool could not do what this one, a guest, has asked for.
    #[error("the process that owns the pool could not do it: {found}")]
    Owner {
        /// What it says.
        found: String,
    },
    /// Only the process that owns a pool can do this, and this one is a guest.
    #[error("{what} is for the process that owns the pool, and this one is a guest: {advice}")]
    ForOwner {
        /// What was asked for.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A page of the pool's file has vanished while the pool was open: another program has truncated the file, or its
    /// device failed. Only with [`Options::survive_bus_errors`](crate::Options::survive_bus_errors); else the process
    /// ends with SIGBUS.
    ///
    /// Every later call on the pool fails so, and nothing of it reaches the file, the log or a checkpoint any more.
    #[error(
        "the pool's file is no longer what the pool made of it: it has {file_bytes} bytes, and the pool {pool_bytes}; {}",
        after_vanishing(*file_bytes < *pool_bytes)
    )]
    Vanished {
        /// Bytes that the file has now.
        file_bytes: u64,
        /// Bytes of the pool.
        pool_bytes: u64,
    },
    /// The operating system failed.
    #[error(
        "{action}: {source}; fix what the system reports, then try again; stored data is unchanged"
    )]
    Io {
        /// What was being done.
        action: &'static str,
        /// The operating system's error.
        r#source: io::Error,
    },
}

pmem::show_as_text!(Error {
    Open(error),
    PoolFull(error),
    Corrupt(error),
    Limit(error),
    TooLarge { found, limit },
    CacheHeld,
    PairSizes { engine, takes, key_bytes, value_bytes, advice },
    Parameter { engine, name, value, exists, advice },
    OutOfRange { option, found, expected },
    Value { action, type_name, found },
    Log(error),
    NotLogged,
    ReadOnly,
    Forked,
    Interrupted,
    Silent { process, waited },
    Owner { found },
    ForOwner { what, advice },
    Vanished { file_bytes, pool_bytes },
    Io { action, r#source },
});

/// Who owns the pool.
fn owner(process: u32) -> String {
    match process {
        0 => "the process that owns the pool".into(),
        number => format!("process {number}, which owns the pool,"),
    }
}

/// What is wrong with a parameter.
fn parameter(engine: &str, name: &str, value: u64, exists: bool) -> String {
    match exists {
        true => format!("`{name}` cannot be {value} on {engine}"),
        false => format!("{engine} has no parameter `{name}`"),
    }
}

/// What to do when a page of a pool's file has vanished.
fn after_vanishing(is_truncated: bool) -> &'static str {
    if is_truncated {
        "another program has truncated it: drop this handle, and open the pool again, which restores it if it has a log on \
         a disk; else restore a backup, or copy out what is left (`Salvage::open(POOL)`)"
    } else {
        "another program has copied something over it, or its device failed or is full: drop this handle, mend that, and \
         open the pool again, which restores it from checkpoint and log if the file is removed; else restore a backup, or \
         copy out what is left (`Salvage::open(POOL)`)"
    }
}

impl Error {
    /// The same of a pool that is being made, where a full disk leaves nothing to remove.
    pub(crate) fn of_a_new_pool(self) -> Error {
        match self {
            Error::PoolFull(full) => Error::PoolFull(full.of_a_new_pool()),
            other => other,
        }
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Where a result with an error in place would be too large.
impl From<Box<Error>> for Error {
    fn from(error: Box<Error>) -> Self {
        *error
    }
}

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
            crowded @ SpaceError::Crowded { .. } => Error::Limit(ItemError::Space(crowded)),
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
            ItemError::Other { error } => match error.downcast() {
                Ok(error) => *error,
                Err(other) => Error::Owner { found: other.to_string() },
            },
            limit => Error::Limit(limit),
        }
    }
}

/// What a guest says in place of an engine.
impl From<Error> for index::Error {
    fn from(error: Error) -> Self {
        index::Error::Other { error: Box::new(error) }
    }
}

/// As above.
impl From<Error> for ItemError {
    fn from(error: Error) -> Self {
        ItemError::Other { error: Box::new(error) }
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
