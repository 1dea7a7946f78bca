//! Search: algorithm 1 (section 4).

use super::Core;
use super::geometry::LEVELS_MAX;
use super::layout::{BucketId, Hash, LOCK, WRITING};
use index::Fixed;
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

/// Where a key was found.
pub(super) struct Found<V> {
    pub(super) bucket: BucketId,
    pub(super) slot: usize,
    pub(super) value: V,
}

/// What one bucket says of a key: where it is and the value, and the bucket's word.
type Probe<V> = (Option<(usize, V)>, u64);

/// Most buckets that a search probes: two in each of two levels and, during a resize, in one more,
/// unless one resize follows another before it has ended.
const PROBES_MAX: usize = 2 * LEVELS_MAX as usize;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    #[inline(always)]
    pub(super) fn get(&self, key: K) -> Option<V> {
        let hash = self.hash(key);
        // A closure would be a function of its own as soon as look-ups are compiled into a second caller.
        let Some(four) = self.four(hash) else { return self.get_slow(key) };
        self.prefetch_likely(&four);
        let seen = self.see(&four);
        match self.find_fast(&four, &seen, self.slots_with(&seen, hash), key) {
            Some(found) => found.map(|found| found.value),
            None => self.get_slow(key),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn get_slow(&self, key: K) -> Option<V> {
        self.find_slow(key, self.hash(key)).map(|found| found.value)
    }

    /// Finds a key, or that it was nowhere at one instant: none of the buckets looked at has changed
    /// since then, nor has the geometry. Both answers are durable.
    #[cold]
    #[inline(never)]
    pub(super) fn find_slow(&self, key: K, hash: Hash) -> Option<Found<V>> {
        loop {
            let geometry = self.geometry();
            let wraps = self.published.wraps();
            let mut seen = [(BucketId { level: 0, word: 0 }, 0); PROBES_MAX];
            let mut count = 0;
            let (top, bottom) = (geometry.top(), geometry.bottom());
            let levels =
                if self.published.is_bottom_first() { [bottom, top] } else { [top, bottom] };
            for level in levels.into_iter().chain(geometry.interims()) {
                let [first, second] = self.candidates(level, hash);
                for bucket in [first, second].into_iter().take(1 + usize::from(second != first)) {
                    let (found, word) = self.probe(bucket, key, self.print(hash));
                    if let Some((slot, value)) = found {
                        return Some(Found { bucket, slot, value });
                    }
                    seen[count] = (bucket, word);
                    count += 1;
                }
            }
            fence(Ordering::Acquire);
            let is_same = |&(bucket, word): &(BucketId, u64)| {
                (self.word(bucket).load(Ordering::Relaxed) ^ word) & !LOCK == 0
            };
            let is_unchanged = seen[..count].iter().all(is_same);
            if is_unchanged && self.geometry() == geometry && self.published.wraps() == wraps {
                return None;
            }
        }
    }

    /// What a bucket says of a key, at one instant and durably: its word did not change meanwhile.
    fn probe(&self, bucket: BucketId, key: K, print: u64) -> Probe<V> {
        let (medium, at) = (self.medium(), self.at(bucket));
        let slots = 0..self.bucket.slots as usize;
        loop {
            let wraps = self.published.wraps();
            let word = self.word(bucket).load(Ordering::Acquire);
            let has_print = self.has_print(at, word, key, print);
            // The tokens decide: the key may be on its way out, or from one slot to another.
            let tokens = self.tokens(at);
            let slot = slots.clone().filter(|_| has_print).find(|&slot| {
                tokens & 1 << slot != 0 && self.bucket.has_key(medium, at, slot, key)
            });
            let found = slot.map(|slot| (slot, self.value(bucket, slot, word)));
            fence(Ordering::Acquire);
            let now = self.word(bucket).load(Ordering::Relaxed);
            if (now ^ word) & !LOCK != 0 || self.published.wraps() != wraps {
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

    /// The value in a slot. One that is being overwritten is read from the log, where it is,
    /// and durable, for as long as the word says so; `None` if that has just ended. The caller looks
    /// at the word again.
    #[inline(always)]
    fn value(&self, bucket: BucketId, slot: usize, word: u64) -> Option<V> {
        if word & WRITING == 0 {
            return Some(self.bucket.value(self.medium(), self.at(bucket), slot));
        }
        match self.log.update_of(self.medium(), bucket.level, bucket.index()) {
            Some((logged, value)) if logged == slot => Some(value),
            Some(_) => Some(self.bucket.value(self.medium(), self.at(bucket), slot)),
            None => None,
        }
    }
}
