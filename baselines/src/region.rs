//! A table's memory, and the redo log through which it changes.
//!
//! ```text
//!    0  magic  commit  shape (6 words)                      line 0
//!   64  a cell for each key that is a mark: state, value    line 1
//!  128  the log: a line for each record                     records_max lines
//!       the table
//! ```
//!
//! A transaction collects the cells that it will write. Then
//!
//! 1. each record is written and flushed: where the cell is, and what it will hold; a fence;
//! 2. the commit word gets the number of records; flush, fence;
//! 3. each cell is written in place and flushed; a fence;
//! 4. the commit word becomes 0, which truncates the log; flush, fence.
//!
//! A crash before the end of step 2 leaves the commit word 0: nothing has happened. After it, opening repeats steps 3
//! and 4 as often as necessary: cells are set, not changed. Step 4 needs its fence, since the next transaction's
//! records overwrite these.
//!
//! If a process was killed, the commit word that opening reads may not be durable. If cells were then written in place,
//! a crash could leave some of them without the commit; or, if the word is 0, the old commit with the next records. So
//! opening first persists line 0.

use pmem::{LINE, Medium, Offset, SpaceError};
use std::sync::Arc;

/// Words of a table's shape.
pub const SHAPE_WORDS: usize = 6;

/// Bytes of a pair of key and value.
pub(crate) const PAIR_BYTES: u64 = 16;

/// Marks a table, and the version of its format.
const MAGIC: u64 = u64::from_le_bytes(*b"baseln01");
const MAGIC_AT: Offset = Offset(0);
const COMMIT_AT: Offset = Offset(8);
const SHAPE_AT: Offset = Offset(16);
const ASIDE_AT: Offset = Offset(LINE);
const LOG_AT: Offset = Offset(2 * LINE);

/// Bit of the offset in a record: the cell has two words.
const IS_PAIR: u64 = 1;

/// Why a table did not open.
#[derive(Debug)]
pub enum OpenError {
    /// The memory holds no table.
    NoTable,
    /// It holds a table of an unknown number.
    Unknown(u64),
    /// There is not enough memory.
    Space(SpaceError),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::NoTable => f.write_str("there is no table"),
            OpenError::Unknown(number) => write!(f, "no table has number {number}"),
            OpenError::Space(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// How a change reaches the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Commit {
    /// Through the redo log, as a whole.
    #[default]
    Logged,
    /// Cell by cell, the last one first ([`crate::unlogged`]).
    Ordered,
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A pair is inserted.
    Insert,
    /// A value is replaced.
    Update,
    /// A pair is removed.
    Remove,
}

/// What transactions of one kind have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writes {
    /// Transactions that were committed.
    pub transactions: u64,
    /// Cells that they wrote.
    pub cells: u64,
}

impl Writes {
    /// Writes by the rule: two for a cell, two for a transaction.
    pub fn count(self) -> u64 {
        2 * self.cells + 2 * self.transactions
    }

    /// Writes per transaction.
    pub fn per_transaction(self) -> f64 {
        self.count() as f64 / self.transactions.max(1) as f64
    }

    /// What was written since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Writes) -> Writes {
        Writes {
            transactions: self.transactions - earlier.transactions,
            cells: self.cells - earlier.cells,
        }
    }
}

/// What a table has written since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// By insertions.
    pub inserts: Writes,
    /// By updates.
    pub updates: Writes,
    /// By removals.
    pub removes: Writes,
}

/// The new content of a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) at: Offset,
    pub(crate) is_pair: bool,
    pub(crate) words: [u64; 2],
}

impl Record {
    /// Writes the cell in place.
    pub(crate) fn store<M: Medium>(&self, medium: &M) {
        medium.store(self.at, self.words[0]);
        if self.is_pair {
            medium.store(self.at.word(1), self.words[1]);
        }
    }
}

/// A table's memory. [`Region::load`] reads what a transaction has set; it is in place once the transaction is
/// committed.
#[derive(Debug)]
pub struct Region<M> {
    medium: Arc<M>,
    records_max: u64,
    pending: Vec<Record>,
    changes: Changes,
    commit: Commit,
}

impl<M: Medium> Region<M> {
    /// Creates a table of `table_bytes` on empty memory, whose transactions write up to `records_max` cells.
    pub fn create(
        medium: Arc<M>,
        shape: [u64; SHAPE_WORDS],
        records_max: u64,
        table_bytes: u64,
    ) -> Result<Region<M>, OpenError> {
        let region = Region::over(medium, records_max, table_bytes)?;
        let medium = &region.medium;
        for (index, word) in (0..).zip(shape) {
            medium.store(SHAPE_AT.word(index), word);
        }
        // In one line with the shape: if the magic is there, so is the shape.
        medium.store_release(MAGIC_AT, MAGIC);
        medium.persist(MAGIC_AT);
        Ok(region)
    }

    /// The shape of the table on `medium`.
    pub fn shape(medium: &M) -> Result<[u64; SHAPE_WORDS], OpenError> {
        if medium.size() < LINE || medium.load(MAGIC_AT) != MAGIC {
            return Err(OpenError::NoTable);
        }
        Ok(std::array::from_fn(|index| medium.load(SHAPE_AT.word(index as u64))))
    }

