//! What a batch of changes that failed part-way has done.

use crate::Error;
use index::{Done, Unfinished};
use pmem::Named;
use std::fmt;

/// A batch of changes failed: why, and which of its entries took effect all the same.
///
/// Each entry took effect whole or not at all, and you can tell which did.
///
/// * An entry took effect if its call alone would have returned without an error. So an update of a key that is absent
///   counts, too.
/// * [`done`](BatchError::done) says how many entries took effect, [`is_done`](BatchError::is_done) which.
/// * Often these are the first ones, but not always. On some engines, and in stores, up to 31 entries behind the one
///   that failed may have taken effect: those that needed no space, say.
/// * Changes of one key keep their order. If an entry did not take effect, no later one with its key did.
///   So you may do the [rest](BatchError::undone) again, in order, once the cause is mended.
/// * With [`Durability::Commit`](crate::Durability::Commit) the entries that took effect survive power loss, like those
///   of a batch that succeeds. If the log cannot be written for that, the error is [`Error::Log`], and entries that
///   took effect survive power loss once it can be.
/// * With [`Error::Vanished`] no entry counts as done. Some may have reached the file: open the pool again, and look.
///
/// `?` turns it into an [`Error`], which has the cause alone.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// use firndex::{Error, Options, Table};
///
/// let small: Table = Options::new().max_bytes(1 << 20).in_memory_table()?;
/// let squares: Vec<(u64, u64)> = (0..100_000).map(|n| (n, n * n)).collect();
/// let failed = small.put_many(&squares).expect_err("there is no room for all of them");
/// assert!(matches!(failed.error(), Error::PoolFull(_)));
/// assert_eq!(failed.done() as u64, small.len());
/// assert!(failed.to_string().contains("of 100000 entries took effect"));
///
/// // The rest goes elsewhere.
/// let large = Table::in_memory()?;
/// let rest: Vec<(u64, u64)> = failed.undone().map(|index| squares[index]).collect();
/// large.put_many(&rest)?;
/// assert_eq!(small.len() + large.len(), 100_000);
/// # Ok(())
/// # }
/// ```
pub struct BatchError {
    // On the heap, since results of this size are copied.
    batch: Box<Batch>,
}

#[derive(Debug)]
struct Batch {
    error: Error,
    entries: usize,
    /// The entry that failed, if it was one.
    failed: Option<usize>,
    done: Done,
}

impl BatchError {
    #[cold]
    fn new(error: Error, entries: usize, failed: Option<usize>, done: Done) -> Self {
        BatchError { batch: Box::new(Batch { error, entries, failed, done }) }
    }

    /// The batch was refused before its first entry, or nothing is known of what it did.
    #[cold]
    pub(crate) fn none(entries: usize, error: Error) -> Self {
        BatchError::new(error, entries, None, Done::NONE)
    }

    /// These entries took effect, and then the pool failed.
    #[cold]
    pub(crate) fn after(entries: usize, done: Done, error: Error) -> Self {
        match error {
            // Memory may have answered in place of the file.
            Error::Vanished { .. } => BatchError::none(entries, error),
            _ => BatchError::new(error, entries, None, done),
        }
    }

    /// What an engine says.
    #[cold]
    pub(crate) fn of<E: Into<Error>>(entries: usize, unfinished: Unfinished<E>) -> Self {
        let Unfinished { error, failed, done } = unfinished;
        let failed = (failed != Unfinished::<E>::NO_ENTRY).then_some(failed);
        BatchError::new(error.into(), entries, failed, done)
    }

    /// The same in a batch that has more entries before these, which took effect.
    pub(crate) fn behind(mut self, before: usize) -> Self {
        self.batch.entries += before;
        self.batch.failed = self.batch.failed.map(|failed| failed + before);
        if !matches!(self.batch.error, Error::Vanished { .. }) {
            self.batch.done = self.batch.done.behind(before);
        }
        self
    }

    /// Which entries took effect, for who has done something beside them.
    pub(crate) fn entries_done(&self) -> Done {
        self.batch.done
    }

    /// Why the batch failed.
    pub fn error(&self) -> &Error {
        &self.batch.error
    }

    /// Why the batch failed, without what it had done.
    pub fn into_error(self) -> Error {
        self.batch.error
    }

    /// How many entries the batch has. In `extend`: how many were taken from the iterator.
    pub fn entries(&self) -> usize {
        self.batch.entries
    }

    /// How many entries took effect.
    pub fn done(&self) -> usize {
        self.batch.done.count()
    }

    /// Whether the entry with this index took effect.
    pub fn is_done(&self, index: usize) -> bool {
        self.batch.done.contains(index)
    }

    /// The index of the first entry that did not take effect. All before it did. It is [`entries`](BatchError::entries)
    /// if all took effect, and only the log failed after them.
    pub fn first_undone(&self) -> usize {
        self.batch.done.first_undone()
    }

    /// The indices of the entries that did not take effect, in order.
    pub fn undone(&self) -> impl Iterator<Item = usize> {
        let Batch { entries, done, .. } = *self.batch;
        (done.first_undone()..entries).filter(move |&index| !done.contains(index))
    }

    /// The index of the entry that failed: the value that is too long, say. `None` if the error concerns all of them,
    /// as that of a log does.
    pub fn failed(&self) -> Option<usize> {
        self.batch.failed
    }
}

/// How many entries took effect, and then the cause.
impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Batch { error, entries, failed, done } = &*self.batch;
        if *entries == 1 && done.count() == 0 {
            return error.fmt(f);
        }
        let first = done.first_undone();
        match done.count() - first {
            0 if first == 0 => write!(f, "none of {entries} entries took effect: ")?,
            0 if first == *entries => write!(f, "all {entries} entries took effect: ")?,
            0 => write!(f, "the first {first} of {entries} entries took effect, and no other: ")?,
            more => write!(
                f,
                "the first {first} of {entries} entries took effect, and {more} behind them: "
            )?,
        }
        match failed {
            Some(failed) if *failed != first => {
                write!(f, "entry {failed} (counted from 0): {error}")
            }
            _ => error.fmt(f),
        }
    }
}

/// As that of an [`Error`]: the message and the cause's name, or with `{:#?}` the fields.
impl fmt::Debug for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.debug_struct("BatchError").field("batch", &self.batch).finish();
        }
        write!(f, "{self} [BatchError of ")?;
        self.batch.error.write_name(f)?;
        f.write_str("]")
    }
}

/// Without the cause, which the message has.
impl std::error::Error for BatchError {}

/// The cause alone.
impl From<BatchError> for Error {
    fn from(error: BatchError) -> Self {
        error.into_error()
    }
}
