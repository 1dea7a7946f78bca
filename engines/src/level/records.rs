//! Records of changes that take more than one atomic write, for recovery to end.
//!
//! ```text
//!   | checksum | kind, slot, level | bucket | value … |     each record begins a line
//! ```
//!
//! An *update* record holds the new value of an item in a full bucket (section 3.3.4; the paper
//! logs the old one). When the record is durable the update has happened: recovery repeats it. So
//! a reader may report the new value as soon as it sees it, which with the old value on record a
//! crash could take back.
//!
//! A *movement* record says which item may be in the table twice. It needs no erasure: recovery
//! looks whether that is so.

use super::bucket::Locked;
use super::ops::Place;
use index::Fixed;
use index::hash::Hasher;
use pmem::sync::{AtomicU64, Ordering, fence, thread_index};
use pmem::{LINE, Medium, Offset};

/// Records that threads may write at the same time; more threads take turns.
const RECORDS: usize = 16;
/// Words before the value.
const HEAD_WORDS: u64 = 3;

const UPDATE: u64 = 1;
const MOVEMENT: u64 = 2;

/// A change to be ended by recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<V> {
    pub(super) level: u32,
    pub(super) index: u64,
    pub(super) slot: usize,
    /// The new value; `None` for a movement.
    pub(super) value: Option<V>,
}

impl<V> Record<V> {
    pub(super) fn update(place: Place, slot: usize, value: V) -> Self {
        Record { level: place.level, index: place.index(), slot, value: Some(value) }
    }

    pub(super) fn movement(place: Place, slot: usize) -> Self {
        Record { level: place.level, index: place.index(), slot, value: None }
    }
}

/// Where records are, and who writes one.
#[derive(Debug)]
pub(super) struct Records {
    start: Offset,
    record_bytes: u64,
    locks: [AtomicU64; RECORDS],
    hasher: Hasher2,
}

/// A record that was written, until dropped or erased.
pub(super) struct Written<'a> {
    at: Offset,
    _locked: Locked<'a>,
}

/// For checksums.
#[derive(Clone, Copy)]
struct Hasher2(Hasher);

impl std::fmt::Debug for Hasher2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

fn value_words<V: Fixed>() -> u64 {
    V::BYTES.div_ceil(8) as u64
}

impl Records {
    /// Bytes of all records of a table with values `V`.
    pub(super) fn bytes<V: Fixed>() -> u64 {
        RECORDS as u64 * Records::record_bytes::<V>()
    }

    fn record_bytes<V: Fixed>() -> u64 {
        ((HEAD_WORDS + value_words::<V>()) * 8).next_multiple_of(LINE)
    }

    pub(super) fn new<V: Fixed>(start: Offset, hasher: Hasher) -> Records {
        let locks = std::array::from_fn(|_| AtomicU64::new(0));
        Records {
            start,
            record_bytes: Records::record_bytes::<V>(),
            locks,
            hasher: Hasher2(hasher),
        }
    }

    fn at(&self, index: usize) -> Offset {
        self.start.add(index as u64 * self.record_bytes)
    }

    /// Never 0, which stands for no record.
    fn checksum(&self, words: impl Iterator<Item = u64>) -> u64 {
        words.fold(1, |sum, word| self.hasher.0.first_u64(sum ^ word)).max(1)
    }

    fn head<V>(record: &Record<V>) -> [u64; 2] {
        let kind = if record.value.is_some() { UPDATE } else { MOVEMENT };
        [kind | (record.slot as u64) << 8 | u64::from(record.level) << 16, record.index]
    }

    /// All words of a record but the checksum.
    fn words<V: Fixed>(record: &Record<V>) -> impl Iterator<Item = u64> + Clone {
        let value = record.value;
        let value = (0..value_words::<V>() as usize)
            .map(move |word| value.map_or(0, |value| value.word(word)));
        Records::head(record).into_iter().chain(value)
    }

    /// Writes a record, durably.
    pub(super) fn write<M: Medium, V: Fixed>(&self, medium: &M, record: &Record<V>) -> Written<'_> {
        let first = thread_index() % RECORDS;
        let free = (0..RECORDS)
            .map(|turn| (first + turn) % RECORDS)
            .find_map(|index| Some((index, Locked::attempt(&self.locks[index])?)));
        let (index, locked) = free.unwrap_or_else(|| (first, Locked::wait(&self.locks[first])));
        let at = self.at(index);
        let words = Records::words(record);
        let checksum = self.checksum(words.clone());
        // Who still reads the record that was here before is to notice that it has gone.
        fence(Ordering::Release);
        for (word, content) in (1..).zip(words) {
            medium.store(at.word(word), content);
        }
        medium.store(at, checksum);
        medium.flush_range(at, self.record_bytes);
        medium.fence();
        Written { at, _locked: locked }
    }

    /// Erases a record, durably.
    pub(super) fn erase<M: Medium>(&self, medium: &M, written: Written<'_>) {
        medium.store(written.at, 0);
        medium.persist(written.at);
    }

    fn decode<M: Medium, V: Fixed>(medium: &M, at: Offset) -> Record<V> {
        let head = medium.load(at.word(1));
        let value = V::of_words(|word| medium.load(at.word(HEAD_WORDS + word as u64)));
        Record {
            level: (head >> 16) as u32,
            index: medium.load(at.word(2)),
            slot: (head >> 8 & 0xff) as usize,
            value: (head & 0xff == UPDATE).then_some(value),
        }
    }

    /// The slot and the new value of an update of an item in `place` that is on record, for a reader
    /// who finds out by itself whether that is still under way.
    pub(super) fn update_of<M: Medium, V: Fixed>(
        &self,
        medium: &M,
        place: Place,
    ) -> Option<(usize, V)> {
        (0..RECORDS).find_map(|index| {
            let record = Self::decode::<M, V>(medium, self.at(index));
            let is_of_place = record.level == place.level && record.index == place.index();
            let value = record.value.filter(|_| is_of_place)?;
            // Of this place is also what an update that is over left here, and maybe a mixture with
            // what another thread is writing over it: neither has this checksum.
            let is_whole = medium.load(self.at(index)) == self.checksum(Self::words(&record));
            is_whole.then_some((record.slot, value))
        })
    }

    /// Every whole record, with its place.
    pub(super) fn read<M: Medium, V: Fixed>(&self, medium: &M) -> Vec<(Offset, Record<V>)> {
        (0..RECORDS)
            .map(|index| self.at(index))
            .filter_map(|at| {
                let words = 1..HEAD_WORDS + value_words::<V>();
                let checksum = self.checksum(words.map(|word| medium.load(at.word(word))));
                if medium.load(at) != checksum {
                    return None;
                }
                let record = Self::decode(medium, at);
                Some((at, record))
            })
            .collect()
    }

    /// Erases the record at a place that [`Records::read`] told.
    pub(super) fn erase_at<M: Medium>(&self, medium: &M, at: Offset) {
        medium.store(at, 0);
        medium.persist(at);
    }
}
