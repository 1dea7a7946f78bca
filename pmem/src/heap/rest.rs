//! Free slots on record, so that the first change after an opening need not wait for the sweep.
//!
//! A close records the free slots of one slab of each class that has any. The next opening hands these out at once: a
//! process that puts one item then takes a slot, and not a fresh segment. A record lies in free slots of its own slab,
//! in a row that is long enough, and leads to the next one:
//!
//! ```text
//! | checksum | sequence number of the superblock that names it | next record, or 0 | segment | bitmap, a word for each 64 slots |
//! ```
//!
//! Bit set: the slot is free, or the record's. The superblock names the first record, and only as long as the pool is
//! clean: whatever is taken later makes the records void. What does not fit its checksum, or names another sequence
//! number (a page that the system has lost), is left to the sweep, with all behind it.

use super::checksum::checksum;
use super::segment::status;
use super::{Heap, Room};
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::Ordering;

const WORD_BYTES: u64 = 8;
/// Words before the bitmap.
const HEAD_WORDS: usize = 4;

/// A record, decoded.
struct FreeSlots {
    next: Option<Offset>,
    segment: u64,
    bits: Vec<u64>,
}

impl FreeSlots {
    fn encode(&self, sequence: u64) -> Vec<u64> {
        let mut words = vec![0, sequence, self.next.unwrap_or_default().0, self.segment];
        words.extend(&self.bits);
        words[0] = checksum_of(&words).into();
        words
    }
}

fn checksum_of(words: &[u64]) -> u32 {
    let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
    checksum(&[], &bytes)
}

impl<M: Medium> Heap<M> {
    /// Records free slots, for the pool to name them when it is closed. Nothing uses the heap any more, nothing is
    /// retired, and the caller has the right to write. They are durable after the thread's next fence: at the latest
    /// with the superblock that names them.
    #[inline(never)]
    pub fn record_free_slots(&self) {
        if self.is_damaged() {
            return;
        }
        self.recall_caches();
        for reserve in &self.reserves {
            for at in reserve.give_up(|_| true) {
                if let Some(Room::Slot { segment, slot, .. }) = self.room_at(at) {
                    self.free_slot(segment, slot as usize);
                }
            }
        }
        // Of the change that says that the pool is clean, if nothing changes it before.
        let sequence = self.pool.superblock().sequence + 1;
        let mut next = None;
        for list in &self.partial {
            let list = list.lock();
            let free = |segment: &u64| self.state(*segment).free();
            let freest = list.iter().copied().max_by_key(free);
            let recorded = freest.and_then(|segment| self.record_slab(segment, next, sequence));
            next = recorded.or(next);
        }
        self.pool.record_free_slots(next);
    }

    /// Records the free slots of a slab, unless no row of them is long enough; returns where.
    fn record_slab(&self, segment: u64, next: Option<Offset>, sequence: u64) -> Option<Offset> {
        let state = self.state(segment);
        let size = self.classes.size(self.class_of_segment(segment)?)?;
        let bits = (0..state.words()).map(|word| state.bits(word).load(Ordering::Acquire));
        let record = FreeSlots { next, segment, bits: bits.collect() };
        let bytes = (HEAD_WORDS + record.bits.len()) as u64 * WORD_BYTES;
        let at = self.start_of(segment).add(row_of(&record.bits, bytes.div_ceil(size))? * size);
        for (word, content) in (0..).zip(record.encode(sequence)) {
            self.medium().store(at.word(word), content);
        }
        self.medium().flush_range(at, bytes);
        Some(at)
    }

    /// Takes in the free slots that the last close recorded. To be called before the sweep, and before space is taken.
    /// Returns whether all of what is on record was there: only what the system has lost is not.
    #[inline(never)]
    pub fn adopt_free_slots(&self) -> bool {
        let Some((first, sequence)) = self.pool.recorded_free_slots() else { return true };
        let mut next = Some(first);
        // A class has one record at most.
        for _ in 0..self.classes.count() {
            let Some(at) = next else { break };
            let Some(record) = self.read_record(at, sequence) else { return false };
            let state = self.state(record.segment);
            for (word, bits) in record.bits.iter().enumerate() {
                state.bits(word).store(*bits, Ordering::Relaxed);
            }
            self.list(record.segment);
            next = record.next;
        }
        next.is_none()
    }

    /// The record at `at`, if there is a sound one, of a sealed slab.
    fn read_record(&self, at: Offset, sequence: u64) -> Option<FreeSlots> {
        let segment = self.slab_of(at);
        if segment >= self.segments.len() as u64 {
            return None;
        }
        let state = self.state(segment);
        let count = (HEAD_WORDS + state.words()) as u64;
        let slab_end =
            self.start_of(segment + self.classes.segments(self.class_of_segment(segment)?));
        if !at.0.is_multiple_of(WORD_BYTES) || at.0 + count * WORD_BYTES > slab_end.0 {
            return None;
        }
        let words: Vec<u64> = (0..count).map(|word| self.medium().load(at.word(word))).collect();
        let next = Some(Offset(words[2])).filter(|next| next.0 != 0);
        let record = FreeSlots { next, segment: words[3], bits: words[HEAD_WORDS..].to_vec() };
        let is_sound = words[0] == u64::from(checksum_of(&words))
            && words[1] == sequence
            && record.segment == segment
            && state.status.load(Ordering::Relaxed) == status::SEALED
            && (0..).zip(&record.bits).all(|(word, bits)| bits & !state.valid_bits(word) == 0);
        is_sound.then_some(record)
    }
}

/// The first of so many free slots in a row: of the last such row, since what was removed lately, and may be salvaged,
/// lies in front.
fn row_of(bits: &[u64], slots: u64) -> Option<u64> {
    let mut len = 0;
    (0..bits.len() as u64 * 64).rev().find(|slot| {
        let is_free = bits[(slot / 64) as usize] & 1 << (slot % 64) != 0;
        len = if is_free { len + 1 } else { 0 };
        len == slots
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_free_slots_may_cross_words() {
        let bits = [0b101 | 1 << 63, 0b11];
        assert_eq!(row_of(&bits, 1), Some(65));
        assert_eq!(row_of(&bits, 2), Some(64));
        assert_eq!(row_of(&bits, 3), Some(63));
        assert_eq!(row_of(&bits, 4), None);
        assert_eq!(row_of(&[0], 1), None);
    }
}
