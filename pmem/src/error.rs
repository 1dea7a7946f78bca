//! Why a pool cannot be opened, and why it cannot grow. Each message says what was found, what
//! was expected and what to do. Advice names calls of the library; the command says instead what is to be typed.
//!
//! A message includes the operating system's error. So that error is not also its `source`, which a printed chain of
//! causes would repeat: `thiserror` does not treat a field named `r#source` as a cause.

mod shown;

use crate::show_as_text;
#[doc(hidden)]
pub use crate::space_error::SpaceError;
pub use shown::Named;
use std::io;
use std::path::PathBuf;

fn how_to_write(refused: &io::Error, needs_recovery: bool) -> &'static str {
    match (refused.kind() == io::ErrorKind::ReadOnlyFilesystem, needs_recovery) {
        (false, false) => "make it writable, or open it read-only",
        (true, false) => "mount its file system for writing, or open it read-only",
        (false, true) => {
            "it was not closed cleanly, and recovery writes, so it cannot be opened read-only \
             either: make it writable"
        }
        (true, true) => {
            "it was not closed cleanly, and recovery writes, so it cannot be opened read-only \
             either: mount its file system for writing"
        }
    }
}

/// Damage that an opening has not met, and what was built afterwards has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// The pool has another number of pairs than it had when it was closed.
    Miscounted {
        /// Pairs that were found.
        found: u64,
        /// Pairs that were recorded.
        expected: u64,
    },
    /// Content that no pool has.
    Corrupt(String),
}

impl From<Damage> for OpenError {
    fn from(damage: Damage) -> OpenError {
        match damage {
            Damage::Miscounted { found, expected } => OpenError::Miscounted { found, expected },
            Damage::Corrupt(found) => OpenError::Corrupt { found },
        }
    }
}

