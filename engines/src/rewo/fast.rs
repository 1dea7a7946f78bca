//! The fast path: the common case of every operation, in few instructions. No resize is under way, no writer
//! interferes, and an inserted item finds an empty slot. All other cases take the slow path, in `search` and `ops`.

use super::Core;
use super::batch::Known;
use super::bucket::Unfenced;
use super::layout::{LOCK, WRITING};
use super::search::Found;
use crate::kit::doubling::{Doubles, Geometry, Hash};
use crate::kit::mutation::Likely;
use index::{Change, Fixed, is_same};
use pmem::Medium;
use pmem::sync::{Ordering, fence};

/// The two buckets of a key in a table that is not resizing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Two {
    pub(super) geometry: Geometry,
    pub(super) buckets: [u64; 2],
}

/// The states and fingerprints of two buckets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    states: [u64; 2],
    pub(super) prints: [[u64; 2]; 2],
}

/// Where the slots of the second bucket begin in a mask of both.
const SECOND: u32 = 16;

/// Which of two buckets, and the slot, for a bit of [`Core::slots_with`].
#[inline(always)]
pub(super) fn slot_of_two(bit: u32) -> (usize, usize) {
    ((bit / SECOND) as usize, (bit % SECOND) as usize)
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// The two buckets of a key; `None`: there are more, or they are to be searched one by one.
    #[inline(always)]
    pub(super) fn two(&self, hash: Hash) -> Option<Two> {
        let geometry = self.geometry();
        if geometry.is_resizing() || !self.shape.design.sidecar_prints {
            return None;
        }
        Some(Two { geometry, buckets: self.pair_among(geometry.log2(), hash) })
    }

    /// Hints that the records of two buckets are about to be read.
    #[inline(always)]
    pub(super) fn prefetch_records(&self, two: &Two) {
        for bucket in two.buckets {
            self.records.prefetch(self.record(bucket));
        }
    }

    #[inline(always)]
    pub(super) fn see(&self, two: &Two) -> Seen {
        // Not `map`, whose closures are not inlined into large functions.
        let (first, first_prints) = self.state_and_prints(two.buckets[0]);
        let (second, second_prints) = self.state_and_prints(two.buckets[1]);
        Seen { states: [first, second], prints: [first_prints, second_prints] }
    }

    /// The slots of two buckets with the fingerprint of this hash.
    #[inline(always)]
    pub(super) fn slots_with(&self, seen: &Seen, hash: Hash) -> u32 {
        let print = hash.print();
        let first = self.bucket.slots_with(seen.prints[0], print) as u32;
        first | (self.bucket.slots_with(seen.prints[1], print) as u32) << SECOND
    }

    /// `None`: a writer is in the way.
    #[inline(always)]
    pub(super) fn find_fast(
        &self,
        two: &Two,
        seen: &Seen,
        mut slots: u32,
        key: K,
    ) -> Option<Option<Found<V>>> {
        fence(Ordering::Acquire);
        while slots != 0 {
            let (nth, slot) = slot_of_two(slots.trailing_zeros());
            slots &= slots - 1;
            let bucket = two.buckets[nth];
            let (found, value) = self.bucket.pair(self.medium(), self.at(bucket), slot);
            if !is_same(found, key) {
                continue;
            }
            fence(Ordering::Acquire);
            // Unlocked, or somebody may be changing the value, and what was read not be durable.
            // Unchanged, or the slot may be another item's by now.
            let now = self.state(bucket).load(Ordering::Relaxed);
            let is_unchanged = now & (LOCK | WRITING) == 0 && now == seen.states[nth] & !LOCK;
            return is_unchanged.then_some(Some(Found { bucket, slot, value, state: now }));
        }
        fence(Ordering::Acquire);
        let first = self.state(two.buckets[0]).load(Ordering::Relaxed);
        let second = self.state(two.buckets[1]).load(Ordering::Relaxed);
        let changes = (first ^ seen.states[0]) | (second ^ seen.states[1]);
        (changes & !LOCK == 0 && self.geometry() == two.geometry).then_some(None)
    }

    #[inline(always)]
    pub(super) fn get(&self, key: K) -> Option<V> {
        let hash = self.hash(key);
        match &self.cache {
            Some(cache) => self.get_cached(cache, key, hash),
            None => self.get_persistent(key, hash),
        }
    }

    /// Search in the persistent table.
    #[inline(always)]
    pub(super) fn get_persistent(&self, key: K, hash: Hash) -> Option<V> {
        self.find(key, hash).map(|found| found.value)
    }

    #[inline(always)]
    pub(super) fn find(&self, key: K, hash: Hash) -> Option<Found<V>> {
        if let Some(two) = self.two(hash) {
            let seen = self.see(&two);
            if let Some(found) = self.find_fast(&two, &seen, self.slots_with(&seen, hash), key) {
                return found;
            }
        }
        self.find_slow(key, hash)
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
        let &Known { hash, ref seen, slots, .. } = known;
        let two = known.two.as_ref()?;
        // As in `mutate_slow`.
        let home =
            (likely == Likely::Inserts || self.cache.is_some()).then(|| unfenced.lock_home(hash));
        if slots != 0 && self.changes_meta(likely) {
            // Beside the item, which may be in another line.
            let (nth, _) = slot_of_two(slots.trailing_zeros());
            self.medium().prefetch_write(self.at(two.buckets[nth]));
        }
        match self.find_fast(two, seen, slots, key)? {
            Some(found) => {
                let at = (found.bucket, found.slot);
                self.change(unfenced, home, at, key, hash, decide).map(Some)
            }
            None => match decide(None) {
                Change::Put(value) => {
                    if home.is_none() || !self.insert_fast(unfenced, two, seen, (key, value), hash)
                    {
                        return None;
                    }
                    unfenced.end_change(home, 1, 0);
                    Some(None)
                }
                _ => Some(None),
            },
        }
    }

    /// Whether the meta word is written when a key is found.
    #[inline(always)]
    pub(super) fn changes_meta(&self, likely: Likely) -> bool {
        let overwrites = const { V::BYTES == 8 } && self.shape.design.in_place_update;
        match likely {
            Likely::Inserts => false,
            Likely::Updates => !overwrites,
            Likely::Removes => true,
        }
    }

    /// The emptier of two buckets, and the slot there that an item goes to.
    #[inline(always)]
    pub(super) fn room(&self, seen: &Seen) -> Option<(usize, usize)> {
        let empty = [self.bucket.empty(seen.prints[0]), self.bucket.empty(seen.prints[1])];
        let nth = usize::from(empty[1].count_ones() > empty[0].count_ones());
        (empty[nth] != 0).then(|| (nth, empty[nth].trailing_zeros() as usize))
    }

    /// As [`Core::insert`], without evictions, and only if the bucket is as it was seen; whether so.
    #[inline(always)]
    fn insert_fast<const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'_, M, K, V, MOST>,
        two: &Two,
        seen: &Seen,
        item: (K, V),
        hash: Hash,
    ) -> bool {
        let Some((nth, slot)) = self.room(seen) else { return false };
        let bucket = two.buckets[nth];
        let at = self.at(bucket);
        self.prefetch_slot(at, slot);
        let Some(locked) = unfenced.lock_under(two.geometry, bucket) else { return false };
        if self.state(bucket).load(Ordering::Relaxed) != seen.states[nth] | LOCK {
            return false;
        }
        unfenced.insert((bucket, slot), locked, item, hash);
        true
    }

    /// Hints that a slot is about to be written, and with it the meta word.
    #[inline(always)]
    pub(super) fn prefetch_slot(&self, at: pmem::Offset, slot: usize) {
        self.medium().prefetch_write(at);
        let beyond = self.bucket.beyond_meta(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at.add(beyond.start));
        }
    }
}