    /// Opens a table, however its last use ended. `records_max` and `table_bytes` are as at its creation.
    pub fn open(
        medium: Arc<M>,
        records_max: u64,
        table_bytes: u64,
    ) -> Result<Region<M>, OpenError> {
        let mut region = Region::over(medium, records_max, table_bytes)?;
        let records = region.medium.load(COMMIT_AT);
        for number in 0..records.min(records_max) {
            let line = region.record_at(number);
            let [at, low, high] = [0, 1, 2].map(|word| region.medium.load(line.word(word)));
            let is_pair = at & IS_PAIR != 0;
            region.pending.push(Record { at: Offset(at & !IS_PAIR), is_pair, words: [low, high] });
        }
        // In either case it may be what a killed process stored last.
        region.medium.persist(COMMIT_AT);
        if records > 0 {
            region.finish();
        }
        Ok(region)
    }

    fn over(medium: Arc<M>, records_max: u64, table_bytes: u64) -> Result<Region<M>, OpenError> {
        let region = Region {
            medium,
            records_max,
            pending: Vec::new(),
            changes: Changes::default(),
            commit: Commit::Logged,
        };
        // After a crash a medium may be shorter than it was, if nothing had been stored at its end.
        region.medium.grow(region.table().add(table_bytes).0).map_err(OpenError::Space)?;
        Ok(region)
    }

    /// Makes changes in this way from now on.
    #[must_use]
    pub fn committing(self, commit: Commit) -> Region<M> {
        Region { commit, ..self }
    }

    /// What the current transaction has set.
    pub(crate) fn pending(&self) -> &[Record] {
        &self.pending
    }

    /// Where the table begins: at a line.
    pub fn table(&self) -> Offset {
        self.record_at(self.records_max)
    }

    /// The memory.
    pub fn medium(&self) -> &Arc<M> {
        &self.medium
    }

    /// Most cells that a transaction may write.
    pub fn records_max(&self) -> u64 {
        self.records_max
    }

    /// Cells that the current transaction will write.
    pub fn records(&self) -> u64 {
        self.pending.len() as u64
    }

    /// What was written since the table was opened.
    pub fn changes(&self) -> Changes {
        self.changes
    }

    /// The cell of the key that is the mark of this number.
    pub fn aside(&self, mark: usize) -> Offset {
        ASIDE_AT.word(2 * mark as u64)
    }

    /// The word at `at` as the current transaction leaves it.
    #[inline(always)]
    pub fn load(&self, at: Offset) -> u64 {
        if self.pending.is_empty() { self.medium.load(at) } else { self.load_pending(at) }
    }

    /// The word at `at` without what the current transaction has set.
    #[inline(always)]
    pub fn load_in_place(&self, at: Offset) -> u64 {
        self.medium.load(at)
    }

    /// The key and value at `at` as the current transaction leaves them.
    pub fn load_pair(&self, at: Offset) -> (u64, u64) {
        (self.load(at), self.load(at.word(1)))
    }

    fn load_pending(&self, at: Offset) -> u64 {
        let of_record = |record: &Record| match at.0.checked_sub(record.at.0) {
            Some(0) => Some(record.words[0]),
            Some(8) if record.is_pair => Some(record.words[1]),
            _ => None,
        };
        self.pending.iter().find_map(of_record).unwrap_or_else(|| self.medium.load(at))
    }

    /// Sets a cell of two words.
    pub fn set_pair(&mut self, at: Offset, low: u64, high: u64) {
        self.set(Record { at, is_pair: true, words: [low, high] });
    }

    /// Sets a cell of one word.
    pub fn set_word(&mut self, at: Offset, word: u64) {
        self.set(Record { at, is_pair: false, words: [word, 0] });
    }

    /// A cell that is set twice is written once, with its last content.
    fn set(&mut self, record: Record) {
        match self.pending.iter_mut().find(|earlier| earlier.at == record.at) {
            Some(earlier) => *earlier = record,
            None => self.pending.push(record),
        }
    }

    /// Forgets what was set: the transaction has not happened.
    pub fn abandon(&mut self) {
        self.pending.clear();
    }

    /// Carries out what was set, durably; and as a whole, if there is a log.
    pub fn commit(&mut self, change: Change) {
        let cells = self.pending.len() as u64;
        assert!((1..=self.records_max).contains(&cells), "a transaction of {cells} cells");
        match self.commit {
            Commit::Logged => self.write_logged(cells),
            Commit::Ordered => self.write_in_order(),
        }
        let writes = match change {
            Change::Insert => &mut self.changes.inserts,
            Change::Update => &mut self.changes.updates,
            Change::Remove => &mut self.changes.removes,
        };
        writes.transactions += 1;
        writes.cells += cells;
    }

    fn write_logged(&mut self, cells: u64) {
        for (number, record) in (0..).zip(&self.pending) {
            let line = self.record_at(number);
            let tag = if record.is_pair { IS_PAIR } else { 0 };
            self.medium.store(line, record.at.0 | tag);
            self.medium.store(line.word(1), record.words[0]);
            if record.is_pair {
                self.medium.store(line.word(2), record.words[1]);
            }
            self.medium.flush(line);
        }
        self.medium.fence();
        self.medium.store(COMMIT_AT, cells);
        self.medium.persist(COMMIT_AT);
        self.finish();
    }

    /// Steps 3 and 4: writes the cells in place, and truncates the log.
    fn finish(&mut self) {
        for record in &self.pending {
            record.store(&*self.medium);
            self.medium.flush(record.at);
        }
        self.medium.fence();
        self.medium.store(COMMIT_AT, 0);
        self.medium.persist(COMMIT_AT);
        self.pending.clear();
    }

    /// Fails unless the log is empty.
    pub fn check(&self) -> Result<(), String> {
        match self.medium.load(COMMIT_AT) {
            0 => Ok(()),
            records => Err(format!("the log has {records} records")),
        }
    }

    fn record_at(&self, number: u64) -> Offset {
        LOG_AT.add(number * LINE)
    }
}
