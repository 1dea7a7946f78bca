//! One thing to do.

use crate::Scatter;

/// An operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Look up a key that is present.
    Read(u64),
    /// Look up a key that is absent.
    ReadAbsent(u64),
    /// Give a present key a new value.
    Update(u64),
    /// Store an absent key.
    Insert(u64),
    /// Remove a present key.
    Remove(u64),
    /// Look up a present key, then give it a value made from the one found.
    ReadModifyWrite(u64),
    /// Look up `length` records together, from rank `first`; see [`Operation::keys`].
    Scan {
        /// Rank of the first record.
        first: u64,
        /// Number of records, from 1.
        length: u16,
    },
}

impl Operation {
    /// The keys an operation is on, in order: those of `length` successive ranks for a scan, one
    /// key for the others.
    ///
    /// A hash table keeps no order that a scan could follow. What it offers the application that
    /// wants many records at once is a batch of look-ups, and a scan is read as that.
    pub fn keys(self, scatter: Scatter) -> impl Iterator<Item = u64> {
        let (first, length) = match self {
            Operation::Read(key)
            | Operation::ReadAbsent(key)
            | Operation::Update(key)
            | Operation::Insert(key)
            | Operation::Remove(key)
            | Operation::ReadModifyWrite(key) => (scatter.rank(key), 1),
            Operation::Scan { first, length } => (first, u64::from(length)),
        };
        (0..length).map(move |next| scatter.key(first.wrapping_add(next)))
    }

    /// Which kind of operation this is.
    pub fn kind(self) -> Kind {
        match self {
            Operation::Read(_) => Kind::Read,
            Operation::ReadAbsent(_) => Kind::ReadAbsent,
            Operation::Update(_) => Kind::Update,
            Operation::Insert(_) => Kind::Insert,
            Operation::Remove(_) => Kind::Remove,
            Operation::ReadModifyWrite(_) => Kind::ReadModifyWrite,
            Operation::Scan { .. } => Kind::Scan,
        }
    }
}

/// The kinds of [`Operation`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// See [`Operation::Read`].
    Read,
    /// See [`Operation::ReadAbsent`].
    ReadAbsent,
    /// See [`Operation::Update`].
    Update,
    /// See [`Operation::Insert`].
    Insert,
    /// See [`Operation::Remove`].
    Remove,
    /// See [`Operation::ReadModifyWrite`].
    ReadModifyWrite,
    /// See [`Operation::Scan`].
    Scan,
}
