//! The fast path: what nearly every operation does, in few instructions. No resize is under way, no
//! writer is in the way, an item to be inserted finds an empty slot, and the stash has nothing to say. Else it is left
//! to the slow path, in `search` and `ops`.

use super::Core;
use super::batch::Known;
use super::bucket::Unfenced;
use super::layout::{LOCK, STASHED, WRITING};
use super::search::{Found, Spot};
use crate::doubling::{Doubles, Geometry, Hash};
use crate::mutation::Likely;
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
    prints: [u64; 2],
}

/// Where the slots of the second bucket begin in a mask of both.
const SECOND: u32 = 8;

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
        let design = self.shape.design;
        if geometry.is_resizing() || !design.sidecar_prints || !design.sticky_bit {
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

    /// `None`: a writer is in the way, or the stash has to be asked.
    #[inline(always)]
    pub(super) fn find_fast(
        &self,
        two: &Two,
        seen: &Seen,
        shown: u32,
        key: K,
    ) -> Option<Option<Found<V>>> {
        let mut slots = shown;
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
            let spot = Spot::Slot(slot);
            return is_unchanged.then_some(Some(Found { bucket, spot, value }));
        }
        if seen.states[0] & STASHED != 0 {
            return None;
        }
        fence(Ordering::Acquire);
        let first = self.state(two.buckets[0]).load(Ordering::Relaxed);
        let second = self.state(two.buckets[1]).load(Ordering::Relaxed);
        let changes = (first ^ seen.states[0]) | (second ^ seen.states[1]);
        // A removal erases the key before that is durable: with the fingerprint shown it may be this key.
        if shown != 0 && (first | second) & LOCK != 0 {
            return None;
        }
        (changes & !LOCK == 0 && self.geometry() == two.geometry).then_some(None)
    }

    #[inline(always)]
    pub(super) fn get(&self, key: K) -> Option<V> {
        let hash = self.hash(key);
        if let Some(two) = self.two(hash) {
            let seen = self.see(&two);
            if let Some(found) = self.find_fast(&two, &seen, self.slots_with(&seen, hash), key) {
                return found.map(|found| found.value);
            }
        }
        self.get_slow(key)
    }

    /// [`Core::mutate`] without any of what is rare; `None`: something of that is to be done.
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
        // What is there needs no home: its bucket's lock excludes other changes.
        let home = (likely == Likely::Inserts).then(|| unfenced.lock_home(hash));
        match self.find_fast(two, seen, slots, key)? {
            Some(Found { bucket, spot, .. }) => {
                self.change(unfenced, home, (bucket, spot), key, decide).map(Some)
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

    /// The emptier of two buckets, and the slot there that an item goes to.
    #[inline(always)]
    pub(super) fn room(&self, seen: &Seen) -> Option<(usize, usize)> {
        let empty = [self.bucket.empty(seen.prints[0]), self.bucket.empty(seen.prints[1])];
        let nth = usize::from(empty[1].count_ones() > empty[0].count_ones());
        (empty[nth] != 0).then(|| (nth, empty[nth].trailing_zeros() as usize))
    }

    /// As [`Core::insert`], without displacement, and only if the bucket is as it was seen; whether so.
    #[inline(always)]
    fn insert_fast<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        two: &Two,
        seen: &Seen,
        item: (K, V),
        hash: Hash,
    ) -> bool {
        if !super::layout::Bucket::<K, V>::takes(item.0) {
            return false;
        }
        let Some((nth, slot)) = self.room(seen) else { return false };
        let bucket = two.buckets[nth];
        self.prefetch_slot(self.at(bucket), slot);
        let Some(locked) = unfenced.lock_under(two.geometry, bucket) else { return false };
        if self.state(bucket).load(Ordering::Relaxed) != seen.states[nth] | LOCK {
            return false;
        }
        unfenced.put((bucket, slot), locked, item, hash, 0);
        true
    }

    /// Hints that a slot is about to be written.
    #[inline(always)]
    pub(super) fn prefetch_slot(&self, at: pmem::Offset, slot: usize) {
        self.medium().prefetch_write(at.add(self.bucket.item_at(slot)));
        let beyond = self.bucket.beyond_bitmap(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at);
        }
    }
}
