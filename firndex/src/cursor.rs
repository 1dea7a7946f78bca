//! Scans in parts, which a number resumes: for callers that cannot hold an iterator.
//!
//! All keys have a fixed order, by their hashes. A cursor is the next place in that order, so it keeps its meaning
//! however the table changes.
//!
//! No engine keeps its keys in this order. So a call reads the whole table once, and keeps the first few thousand or
//! more keys from its place on: a *run*. The following calls are served from it. A cursor names the run that it came
//! from. If that run has been forgotten, the table is read again.
//!
//! ```text
//!   63        20 19          0
//!  | place      | run         |    0: the beginning, and the end
//! ```
//!
//! A run serves only cursors that came from it. So it never began before the scan that uses it, and it has everything
//! inserted before the scan began. Numbers of runs are reused after a million others; a cursor that old began before
//! the newer run did.

use index::Fixed;
use index::hash::Hasher;
use pmem::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// Places have the upper bits of a hash.
const RUN_BITS: u32 = 20;
const RUNS: u64 = 1 << RUN_BITS;
const PLACES: u64 = 1 << (u64::BITS - RUN_BITS);
/// Orders the keys, the same way in all pools.
const HASHER: Hasher = Hasher::new(0x9e37_79b9_7f4a_7c15);
/// Remembered runs: this many scans can go on at once without reading the table for each call.
const REMEMBERED: usize = 8;
/// A run has one key in this many of the table, but at least the minimum number, and at most the limit in bytes.
const KEYS_PER_RUN_KEY: u64 = 64;
const RUN_KEYS_MIN: usize = 4096;
const RUN_BYTES_MAX: usize = 16 << 20;

/// Whether a scan may have given this cursor: the beginning and the end, 0, or a place after the first that a run has.
/// [`Table::scan`](crate::Table::scan) takes any number; a program can refuse a mistyped one.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// let table = firndex::Table::<u64, u64>::in_memory()?;
/// table.put_many(&[(1, 10), (2, 20)])?;
/// let (_, next) = table.scan(0, 1)?;
/// assert!(next != 0 && firndex::is_cursor(next));
/// assert!(!firndex::is_cursor(12345));
/// # Ok(())
/// # }
/// ```
pub fn is_cursor(number: u64) -> bool {
    number == 0 || (number >> RUN_BITS > 0 && !number.is_multiple_of(RUNS))
}

/// The place of a key of a table.
pub(crate) fn place_of<K: Fixed>(key: K) -> u64 {
    let words = (0..K::layout_bytes().div_ceil(8)).map(|index| key.word(index));
    words.fold(0u64, |hash, word| HASHER.first_u64(hash.rotate_left(1) ^ word)) >> RUN_BITS
}

/// The place of a key of a store.
pub(crate) fn place_of_bytes(key: &[u8]) -> u64 {
    HASHER.first_bytes(key) >> RUN_BITS
}

/// The keys of a part of the order.
struct Run<K> {
    number: u64,
    /// The places that it has all keys of.
    places: Range<u64>,
    /// Sorted by their places.
    keys: Vec<(u64, K)>,
}

/// The most recent runs, the latest at the end.
pub(crate) struct Runs<K> {
    remembered: Mutex<Remembered<K>>,
}

struct Remembered<K> {
    runs: Vec<Arc<Run<K>>>,
    /// The number of the next one; never 0.
    next: u64,
}

impl<K> Default for Runs<K> {
    fn default() -> Self {
        Runs { remembered: Mutex::new(Remembered { runs: Vec::new(), next: 1 }) }
    }
}

