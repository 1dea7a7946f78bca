//! A toy of a pool: an array of words, changed by operations that flush and fence.

use pmem::durability::Image;
use pmem::line_log::LineLog;
use pmem::medium::{Medium, MediumKind};
use pmem::{Offset, SpaceError, WORD};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Words of the pool: two pages, which are two chunks of a checkpoint.
pub(crate) const WORDS: usize = 1024;
/// Bytes of its checkpoint, with the header and two places for sums.
pub(crate) const CHECKPOINT_BYTES: u64 = (3 << 12) + WORDS as u64 * WORD;
/// So many operations in a row change both pages, and as many only the first one, in turn.
const TURN: u64 = 8;
/// After so many operations the first one is written over.
pub(crate) const OPERATIONS_KEPT: u64 = 2 * TURN;
/// Words that a large operation writes: more than a page has.
const LARGE_WORDS: std::ops::Range<u64> = 300..900;

/// Words as a medium.
pub(crate) struct Words {
    words: Vec<AtomicU64>,
    size: AtomicU64,
}

impl Words {
    pub(crate) fn new() -> Words {
        let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Words { words, size: AtomicU64::new(0) }
    }

    pub(crate) fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.size.store(0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn hash(&self) -> u64 {
        hash(self.words.iter().map(|word| word.load(Ordering::Relaxed)))
    }

    fn word(&self, at: Offset) -> &AtomicU64 {
        &self.words[(at.0 / WORD) as usize]
    }
}

pub(crate) fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(1, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

impl Medium for Words {
    fn kind(&self) -> MediumKind {
        MediumKind::Dram
    }

    fn load(&self, at: Offset) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    fn store(&self, at: Offset, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at).compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        (self.load(at), self.load(at.word(1)))
    }

    fn prefetch(&self, _: Offset) {}

    fn prefetch_write(&self, _: Offset) {}

    fn flush(&self, _: Offset) {}

    fn fence(&self) {}

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        panic!("{} bytes at {at}: a restoration stores words", bytes.len());
    }

    unsafe fn bytes(&self, _: Offset, _: u64) -> Option<&[u8]> {
        None
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn limit(&self) -> u64 {
        WORDS as u64 * WORD
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        if size > self.limit() {
            return Err(SpaceError::Full { needed_bytes: size, reason: "it is a toy".into() });
        }
        self.size.fetch_max(size, Ordering::Relaxed);
        Ok(())
    }

    fn populate(&self, _: Range<u64>) {}

    fn sync(&self, _: Range<u64>) -> io::Result<()> {
        Ok(())
    }
}

/// What happens beside a checkpoint: called at each chunk that is copied, and where it waits for operations.
pub(crate) type Beside = Box<dyn FnMut(Moment) + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The chunk from this offset on is about to be copied.
    Copy(u64),
    /// All operations have to end.
    Wait,
}

/// A pool that is open.
pub(crate) struct Pool {
    words: Words,
    log: Arc<LineLog>,
    /// What was fenced: what a crash of durable memory must leave, and all that it does.
    fenced: Mutex<Vec<u64>>,
    /// An operation that has stored its first word, but not flushed it.
    in_flight: Mutex<Option<(u64, u64)>>,
    pub(crate) beside: Mutex<Option<Beside>>,
    /// The checkpoints that it names, by the generations of their logs: the one there is, and the one to come.
    pub(crate) named: Mutex<[Option<u128>; 2]>,
}

impl Pool {
    pub(crate) fn of(words: &[u64], log: Arc<LineLog>) -> Pool {
        let pool = Words::new();
        words.iter().zip(&pool.words).for_each(|(&from, to)| to.store(from, Ordering::Relaxed));
        Pool {
            words: pool,
            log,
            fenced: Mutex::new(words.to_vec()),
            in_flight: Mutex::new(None),
            beside: Mutex::new(None),
            named: Mutex::default(),
        }
    }

    fn persist(&self, at: u64, words: u64) {
        self.log.note(Offset(at * WORD), words, |at| self.words.load(at));
        self.log.fence(|at| self.words.load(at));
        let mut fenced = self.fenced.lock().unwrap();
        for at in at..at + words {
            fenced[at as usize] = self.words.load(Offset(at * WORD));
        }
    }

    fn store(&self, at: u64, value: u64) {
        self.words.store(Offset(at * WORD), value);
    }

    /// An operation: a word of one chunk, and then one of the other, or in every other [`TURN`] another one of the
    /// same.
    pub(crate) fn operate(&self, value: u64) {
        self.begin(value);
        self.end();
    }

    /// The first half of one.
    pub(crate) fn begin(&self, value: u64) {
        self.end();
        self.store(value % TURN, value);
        *self.in_flight.lock().unwrap() = Some((value % TURN, value));
    }

    /// The second half.
    pub(crate) fn end(&self) {
        let Some((at, value)) = self.in_flight.lock().unwrap().take() else { return };
        self.persist(at, 1);
        let other = match value / TURN % 2 {
            0 => WORDS as u64 - 1 - value % TURN,
            _ => TURN + value % TURN,
        };
        self.store(other, value);
        self.persist(other, 1);
    }

    /// An operation whose record fits into no single frame of a small segment.
    pub(crate) fn operate_largely(&self, value: u64) {
        LARGE_WORDS.for_each(|at| self.store(at, value));
        self.persist(LARGE_WORDS.start, LARGE_WORDS.end - LARGE_WORDS.start);
    }

    /// The state that a cut made now stands for.
    pub(crate) fn fenced(&self) -> Vec<u64> {
        self.fenced.lock().unwrap().clone()
    }

    fn call_beside(&self, moment: Moment) {
        let beside = self.beside.lock().unwrap().take();
        if let Some(mut beside) = beside {
            beside(moment);
            *self.beside.lock().unwrap() = Some(beside);
        }
    }
}

impl Image for Pool {
    fn bytes(&self) -> u64 {
        WORDS as u64 * WORD
    }

    fn copy(&self, at: u64, words: &mut [u64]) {
        self.call_beside(Moment::Copy(at));
        for (index, word) in (0..).zip(words) {
            *word = self.words.load(Offset(at).word(index));
        }
    }

    fn load(&self, at: u64) -> u64 {
        self.words.load(Offset(at))
    }

    fn wait_for_operations(&self) {
        self.end();
        self.call_beside(Moment::Wait);
    }

    fn name_checkpoints(&self, current: Option<u128>, next: Option<u128>) -> io::Result<()> {
        *self.named.lock().unwrap() = [current, next];
        Ok(())
    }
}
