//! The fast path of a single insertion, the only one that this engine has to itself: it locks a bucket only as it was
//! seen, and knows from that what to store into its record. Other cases go the kit's ways.

use super::Core;
use super::layout::{
    LOCK, PRINTS, Record, SLOTS_MAX, STASHED, STATE, state_and_prints, with_new_version,
};
use crate::kit::ahead::Known;
use crate::kit::buckets::{Buckets, Locked};
use crate::kit::change::Mutate;
use crate::kit::doubling::{Doubles, Two, TwoSeen};
use crate::kit::hash::Hash;
use crate::kit::mutation::Likely;
use crate::kit::unfenced::Unfenced;
use index::fingerprint::EMPTY;
use index::{Change, Fixed};
use pmem::Medium;
use pmem::sync::Ordering;
use std::hint::select_unpredictable;

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

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// [`Mutate::mutate_fast`] of a single key, of which nothing is foreseen yet.
    #[inline(always)]
    pub(super) fn mutate_single(
        &self,
        key: K,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        let hash = self.hash(key);
        let two = self.near(hash)?;
        let records = two.buckets.map(|bucket| self.record_of(bucket));
        let seen = TwoSeen::of(records, state_and_prints);
        let slots = self.slots_with(&seen, hash);
        if likely == Likely::Inserts && slots == 0 {
            return self.insert_alone(&two, records, &seen, key, hash, decide);
        }
        self.prefetch_likely(&two, &seen, slots, likely);
        let known = Known { hash, near: Some(two), seen, slots };
        Unfenced::alone(self, |unfenced| self.mutate_fast(unfenced, key, &known, likely, decide))
    }

    /// Inserts a key whose fingerprint is in neither bucket. As an insertion, without displacement; `None`: a
    /// writer is in the way, or something rare is to be done.
    #[inline(always)]
    fn insert_alone(
        &self,
        two: &Two,
        records: [&Record; 2],
        seen: &TwoSeen<u64>,
        key: K,
        hash: Hash,
        decide: &impl Fn(Option<V>) -> Change<V>,
    ) -> Option<Option<V>> {
        let (nth, slot) = self.room_of_two(seen)?;
        let [bucket, _] = with_first(two.buckets, nth);
        let [record, other] = with_first(records, nth);
        let [state, others_state] = with_first(seen.states, nth);
        let [prints, _] = with_first(seen.prints, nth);
        let at = self.at(bucket);
        self.prefetch_slot(at, slot);
        if seen.states[0] & STASHED != 0 || !Self::takes(key) {
            return None;
        }
        let Change::Put(value) = decide(None) else { return None };
        let home = Locked::attempt(self.shared.homes.get(hash.home()))?;
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
    pub(super) fn room_of_two(&self, seen: &TwoSeen<u64>) -> Option<(usize, usize)> {
        let empty = self.bucket.slots_of_two_with(seen.prints, EMPTY);
        let counts = counts_in_bytes(empty);
        let nth = usize::from(counts >> SLOTS_MAX > counts & 0xff);
        let [empty, _] = with_first([empty & 0xff, empty >> SLOTS_MAX], nth);
        (empty != 0).then(|| (nth, empty.trailing_zeros() as usize))
    }
}