impl<K> Runs<K> {
    /// About `count` keys from a cursor on, and the cursor after them. If a new run is needed, for a table of `len`
    /// keys, `gather` adds all keys to it.
    pub(crate) fn keys<E>(
        &self,
        cursor: u64,
        count: usize,
        len: u64,
        gather: impl FnOnce(&mut Gathering<K>) -> Result<(), E>,
    ) -> Result<(Vec<K>, u64), E>
    where
        K: Clone,
    {
        let (place, number) = (cursor >> RUN_BITS, cursor % RUNS);
        let remembered = |run: &&Arc<Run<K>>| run.number == number && run.places.contains(&place);
        let found = self.remembered.lock().runs.iter().find(remembered).map(Arc::clone);
        let run = match found {
            Some(run) => run,
            None => {
                let wanted = count.max((len / KEYS_PER_RUN_KEY) as usize).max(RUN_KEYS_MIN);
                let mut gathering = Gathering::new(place, wanted);
                gather(&mut gathering)?;
                self.remember(gathering)
            }
        };
        let first = run.keys.partition_point(|&(other, _)| other < place);
        let mut last = first.saturating_add(count.max(1)).min(run.keys.len());
        // Keys of one place stay together.
        while last > first && last < run.keys.len() && run.keys[last].0 == run.keys[last - 1].0 {
            last += 1;
        }
        let next = run.keys.get(last).map_or(run.places.end, |&(place, _)| place);
        if next == run.places.end {
            self.remembered.lock().runs.retain(|other| !Arc::ptr_eq(other, &run));
        }
        let keys = run.keys[first..last].iter().map(|(_, key)| key.clone()).collect();
        Ok((keys, if next < PLACES { next << RUN_BITS | run.number } else { 0 }))
    }

    /// Remembers a run that was gathered, and forgets the oldest one.
    fn remember(&self, mut gathering: Gathering<K>) -> Arc<Run<K>> {
        gathering.keys.sort_unstable_by_key(|&(place, _)| place);
        let mut remembered = self.remembered.lock();
        let number = remembered.next;
        remembered.next = if number + 1 < RUNS { number + 1 } else { 1 };
        let run =
            Arc::new(Run { number, places: gathering.begin..gathering.end, keys: gathering.keys });
        if remembered.runs.len() == REMEMBERED {
            remembered.runs.remove(0);
        }
        remembered.runs.push(Arc::clone(&run));
        run
    }
}

/// A run in the making: it keeps the first of the added keys.
pub(crate) struct Gathering<K> {
    begin: u64,
    /// Keys from here on are not kept.
    end: u64,
    keys: Vec<(u64, K)>,
    /// Bytes that they take, and the limits for both.
    bytes: usize,
    keys_max: usize,
    bytes_max: usize,
}

impl<K> Gathering<K> {
    fn new(begin: u64, wanted: usize) -> Self {
        Gathering {
            begin,
            end: PLACES,
            keys: Vec::new(),
            bytes: 0,
            keys_max: wanted.saturating_mul(2),
            bytes_max: RUN_BYTES_MAX,
        }
    }

    /// Adds a key with this many bytes. `make` makes the form that is kept.
    pub(crate) fn add(&mut self, place: u64, bytes: usize, make: impl FnOnce() -> K) {
        if !(self.begin..self.end).contains(&place) {
            return;
        }
        self.keys.push((place, make()));
        self.bytes += bytes + size_of::<(u64, K)>();
        if self.keys.len() > self.keys_max || self.bytes > self.bytes_max {
            self.halve();
        }
    }

    /// Drops the later half. Keys of one place stay together; if all have the same place, more are kept.
    fn halve(&mut self) {
        let middle = self.keys.len() / 2;
        let (_, &mut (median, _), _) =
            self.keys.select_nth_unstable_by_key(middle, |&(place, _)| place);
        let first = self.keys.iter().map(|&(place, _)| place).min().unwrap_or(median);
        self.end = if first < median { median } else { median + 1 };
        let (before, end) = (self.keys.len(), self.end);
        self.keys.retain(|&(place, _)| place < end);
        // About the same share of the bytes as of the keys.
        self.bytes = self.bytes / before * self.keys.len();
        if self.keys.len() > middle {
            self.keys_max = self.keys_max.saturating_mul(2);
            self.bytes_max = self.bytes_max.saturating_mul(2);
        }
    }
}
