//! The fast path: the common case of every operation, in few instructions. No resize is under way, no writer
//! interferes, and an inserted item finds an empty slot. All other cases take the slow path, in `search` and `ops`.

use super::Core;
use super::batch::Known;
use super::bucket::Unfenced;
use super::geometry::Geometry;
use super::layout::{BucketId, Hash, LOCK, WRITING, next_version, slot_of_four};
use super::search::Found;
use crate::kit::mutation::Likely;
use index::hash::{h1, h2};
use index::{Change, Fixed, is_same};
use pmem::Medium;
use pmem::sync::{Ordering, fence};

/// The buckets of a key in the two levels of a geometry: two of the top level, two of the bottom one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Four {
    pub(super) geometry: Geometry,
    words: [u64; 4],
}

impl Four {
    #[inline(always)]
    pub(super) fn bucket(&self, nth: usize) -> BucketId {
        BucketId { level: self.geometry.top() - (nth as u32 >> 1), word: self.words[nth] }
    }
}

/// The words of four buckets, and how often a version had come around before they were read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) words: [u64; 4],
    wraps: u64,
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// The four buckets of a key; `None`: there are more, or they are to be searched one by one.
    #[inline(always)]
    pub(super) fn four(&self, hash: Hash) -> Option<Four> {
        let geometry = self.geometry();
        if !geometry.has_fast_path() {
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
        let first = if self.published.is_bottom_first() { 2 } else { 0 };
        for nth in [first, first + 1] {
            self.medium().prefetch(self.at(four.bucket(nth)));
        }
    }

    #[inline(always)]
    pub(super) fn see(&self, four: &Four) -> Seen {
        let (wraps, words) = (self.published.wraps(), self.words.as_slice());
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
    pub(super) fn find_fast(
        &self,
        four: &Four,
        &Seen { ref words, wraps }: &Seen,
        mut slots: u32,
        key: K,
    ) -> Option<Option<Found<V>>> {
        while slots != 0 {
            let (nth, slot) = slot_of_four(slots.trailing_zeros());
            slots &= slots - 1;
            let bucket = four.bucket(nth);
            let (found, value) = self.bucket.pair(self.medium(), self.at(bucket), slot);
            if !is_same(found, key) {
                continue;
            }
            fence(Ordering::Acquire);
            // Unlocked, or somebody may be changing the value, and what was read not be durable.
            // Unchanged, or the slot may be another item's by now.
            let now = self.word(bucket).load(Ordering::Relaxed);
            let is_unchanged = now & (LOCK | WRITING) == 0 && now == words[nth] & !LOCK;
            return (is_unchanged && self.published.wraps() == wraps).then_some(Some(Found {
                bucket,
                slot,
                value,
            }));
        }
        fence(Ordering::Acquire);
        let now = self.see(four);
        let changes = (0..4).fold(0, |changes, nth| changes | now.words[nth] ^ words[nth]);
        let is_same = changes & !LOCK == 0 && self.geometry() == four.geometry;
        (is_same && now.wraps == wraps).then_some(None)
    }

    /// As [`Core::mutate_slow`]; returns the state before, or `None`: it is left to that.
    #[inline(always)]
    pub(super) fn mutate_fast<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        key: K,
        known: &Known,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        let hash = known.hash;
        let four = known.four.as_ref()?;
        // As in `mutate_slow`.
        let stripe = (likely == Likely::Inserts).then(|| unfenced.lock_stripe(hash.stripe()));
        let seen = self.see(four);
        match self.find_fast(four, &seen, self.slots_with(&seen, hash), key)? {
            Some(found) => {
                let at = (found.bucket, found.slot);
                self.change(unfenced, stripe, at, key, hash, decide).map(Some)
            }
            None => match decide(None) {
                Change::Put(value) => {
                    if stripe.is_none()
                        || !self.insert_fast(unfenced, four, &seen.words, (key, value), hash)
                    {
                        return None;
                    }
                    unfenced.end_change(stripe, 1, 0);
                    Some(None)
                }
                _ => Some(None),
            },
        }
    }

    /// Which of four buckets an item goes to, and the slot: the less-loaded one of the top level, if
    /// that has room, else of the bottom level; if that has.
    #[inline(always)]
    pub(super) fn room(&self, words: &[u64; 4]) -> Option<(usize, usize)> {
        let empty = words.map(|word| self.bucket.empty_slots(word));
        let [top, bottom] = [0, 2].map(|nth| nth + usize::from(empty[nth + 1] > empty[nth]));
        let has_bottom = self.shape.design.two_levels;
        let nth = if empty[top] == 0 && has_bottom { bottom } else { top };
        Some((nth, self.bucket.empty_slot(words[nth])?))
    }

    /// As [`Core::insert`], without movement, and only if the bucket is as it was seen; whether so.
    #[inline(always)]
    fn insert_fast<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, M, K, V, MOST>,
        four: &Four,
        words: &[u64; 4],
        item: (K, V),
        hash: Hash,
    ) -> bool {
        let Some((nth, slot)) = self.room(words) else { return false };
        let (bucket, word) = (four.bucket(nth), words[nth]);
        let at = self.at(bucket);
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at.add(beyond.start));
        }
        let Some(locked) = unfenced.lock_under(four.geometry, bucket) else { return false };
        if self.word(bucket).load(Ordering::Relaxed) != word | LOCK {
            return false;
        }
        let word = next_version(self.bucket.with(word, slot, self.print(hash)));
        unfenced.insert((bucket, at, slot), locked, item, word);
        self.count_at(bucket.level, 1);
        true
    }
}
