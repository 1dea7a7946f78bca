//! The log: changes that need more than one atomic write, so that recovery can complete them.
//!
//! ```text
//!   | checksum | kind, slot, level | bucket | value … |     each entry begins a line
//! ```
//!
//! An *update* entry holds the new value of an item in a full bucket. When the entry is durable, the update has
//! happened, and recovery repeats it. So a reader may report the new value as soon as it sees it. With the old value in
//! the log, a crash could take that back.
//!
//! A *movement* entry says which item may be in the table twice. It needs no erasure: recovery checks whether the item
//! is there twice.

use index::Fixed;
use index::hash::Hasher;
use pmem::sync::{AtomicU64, Ordering, fence, thread_index};
use pmem::{LINE, Medium, Offset};

/// Entries that threads may write at the same time; more threads take turns.
const ENTRIES: usize = 16;
// Words of an entry; the value begins at `VALUE`.
const CHECKSUM: u64 = 0;
const WHAT: u64 = 1;
pub(crate) const BUCKET: u64 = 2;
const VALUE: u64 = 3;

// Where the parts of the word `WHAT` begin.
const SLOT_SHIFT: u32 = 8;
const LEVEL_SHIFT: u32 = 16;
/// Bits of the kind, and of the slot.
const BYTE: u64 = 0xff;

/// Bit of an entry's lock.
const LOCK: u64 = 1;
type Locked<'a> = crate::kit::lock::Locked<'a, LOCK>;

const UPDATE: u64 = 1;
const MOVEMENT: u64 = 2;

/// A change to be ended by recovery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<V> {
    pub(crate) level: u32,
    pub(crate) index: u64,
    pub(crate) slot: usize,
    /// The new value; `None` for a movement.
    pub(crate) value: Option<V>,
}

impl<V> Entry<V> {
    pub(crate) fn update(level: u32, index: u64, slot: usize, value: V) -> Self {
        Entry { level, index, slot, value: Some(value) }
    }

    pub(crate) fn movement(level: u32, index: u64, slot: usize) -> Self {
        Entry { level, index, slot, value: None }
    }
}

/// Where entries are, and which threads write them.
pub(crate) struct Log {
    start: Offset,
    entry_bytes: u64,
    locks: [AtomicU64; ENTRIES],
    /// For checksums.
    hasher: Hasher,
}

/// An entry that was written, until dropped or erased.
pub(crate) struct Written<'a> {
    at: Offset,
    _locked: Locked<'a>,
}

fn value_words<V: Fixed>() -> u64 {
    V::layout_bytes().div_ceil(8) as u64
}

impl Log {
    /// Bytes of the log of a table with values `V`.
    pub(crate) fn bytes<V: Fixed>() -> u64 {
        ENTRIES as u64 * Log::entry_bytes::<V>()
    }

    fn entry_bytes<V: Fixed>() -> u64 {
        ((VALUE + value_words::<V>()) * 8).next_multiple_of(LINE)
    }

    pub(crate) fn new<V: Fixed>(start: Offset, hasher: Hasher) -> Log {
        let locks = std::array::from_fn(|_| AtomicU64::new(0));
        Log { start, entry_bytes: Log::entry_bytes::<V>(), locks, hasher }
    }

    fn at(&self, index: usize) -> Offset {
        self.start.add(index as u64 * self.entry_bytes)
    }

    /// Never 0, which stands for no entry.
    fn checksum(&self, words: impl Iterator<Item = u64>) -> u64 {
        words.fold(1, |sum, word| self.hasher.first_u64(sum ^ word)).max(1)
    }

    fn head<V>(entry: &Entry<V>) -> [u64; 2] {
        let kind = if entry.value.is_some() { UPDATE } else { MOVEMENT };
        let slot = (entry.slot as u64) << SLOT_SHIFT;
        [kind | slot | u64::from(entry.level) << LEVEL_SHIFT, entry.index]
    }

    /// All words of an entry but the checksum, from `WHAT` on.
    fn words<V: Fixed>(entry: &Entry<V>) -> impl Iterator<Item = u64> + Clone {
        let value = entry.value;
        let value = (0..value_words::<V>() as usize)
            .map(move |word| value.map_or(0, |value| value.word(word)));
        Log::head(entry).into_iter().chain(value)
    }

    /// Writes an entry, durably.
    pub(crate) fn write<M: Medium, V: Fixed>(&self, medium: &M, entry: &Entry<V>) -> Written<'_> {
        let first = thread_index() % ENTRIES;
        let free = (0..ENTRIES)
            .map(|turn| (first + turn) % ENTRIES)
            .find_map(|index| Some((index, Locked::attempt(&self.locks[index])?)));
        let (index, locked) = free.unwrap_or_else(|| (first, Locked::wait(&self.locks[first])));
        let at = self.at(index);
        let words = Log::words(entry);
        let checksum = self.checksum(words.clone());
        // Who still reads the entry that was here before is to notice that it has gone.
        fence(Ordering::Release);
        for (word, content) in (WHAT..).zip(words) {
            medium.store(at.word(word), content);
        }
        medium.store(at.word(CHECKSUM), checksum);
        medium.flush_range(at, self.entry_bytes);
        medium.fence();
        Written { at, _locked: locked }
    }

    /// Erases an entry, durably.
    pub(crate) fn erase<M: Medium>(&self, medium: &M, written: Written<'_>) {
        medium.store(written.at.word(CHECKSUM), 0);
        medium.persist(written.at);
    }

    fn decode<M: Medium, V: Fixed>(medium: &M, at: Offset) -> Entry<V> {
        let what = medium.load(at.word(WHAT));
        let value = V::of_words(|word| medium.load(at.word(VALUE + word as u64)));
        Entry {
            level: (what >> LEVEL_SHIFT) as u32,
            index: medium.load(at.word(BUCKET)),
            slot: (what >> SLOT_SHIFT & BYTE) as usize,
            value: (what & BYTE == UPDATE).then_some(value),
        }
    }

    /// The update of an item in `bucket`, of a level that `is_wanted`, that is in the log, for a reader who finds out
    /// by itself whether that is still under way.
    pub(crate) fn update_in<M: Medium, V: Fixed>(
        &self,
        medium: &M,
        bucket: u64,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<Entry<V>> {
        (0..ENTRIES).find_map(|index| {
            let entry = Self::decode::<M, V>(medium, self.at(index));
            if !is_wanted(entry.level) || entry.index != bucket || entry.value.is_none() {
                return None;
            }
            // Of this bucket is also what an update that is over left here, and maybe a mixture with
            // what another thread is writing over it: neither has this checksum.
            let is_whole =
                medium.load(self.at(index).word(CHECKSUM)) == self.checksum(Self::words(&entry));
            is_whole.then_some(entry)
        })
    }

    /// Every whole entry, and where it lies.
    pub(crate) fn read<M: Medium, V: Fixed>(&self, medium: &M) -> Vec<(Offset, Entry<V>)> {
        (0..ENTRIES)
            .map(|index| self.at(index))
            .filter_map(|at| {
                let words = WHAT..VALUE + value_words::<V>();
                let checksum = self.checksum(words.map(|word| medium.load(at.word(word))));
                if medium.load(at.word(CHECKSUM)) != checksum {
                    return None;
                }
                let entry = Self::decode(medium, at);
                Some((at, entry))
            })
            .collect()
    }

    /// Erases an entry that [`Log::read`] found at `at`.
    pub(crate) fn erase_at<M: Medium>(&self, medium: &M, at: Offset) {
        medium.store(at.word(CHECKSUM), 0);
        medium.persist(at);
    }
}
