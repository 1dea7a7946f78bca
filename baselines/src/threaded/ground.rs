//! What lies under every table: its header, space, and the cell of the key that is a mark.
//!
//! ```text
//!    0  magic, scheme, shape (4 words), bytes in use      line 0
//!   64  the cell of the mark: state, value                line 1
//!  128  the scheme's own words                            line 2
//!  192  what is allocated
//! ```
//!
//! Space is taken from the end, and a crash leaks what was taken and not yet linked. Nothing is given back: what a
//! table has outgrown stays unused. (The papers' codes use allocators of PMDK. Those log each allocation, which costs
//! several flushes; here it costs one.)

use crate::region::OpenError;
use index::hash::Hasher;
use pmem::sync::{Mutex, spin};
use pmem::{LINE, Medium, Offset, SpaceError, WORD};
use std::sync::Arc;

/// Words of a table's shape.
pub(super) const SHAPE_WORDS: usize = 4;

/// Marks a table, and the version of its format.
const MAGIC: u64 = u64::from_le_bytes(*b"threads1");
const MAGIC_AT: Offset = Offset(0);
const SCHEME_AT: Offset = Offset(8);
const SHAPE_AT: Offset = Offset(16);
const USED_AT: Offset = Offset(48);
const MARK_AT: Offset = Offset(LINE);
const ROOT_AT: Offset = Offset(2 * LINE);
const START: u64 = 3 * LINE;

/// The mark's cell holds a value.
const PRESENT: u64 = 1;
/// Space is asked for in steps of an eighth of what there is, and at least of this many bytes.
const STEP_BYTES_MIN: u64 = 1 << 20;

/// Where an array is, at a line, and log2 of its length. They are one word, so that both are read together and change
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed(u64);

impl Placed {
    pub(super) fn new(at: Offset, log2: u32) -> Placed {
        Placed(at.0 | u64::from(log2))
    }

    #[inline(always)]
    pub(super) fn of_word(word: u64) -> Placed {
        Placed(word)
    }

    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) fn log2(self) -> u32 {
        (self.0 % LINE) as u32
    }

    #[inline(always)]
    pub(super) fn len(self) -> u64 {
        1 << self.log2()
    }

    #[inline(always)]
    pub(super) fn at(self) -> Offset {
        Offset(self.0 / LINE * LINE)
    }
}

/// A table's memory.
pub struct Ground<M> {
    medium: Arc<M>,
    hasher: Hasher,
    /// Where free space begins. What is durable is never less.
    used: Mutex<u64>,
    /// Held by whoever uses the mark's cell: hardly anybody, so readers wait for it, too.
    mark: Mutex<()>,
}

impl<M: Medium> Ground<M> {
    /// Ground for a new table on empty memory. There is none before [`Ground::publish`].
    pub(super) fn create(
        medium: Arc<M>,
        scheme: u64,
        shape: [u64; SHAPE_WORDS],
        seed: u64,
    ) -> Result<Ground<M>, SpaceError> {
        medium.grow(START)?;
        medium.store(SCHEME_AT, scheme);
        for (index, word) in (0..).zip(shape) {
            medium.store(SHAPE_AT.word(index), word);
        }
        medium.store(USED_AT, START);
        Ok(Ground::over(medium, START, seed))
    }

    /// Makes the table one that can be opened. Its scheme has made everything durable.
    pub(super) fn publish(&self) {
        // The shape is durable since something was allocated.
        self.medium.store(MAGIC_AT, MAGIC);
        self.medium.persist(MAGIC_AT);
    }

    /// The scheme and the shape of the table that lies on `medium`.
    pub(super) fn shape(medium: &M) -> Result<(u64, [u64; SHAPE_WORDS]), OpenError> {
        if medium.size() < START || medium.load(MAGIC_AT) != MAGIC {
            return Err(OpenError::NoTable);
        }
        let shape = std::array::from_fn(|index| medium.load(SHAPE_AT.word(index as u64)));
        Ok((medium.load(SCHEME_AT), shape))
    }

