//! The fast path: the common case of every operation, in few instructions. No resize is under way, no writer
//! interferes, an inserted item finds an empty slot, and the stash is not involved. All other cases take the slow path,
//! in `search` and `ops`.

use super::Core;
use super::batch::Known;
use super::bucket::Unfenced;
use super::layout::{
    Bucket, LOCK, Locked, PRINTS, Record, SLOTS_MAX, STASHED, STATE, WRITING, state_and_prints,
    with_new_version,
};
use super::search::{Found, Spot};
use crate::kit::doubling::{Doubles, Geometry, Hash};
use crate::kit::mutation::Likely;
use index::fingerprint::EMPTY;
use index::{Change, Fixed, is_same};
use pmem::Medium;
use pmem::sync::{Ordering, fence};
use std::hint::select_unpredictable;

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

impl Seen {
    #[inline(always)]
    fn of([first, second]: [&Record; 2]) -> Seen {
        let (first, first_prints) = state_and_prints(first);
        let (second, second_prints) = state_and_prints(second);
        Seen { states: [first, second], prints: [first_prints, second_prints] }
    }
}

/// Two of a kind, the one numbered `nth` first: without a branch, which half of the insertions would take other than
/// foreseen, and without an index, which would need them in memory.
#[inline(always)]
fn with_first<T: Copy>([first, second]: [T; 2], nth: usize) -> [T; 2] {
    let is_first = nth == 0;
    [select_unpredictable(is_first, first, second), select_unpredictable(is_first, second, first)]
}

/// The numbers of bits set in two bytes, each in its byte. (Not every processor has an instruction for one.)
#[inline(always)]
fn counts_in_bytes(bytes: u32) -> u32 {
    let pairs = bytes - (bytes >> 1 & 0x5555);
    let nibbles = (pairs & 0x3333) + (pairs >> 2 & 0x3333);
    (nibbles + (nibbles >> 4)) & 0x0f0f
}

/// Which of two buckets, and the slot, for a bit of [`Core::slots_with`].
#[inline(always)]
fn slot_of_two(bit: u32) -> (usize, usize) {
    ((bit / SLOTS_MAX) as usize, (bit % SLOTS_MAX) as usize)
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
        Seen::of(two.buckets.map(|bucket| self.record_of(bucket)))
    }

    /// The slots of two buckets with the fingerprint of this hash.
    #[inline(always)]
    pub(super) fn slots_with(&self, seen: &Seen, hash: Hash) -> u32 {
        self.bucket.slots_of_two_with(seen.prints, hash.print())
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

    /// [`Core::mutate_fast`] of a single key, of which nothing is foreseen yet.
    #[inline(always)]
    pub(super) fn mutate_alone(
        &self,
        key: K,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        let hash = self.hash(key);
        let two = self.two(hash)?;
        let records = two.buckets.map(|bucket| self.record_of(bucket));
        let seen = Seen::of(records);
        let slots = self.slots_with(&seen, hash);
        if likely == Likely::Inserts && slots == 0 {
            return self.insert_alone(&two, records, &seen, key, hash, decide);
        }
        let known = Known { hash, two: Some(two), seen, slots };
        self.prefetch_likely(&known, likely);
        self.mutate_fast(&mut Unfenced::<M, K, V, 1>::new(self), key, &known, likely, decide)
    }

    /// Inserts a key whose fingerprint is in neither bucket. As [`Core::insert`], without displacement; `None`: a
    /// writer is in the way, or something rare is to be done.
    #[inline(always)]
    fn insert_alone(
        &self,
        two: &Two,
        records: [&Record; 2],
        seen: &Seen,
        key: K,
        hash: Hash,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        let (nth, slot) = self.room(seen)?;
        let [bucket, _] = with_first(two.buckets, nth);
        let [record, other] = with_first(records, nth);
        let [state, others_state] = with_first(seen.states, nth);
        let [prints, _] = with_first(seen.prints, nth);
        let at = self.at(bucket);
        self.prefetch_slot(at, slot);
        if seen.states[0] & STASHED != 0 || !Bucket::<K, V>::takes(key) {
            return None;
        }
        let Change::Put(value) = decide(None) else { return None };
        let home = Locked::attempt(self.homes.get(hash.home()))?;
        // Only as it was seen: then its fingerprints are as they were, too.
        let locked = Locked::attempt_from(&record[STATE], state)?;
        let changes = other[STATE].load(Ordering::Relaxed) ^ others_state;
        // The key is absent: under the lock of its home neither bucket has changed, nor has the geometry.
        if changes & !LOCK != 0 || self.geometry() != two.geometry {
            return None;
        }
        self.put_durably(at, slot, (key, value));
        std::mem::forget(locked);
        record[PRINTS].store(prints | u64::from(hash.print()) << (8 * slot), Ordering::Release);
        record[STATE].store(with_new_version(state) & !LOCK, Ordering::Release);
        drop(home);
        self.look_after(1, 0);
        Some(None)
    }

    /// The emptier of two buckets, and the slot there that an item goes to.
    #[inline(always)]
    fn room(&self, seen: &Seen) -> Option<(usize, usize)> {
        let empty = self.bucket.slots_of_two_with(seen.prints, EMPTY);
        let counts = counts_in_bytes(empty);
        let nth = usize::from(counts >> SLOTS_MAX > counts & 0xff);
        let [empty, _] = with_first([empty & 0xff, empty >> SLOTS_MAX], nth);
        (empty != 0).then(|| (nth, empty.trailing_zeros() as usize))
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
        if !Bucket::<K, V>::takes(item.0) {
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

    /// Hints that the slot is about to be written that a mutation is likely to change.
    #[inline(always)]
    pub(super) fn prefetch_likely(&self, known: &Known, likely: Likely) {
        let Some(two) = &known.two else { return };
        let (nth, slot) = match self.room(&known.seen) {
            _ if known.slots != 0 => slot_of_two(known.slots.trailing_zeros()),
            Some(room) if likely == Likely::Inserts => room,
            _ => return,
        };
        self.prefetch_slot(self.at(two.buckets[nth]), slot);
    }

    /// Hints that a slot is about to be written.
    #[inline(always)]
    fn prefetch_slot(&self, at: pmem::Offset, slot: usize) {
        self.medium().prefetch_write(at.add(self.bucket.item_at(slot)));
        let beyond = self.bucket.beyond_bitmap(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at);
        }
    }
}
