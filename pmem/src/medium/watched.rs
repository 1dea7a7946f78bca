//! Pool memory whose accesses are loom's, for the models in `kernels`.
//!
//! Each word is an atomic of [`crate::sync`]. Two words that [`Medium::load_pair`] reads are one atomic, which holds
//! the number of a state of both: loom has no atomic of 16 bytes, and a pair is read in one step. Bytes that are copied
//! in or lent are plain memory: an access that races is found.
//!
//! The superblock is left out: it is used under one mutex, and has a thousand words. Nothing here becomes
//! durable: flushes and fences order no accesses of other threads.

use super::{Medium, MediumKind};
use crate::error::SpaceError;
use crate::offset::{LINE, Offset, WORD};
use crate::superblock::SUPERBLOCK_BYTES;
use crate::sync::loom::Plain;
use crate::sync::{Array, AtomicU64, Zeroable};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};

/// Bytes that one state tells of.
const PAIR_BYTES: u64 = 2 * WORD;

/// States of a pair of words, in the order in which they came about.
#[derive(Debug)]
struct States {
    states: Vec<[u64; 2]>,
    latest: usize,
}

impl Default for States {
    fn default() -> Self {
        States { states: vec![[0; 2]], latest: 0 }
    }
}

/// Sixteen bytes.
#[derive(Debug, Default)]
struct Pair {
    words: [AtomicU64; 2],
    /// The number of the present state of both, if anybody reads them in one step.
    both: AtomicU64,
    states: Mutex<States>,
    bytes: [Plain; 2],
}

// SAFETY: no array here is made of zero bytes, but of default values.
unsafe impl Zeroable for Pair {}

impl Pair {
    fn states(&self) -> std::sync::MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load_both(&self) -> [u64; 2] {
        let state = self.both.load(Acquire);
        self.states().states[state as usize]
    }

    fn load(&self, word: usize) -> u64 {
        if self.both.is_followed() {
            self.load_both()[word]
        } else {
            self.words[word].load(Acquire)
        }
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        // If nobody reads both in one step so far, somebody may in the next exploration.
        let number = {
            let mut states = self.states();
            states.states.push([0; 2]);
            states.states.len() - 1
        };
        self.both.store(number as u64, order);
        // Nobody runs between that store and this: it is the state after the one that was the latest.
        let mut states = self.states();
        let mut state = states.states[states.latest];
        state[word] = value;
        states.states[number] = state;
        states.latest = number;
        drop(states);
        if !self.both.is_followed() {
            self.words[word].store(value, order);
        }
    }
}

/// Memory for a pool of a model.
pub struct Watched {
    pairs: Array<Pair>,
    /// What was stored last: what is lent.
    latest: Box<[std::sync::atomic::AtomicU64]>,
    size: std::sync::atomic::AtomicU64,
    on_sync: Box<dyn Fn(Range<u64>) + Send + Sync>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("limit", &self.limit()).finish_non_exhaustive()
    }
}

impl Watched {
    /// Memory that may grow to `limit` bytes.
    pub fn new(limit: u64) -> io::Result<Watched> {
        Watched::with(limit, |_| ())
    }

    /// The same with something that is to be done when a range is synced.
    pub fn with(
        limit: u64,
        on_sync: impl Fn(Range<u64>) + Send + Sync + 'static,
    ) -> io::Result<Watched> {
        let pairs = (limit.div_ceil(LINE) * LINE / PAIR_BYTES) as usize;
        Ok(Watched {
            pairs: Array::reserve(pairs, pairs)?,
            latest: (0..2 * pairs).map(|_| Default::default()).collect(),
            size: 0.into(),
            on_sync: Box::new(on_sync),
        })
    }

    fn latest(&self, at: Offset) -> &std::sync::atomic::AtomicU64 {
        assert!(at.0.is_multiple_of(WORD), "{at} is misaligned");
        &self.latest[(at.0 / WORD) as usize]
    }

    /// The pair that a word is in, and which of the two it is; none in the superblock.
    fn pair(&self, at: Offset) -> Option<(&Pair, usize)> {
        assert!(at.0.is_multiple_of(WORD), "{at} is misaligned");
        let pair = self.pairs.get((at.0 / PAIR_BYTES) as usize);
        (at.0 >= SUPERBLOCK_BYTES).then_some((pair, (at.0 / WORD % 2) as usize))
    }

    fn store_in_order(&self, at: Offset, value: u64, order: Ordering) {
        if let Some((pair, word)) = self.pair(at) {
            pair.store(word, value, order);
        }
        self.latest(at).store(value, Relaxed);
    }
}

impl Medium for Watched {
    fn kind(&self) -> MediumKind {
        MediumKind::Mapped
    }

    fn load(&self, at: Offset) -> u64 {
        match self.pair(at) {
            Some((pair, word)) => pair.load(word),
            None => self.latest(at).load(Relaxed),
        }
    }

    fn store(&self, at: Offset, value: u64) {
        self.store_in_order(at, value, Relaxed);
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.store_in_order(at, value, Release);
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        let (pair, word) = self.pair(at).expect("no word of the superblock is exchanged");
        assert!(!pair.both.is_followed(), "the pair at {at} is also read in one step");
        let found =
            pair.words[word].compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)?;
        self.latest(at).store(new, Relaxed);
        Ok(found)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        assert!(at.0.is_multiple_of(PAIR_BYTES), "{at} is misaligned");
        let (pair, _) = self.pair(at).expect("the superblock has no pairs");
        let [low, high] = pair.load_both();
        (low, high)
    }

    fn prefetch(&self, _at: Offset) {}

    fn prefetch_write(&self, _at: Offset) {}

    fn flush(&self, _at: Offset) {}

    fn fence(&self) {}

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        let end = at.0 + bytes.len() as u64;
        for word_at in (at.0 / WORD * WORD..end).step_by(WORD as usize).map(Offset) {
            let mut word = self.latest(word_at).load(Relaxed).to_ne_bytes();
            for (index, byte) in (word_at.0..).zip(&mut word) {
                if (at.0..end).contains(&index) {
                    *byte = bytes[(index - at.0) as usize];
                }
            }
            if let Some((pair, word)) = self.pair(word_at) {
                pair.bytes[word].write();
            }
            self.store_in_order(word_at, u64::from_ne_bytes(word), Relaxed);
        }
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        if at.0.checked_add(len)? > self.size.load(Relaxed) {
            return None;
        }
        for word_at in (at.0 / WORD * WORD..at.0 + len).step_by(WORD as usize).map(Offset) {
            if let Some((pair, word)) = self.pair(word_at) {
                pair.bytes[word].read();
            }
        }
        let words = (at.0 / WORD) as usize..(at.0 + len).div_ceil(WORD) as usize;
        let start = self.latest[words].as_ptr().cast::<u8>();
        // SAFETY: the range lies in `self.latest`, which lives as long as `self`. Nobody stores to it while
        // the slice lives, by the caller's promise: loom has just looked whether that is kept.
        Some(unsafe { std::slice::from_raw_parts(start.add((at.0 % WORD) as usize), len as usize) })
    }

    fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    fn limit(&self) -> u64 {
        self.latest.len() as u64 * WORD
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        if size > self.limit() {
            let reason = format!("its limit is {} bytes", self.limit());
            return Err(SpaceError::Full { needed_bytes: size, reason });
        }
        self.size.fetch_max(size.next_multiple_of(LINE).min(self.limit()), Relaxed);
        Ok(())
    }

    fn populate(&self, _range: Range<u64>) {}

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        (self.on_sync)(range);
        Ok(())
    }
}