/// A pool could not be created or opened. The file is unchanged.
///
/// A message includes the operating system's error, so that error is not a [`source`](std::error::Error::source).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file to be created exists.
    #[error("{path} exists already; choose another name, or open it instead of creating it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// There is no such file.
    #[error("there is no pool at {path}; create it first, or open it with `open_or_create`")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is no directory to create the file in.
    #[error("there is no directory {path} to create the pool in; create the directory first")]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The path names something that is not a regular file.
    #[error("{path} is {found}, and a pool is a regular file; name the file itself")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// The file holds something else.
    #[error("this is not a firndex pool: {found}; {advice}")]
    NotAPool {
        /// What was found in place of the superblock.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// The superblock is damaged in both copies.
    #[error(
        "the pool's superblock is damaged in both copies ({found}); restore the file from a backup, or copy out what still reads well: `Salvage::open(POOL)`"
    )]
    Damaged {
        /// What is wrong with each copy.
        found: String,
    },
    /// The file is shorter than the pool recorded in it.
    #[error(
        "the pool is truncated: the file has {found_bytes} bytes and the pool {expected_bytes}; \
         restore the file from a backup, or copy out what still reads well: `Salvage::open(POOL)`"
    )]
    Truncated {
        /// Length of the file.
        found_bytes: u64,
        /// Length recorded in the superblock.
        expected_bytes: u64,
    },
    /// The pool differs from what this call asked for, or from what this build can handle.
    #[error("the pool's {field} is {found}, expected {expected}; {advice}")]
    Mismatch {
        /// What differs.
        field: &'static str,
        /// What the pool says.
        found: String,
        /// What was asked for, or what this build handles.
        expected: String,
        /// What to do.
        advice: &'static str,
    },
    /// Another process holds the pool.
    #[error("{path} is in use by another process; {advice}")]
    Busy {
        /// The file.
        path: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// This process holds the pool already.
    #[error("{path} is open in this process already; share that handle between the threads")]
    AlreadyOpen {
        /// The file.
        path: PathBuf,
    },
    /// The pool was not closed, and what the medium has kept cannot be trusted.
    #[error(
        "the pool was not closed cleanly and {found}: what was written last may be missing or \
         torn; {advice}"
    )]
    Dirty {
        /// Why it cannot be trusted.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A pool that needs recovery cannot be opened for reading only.
    #[error("the pool was not closed cleanly; open it once for writing, which recovers it")]
    NeedsRecovery,
    /// The file may not be written.
    #[error("{path} cannot be written ({source}); {}", how_to_write(source, *needs_recovery))]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// It holds a pool that was not closed cleanly, and recovery must write before anybody can read.
        needs_recovery: bool,
        /// The operating system's error.
        r#source: io::Error,
    },
    /// `dax` was asked for, and the file system has no DAX.
    #[error(
        "{path} is not on a DAX file system (MAP_SYNC was refused: {source}); use the medium \
         `mapped`, or mount the file system with -o dax"
    )]
    NoDax {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        r#source: io::Error,
    },
    /// This processor lacks something that firndex needs.
    #[error(
        "this processor does not support {missing}, which firndex needs; use a machine that does"
    )]
    Unsupported {
        /// What is missing.
        missing: &'static str,
    },
    /// The pool's content contradicts itself.
    #[error(
        "the pool is damaged: {found}; restore the file from a backup, or copy out what still reads well: `Salvage::open(POOL)`"
    )]
    Corrupt {
        /// What was found.
        found: String,
    },
    /// The pool holds another number of pairs than when it was closed. It stays closed and unchanged.
    #[error(
        "the pool is damaged: {found} pairs were found in it, and it had {expected} when it was closed; \
         restore the file from a backup, or copy out what is left: `Salvage::open(POOL)`"
    )]
    Miscounted {
        /// Pairs that were found.
        found: u64,
        /// Pairs that were recorded when the pool was closed.
        expected: u64,
    },
    /// The pool's file does not count, so the pool must be restored, and its checkpoint or log cannot be used.
    #[error(
        "{path} {state}, and cannot be restored from its checkpoint and log: {found}; put the pool's files together again \
         as they were (POOL and the directory POOL.safe), or restore a backup of both{advice}"
    )]
    NotRestored {
        /// The pool.
        path: PathBuf,
        /// Why its file does not count.
        state: &'static str,
        /// What stands against restoring it.
        found: String,
        /// What else to do with the files that are there.
        advice: String,
    },
    /// What belongs to another pool lies where this one's log would be.
    #[error(
        "{path} belongs to another pool ({found:032x}), and this one needs the name for its log: move that directory away \
         with its pool, or remove it, or name another directory for this pool's log (`Options::log_directory`)"
    )]
    ForeignLog {
        /// The other pool's directory.
        path: PathBuf,
        /// The other pool's identity.
        found: u128,
    },
    /// There is no file of the pool to be created, but its log and checkpoint are there.
    #[error(
        "there is no file {path}, but the log and checkpoint of a pool called so are in {companions}: open it instead, which \
         restores the pool; to begin anew, remove that directory, or call `firndex::remove`"
    )]
    LeftLog {
        /// Where the pool was to be.
        path: PathBuf,
        /// The directory that is left.
        companions: PathBuf,
    },
    /// Something that is not firndex's has the name of the pool's directory. It is left alone.
    #[error(
        "the pool needs the name {path} for its log and checkpoint, and something else has it: {found}; move that away, or \
         name another directory for the log (`Options::log_directory`)"
    )]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Another process writes to the pool's log, though not to the file that has the pool's name.
    #[error(
        "{path} is in use by a process that has the pool open, perhaps one whose file was moved or removed: end that first"
    )]
    BusyLog {
        /// The directory of log and checkpoint.
        path: PathBuf,
    },
    /// There is no directory to make the pool's log in.
    #[error(
        "there is no directory {path} for the pool's log and checkpoint: create it, or name another one \
         (`Options::log_directory`)"
    )]
    NoLogDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The pool's log cannot be made where it has to be.
    #[error(
        "log and checkpoint of the pool have to be in {path}, which cannot be made ({source}): give this user the right to \
         write in the directory above it, or name another directory (`Options::log_directory`), or open the pool with \
         durability `process`, which needs neither"
    )]
    NoRightToLog {
        /// The directory of log and checkpoint.
        path: PathBuf,
        /// The operating system's error.
        r#source: io::Error,
    },
    /// The pool's name leaves no room for that of its log.
    #[error(
        "the name of {path} has {found_bytes} bytes, and a pool with a log has {expected_bytes} at most; take a shorter one, \
         or durability `process`"
    )]
    NameTooLong {
        /// The pool.
        path: PathBuf,
        /// Bytes of its name.
        found_bytes: usize,
        /// Bytes that it may have.
        expected_bytes: usize,
    },
    /// The pool belongs to somebody else, and this process may not make files that do. Nothing was changed.
    #[error(
        "{path} belongs to {owner}, and what is made for it has to, but this process is of {caller} and may not do that: \
         open it as its owner or as root"
    )]
    OthersFile {
        /// The pool.
        path: PathBuf,
        /// Whose it is.
        owner: String,
        /// Whose the process is.
        caller: String,
    },
    /// The pool's log is in another directory.
    #[error("the log of {path} is in another directory: name it with `Options::log_directory`")]
    LogElsewhere {
        /// The pool.
        path: PathBuf,
    },
    /// The pool's log or its checkpoint could not be written.
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    #[error(transparent)]
    Log(#[from] crate::durability::LogError),
    /// Space for the pool could not be had.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The operating system refused.
    #[error(
        "{action} {path}: {source}; fix what the system reports, then try again; the pool is unchanged"
    )]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        r#source: io::Error,
    },
}

show_as_text!(OpenError {
    Exists { path },
    Missing { path },
    NoDirectory { path },
    NotAFile { path, found },
    NotAPool { found, advice },
    Damaged { found },
    Truncated { found_bytes, expected_bytes },
    Mismatch { field, found, expected, advice },
    Busy { path, advice },
    AlreadyOpen { path },
    Dirty { found, advice },
    NeedsRecovery,
    NotWritable { path, needs_recovery, r#source },
    NoDax { path, r#source },
    Unsupported { missing },
    Corrupt { found },
    Miscounted { found, expected },
    NotRestored { path, state, found, advice },
    ForeignLog { path, found },
    LeftLog { path, companions },
    InTheWay { path, found },
    BusyLog { path },
    NoLogDirectory { path },
    NoRightToLog { path, r#source },
    NameTooLong { path, found_bytes, expected_bytes },
    OthersFile { path, owner, caller },
    LogElsewhere { path },
    #[cfg(not(any(feature = "simulated", feature = "loom")))]
    Log(error),
    Space(error),
    Io { action, path, r#source },
});
