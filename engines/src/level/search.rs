//! Search: algorithm 1 (section 4).

use super::Core;
use super::layout::{Geometry, LEVELS_MAX, LOCK, WRITING, slot_of_four};
use super::ops::{Hash, Place};
use index::hash::{h1, h2};
use index::{Fixed, is_same};
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

/// Where a key was found.
pub(super) struct Found<V> {
    pub(super) place: Place,
    pub(super) slot: usize,
    pub(super) value: V,
}

/// The buckets of a key in the two levels of a geometry: two of the top level, two of the bottom one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Four {
    pub(super) geometry: Geometry,
    words: [u64; 4],
}

impl Four {
    #[inline(always)]
    pub(super) fn place(&self, turn: usize) -> Place {
        Place { level: self.geometry.top() - (turn as u32 >> 1), word: self.words[turn] }
    }
}

/// The words of four buckets, and how often a version had come around before they were read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) words: [u64; 4],
    wraps: u64,
}

/// What one bucket says of a key: where it is and the value, and the bucket's word.
type Probe<V> = (Option<(usize, V)>, u64);

/// Most buckets that a search probes: two in each of two levels and, during a resize, in one more,
/// unless one resize follows another before it has ended.
const PROBES_MAX: usize = 2 * LEVELS_MAX as usize;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Whether the bottom level is searched before the top one. Dynamic search: the one with more
    /// items first.
    #[inline(always)]
    fn is_bottom_first(&self) -> bool {
        self.geometry.0[1].load(Ordering::Relaxed) & 1 != 0
    }

    /// The four buckets of a key; `None`: there are more, or they are to be searched one by one.
    #[inline(always)]
    pub(super) fn four(&self, hash: Hash) -> Option<Four> {
        let geometry = self.geometry();
        if !geometry.is_usual() {
            return None;
        }
        let top = 1 << geometry.top();
        let bottom = top >> 1;
        let [first, second] = [h1(hash.0), h2(hash.0)];
        let word = |choice: u64, buckets: u64| choice & (buckets - 1) | buckets;
        let words =
            [word(first, top), word(second, top), word(first, bottom), word(second, bottom)];
        Some(Four { geometry, words })
    }

    /// How often a version has come around to the first one. Equal words mean an unchanged bucket
    /// only if that did not happen meanwhile.
    #[inline(always)]
    pub(super) fn wraps(&self) -> u64 {
        self.geometry.0[2].load(Ordering::Acquire)
    }

    /// Hints that the words of four buckets are about to be read.
    #[inline(always)]
    pub(super) fn prefetch_words(&self, four: &Four) {
        for word in four.words {
            self.words.prefetch(word as usize);
        }
    }

    /// Hints that an item in one of two buckets is about to be read or written; which, their words
    /// will tell, but then it is late: these are where most items are.
    #[inline(always)]
    pub(super) fn prefetch_likely(&self, four: &Four) {
        let first = if self.is_bottom_first() { 2 } else { 0 };
        for turn in [first, first + 1] {
            self.medium().prefetch(self.at(four.place(turn)));
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, key: K) -> Option<V> {
        let hash = self.hash(key);
        let usual = self.four(hash).and_then(|four| {
            self.prefetch_likely(&four);
            let seen = self.see(&four);
            self.find_usual(&four, &seen, self.slots_with(&seen, hash), key)
        });
        match usual {
            Some(found) => found.map(|found| found.value),
            None => self.get_anyhow(key),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn get_anyhow(&self, key: K) -> Option<V> {
        self.find_anyhow(key, self.hash(key)).map(|found| found.value)
    }

    // A key is found, or was nowhere at one instant: none of the buckets looked at has changed since
    // then, nor has the geometry. Both answers are durable.

    #[inline(always)]
    pub(super) fn see(&self, four: &Four) -> Seen {
        let (wraps, words) = (self.wraps(), self.words.as_slice());
        Seen { words: four.words.map(|word| words[word as usize].load(Ordering::Acquire)), wraps }
    }

    /// The slots of four buckets with the fingerprint of this hash.
    #[inline(always)]
    pub(super) fn slots_with(&self, seen: &Seen, hash: Hash) -> u32 {
        self.bucket.slots_with(&seen.words, self.print(hash))
    }

    /// In as few instructions as nearly every search needs, and without a branch on where the key
    /// is: a processor overlaps the cache misses of operations as far as they fit its reorder window
    /// together, and as far as it guesses right. `None`: a writer is in the way.
    #[inline(always)]
    pub(super) fn find_usual(
        &self,
        four: &Four,
        &Seen { ref words, wraps }: &Seen,
        mut slots: u32,
        key: K,
    ) -> Option<Option<Found<V>>> {
        while slots != 0 {
            let (turn, slot) = slot_of_four(slots.trailing_zeros());
            slots &= slots - 1;
            let place = four.place(turn);
            let (found, value) = self.bucket.pair(self.medium(), self.at(place), slot);
            if !is_same(found, key) {
                continue;
            }
            fence(Ordering::Acquire);
            // Unlocked, or somebody may be changing the value, and what was read not be durable.
            // Unchanged, or the slot may be another item's by now.
            let now = self.word(place).load(Ordering::Relaxed);
            let is_usual = now & (LOCK | WRITING) == 0 && now == words[turn] & !LOCK;
            return (is_usual && self.wraps() == wraps).then_some(Some(Found {
                place,
                slot,
                value,
            }));
        }
        fence(Ordering::Acquire);
        let now = self.see(four);
        let changes = (0..4).fold(0, |changes, turn| changes | now.words[turn] ^ words[turn]);
        let is_same = changes & !LOCK == 0 && self.geometry() == four.geometry;
        (is_same && now.wraps == wraps).then_some(None)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn find_anyhow(&self, key: K, hash: Hash) -> Option<Found<V>> {
        loop {
            let geometry = self.geometry();
            let wraps = self.wraps();
            let mut seen = [(Place { level: 0, word: 0 }, 0); PROBES_MAX];
            let mut count = 0;
            let (top, bottom) = (geometry.top(), geometry.bottom());
            let levels = if self.is_bottom_first() { [bottom, top] } else { [top, bottom] };
            for level in levels.into_iter().chain(geometry.interims()) {
                let [first, second] = self.places(level, hash);
                for place in [first, second].into_iter().take(1 + usize::from(second != first)) {
                    let (found, word) = self.probe(place, key, self.print(hash));
                    if let Some((slot, value)) = found {
                        return Some(Found { place, slot, value });
                    }
                    seen[count] = (place, word);
                    count += 1;
                }
            }
            fence(Ordering::Acquire);
            let is_same = |&(place, word): &(Place, u64)| {
                (self.word(place).load(Ordering::Relaxed) ^ word) & !LOCK == 0
            };
            let is_unchanged = seen[..count].iter().all(is_same);
            if is_unchanged && self.geometry() == geometry && self.wraps() == wraps {
                return None;
            }
        }
    }

    /// What a bucket says of a key, at one instant and durably: its word did not change meanwhile.
    fn probe(&self, place: Place, key: K, print: u64) -> Probe<V> {
        let (medium, at) = (self.medium(), self.at(place));
        let slots = 0..self.bucket.slots as usize;
        loop {
            let wraps = self.wraps();
            let word = self.word(place).load(Ordering::Acquire);
            let has_print = self.has_print(at, word, key, print);
            // The tokens decide: the key may be on its way out, or from one slot to another.
            let tokens = self.tokens(at);
            let slot = slots.clone().filter(|_| has_print).find(|&slot| {
                tokens & 1 << slot != 0 && self.bucket.has_key(medium, at, slot, key)
            });
            let found = slot.map(|slot| (slot, self.value(place, slot, word)));
            fence(Ordering::Acquire);
            let now = self.word(place).load(Ordering::Relaxed);
            if (now ^ word) & !LOCK != 0 || self.wraps() != wraps {
                continue;
            }
            let Some((slot, value)) = found else {
                if has_print && now & LOCK != 0 {
                    // A removal that may not be durable yet.
                    medium.persist(at);
                }
                return (None, word);
            };
            let Some(value) = value else { continue };
            if now & LOCK != 0 {
                self.flush_beyond(at, slot);
                medium.persist(at);
            }
            return (Some((slot, value)), word);
        }
    }

    /// Whether a bucket with this word shows the key, be it in a slot that it is just leaving.
    /// Without, no search reports it: what one of them does, the others must.
    fn has_print(&self, at: Offset, word: u64, key: K, print: u64) -> bool {
        let shows = |slot: usize| {
            self.bucket.print_in(word, slot) == print
                && self.bucket.has_key(self.medium(), at, slot, key)
        };
        !self.shape.design.fingerprints || (0..self.bucket.slots as usize).any(shows)
    }

    /// The value in a slot. One that is being overwritten is read from its record, which is there,
    /// and durable, for as long as the word says so; `None` if that has just ended. The caller looks
    /// at the word again.
    #[inline(always)]
    fn value(&self, place: Place, slot: usize, word: u64) -> Option<V> {
        if word & WRITING == 0 {
            return Some(self.bucket.value(self.medium(), self.at(place), slot));
        }
        match self.records.update_of(self.medium(), place) {
            Some((recorded, value)) if recorded == slot => Some(value),
            Some(_) => Some(self.bucket.value(self.medium(), self.at(place), slot)),
            None => None,
        }
    }
}