    /// The ground of a table, however its last use ended. The caller relies on it once it has fenced.
    pub(super) fn open(medium: Arc<M>, seed: u64) -> Result<Ground<M>, SpaceError> {
        let used = medium.load(USED_AT);
        // After a crash a medium may be shorter than it was, if nothing had been stored at its end.
        medium.grow(used)?;
        // They may be what a killed process stored last, and not be durable.
        for line in [MAGIC_AT, MARK_AT, ROOT_AT] {
            medium.flush(line);
        }
        Ok(Ground::over(medium, used, seed))
    }

    fn over(medium: Arc<M>, used: u64, seed: u64) -> Ground<M> {
        let (used, mark) = (Mutex::new(used), Mutex::new(()));
        Ground { medium, hasher: Hasher::new(seed), used, mark }
    }

    /// The memory.
    #[inline(always)]
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The hash functions.
    #[inline(always)]
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// A line for the scheme's own words, zero in a new table.
    pub fn root(&self) -> Offset {
        ROOT_AT
    }

    /// Bytes that were taken, so far.
    pub fn used(&self) -> u64 {
        *self.used.lock()
    }

    /// Takes whole lines of zeros for `bytes`. A crash leaks them until they are linked.
    pub fn allocate(&self, bytes: u64) -> Result<Offset, SpaceError> {
        let mut used = self.used.lock();
        let at = *used;
        let end = at + bytes.next_multiple_of(LINE);
        if end > self.medium.size() {
            let ample = end + (end / 8).max(STEP_BYTES_MIN);
            if ample > self.medium.limit() || self.medium.grow(ample).is_err() {
                self.medium.grow(end)?;
            }
        }
        // Before anything is stored there: what lies behind is zero whenever the table is opened.
        self.medium.store(USED_AT, end);
        self.medium.persist(USED_AT);
        *used = end;
        Ok(Offset(at))
    }

    /// Flushes so many bytes; they are durable after the next fence.
    #[track_caller]
    pub fn flush(&self, at: Offset, bytes: u64) {
        M::flush_range(&self.medium, at, bytes);
    }

    /// Waits until the word at `at` is `free`, and makes it `taken`. Gives up if it is `closed`; whether it was taken.
    pub fn lock(&self, at: Offset, [free, taken, closed]: [u64; 3]) -> bool {
        let mut turn = 0;
        loop {
            match self.medium.compare_exchange(at, free, taken) {
                Ok(_) => return true,
                Err(found) if found == closed => return false,
                Err(_) => spin(&mut turn),
            }
        }
    }

    /// Fails unless what was never taken is zero.
    pub(super) fn check(&self) -> Result<(), String> {
        let words = (self.used()..self.medium.size()).step_by(WORD as usize).map(Offset);
        let mut stored = words.filter(|&at| self.medium.load(at) != 0);
        stored.next().map_or(Ok(()), |at| Err(format!("{at} was never taken, and is not zero")))
    }

    /// The value of the key that is a mark.
    pub(super) fn get_marked(&self) -> Option<u64> {
        let _held = self.mark.lock();
        let (state, value) = self.medium.load_pair(MARK_AT);
        (state == PRESENT).then_some(value)
    }

    /// Changes what the key holds that is a mark.
    pub(super) fn change_marked(&self, decide: impl FnOnce(Option<u64>) -> Step) -> Option<u64> {
        let _held = self.mark.lock();
        let (state, value) = self.medium.load_pair(MARK_AT);
        let before = (state == PRESENT).then_some(value);
        match decide(before) {
            Step::Put(value) => self.medium.store_pair(MARK_AT, PRESENT, value),
            Step::Remove if before.is_some() => self.medium.store(MARK_AT, 0),
            _ => return before,
        }
        self.medium.persist(MARK_AT);
        before
    }
}

/// What is to become of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It stays as it is.
    Keep,
    /// It gets this value, whether it had one or not.
    Put(u64),
    /// It is removed, if it is there.
    Remove,
}
