//! Reading between two versions: a bucket is read between two looks at its state, and what is not found must have been
//! nowhere at one instant. The fast search is the slow one of a single geometry.

use super::ahead::{Ahead, Known};
use super::buckets::{Buckets, LOCK, Near, Seen, WRITING};
use super::hash::Hash;
use super::mutation::Likely;
use index::is_same;
use pmem::sync::{Ordering, fence};
use std::hint::cold_path;

/// Where a key was found.
pub(crate) struct Found<T: Buckets> {
    pub(crate) bucket: T::Bucket,
    pub(crate) spot: T::Spot,
    pub(crate) value: T::Value,
    /// The bucket's state then, perhaps with the lock.
    pub(crate) state: u64,
}

/// Where a key is in a bucket and its value, and the bucket's state.
type Probed<T> = (Option<(<T as Buckets>::Spot, <T as Buckets>::Value)>, u64);

/// Most buckets that a search probes: two among each number of buckets that a resize, or several that follow one
/// another, may have left items among.
const PROBES_MAX: usize = 2 * super::doubling::PLACES_MAX;

pub(crate) trait Search: Buckets {
    /// Looks a key up in its buckets.
    #[inline(always)]
    fn get_from_buckets(&self, key: Self::Key) -> Option<Self::Value> {
        let hash = self.hash(key);
        // A closure would be a function of its own as soon as look-ups are compiled into a second caller.
        let Some(near) = self.near(hash) else { return self.get_slow(key) };
        self.prefetch_items(&near);
        let seen = self.see(&near);
        match self.find_fast(&near, &seen, self.slots_with(&seen, hash), key) {
            Some(found) => found.map(|found| found.value),
            None => self.get_slow(key),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_slow(&self, key: Self::Key) -> Option<Self::Value> {
        self.find_slow(key, self.hash(key)).map(|found| found.value)
    }

    /// In as few instructions as nearly every search needs, and without a branch on where the key is: a processor
    /// overlaps the cache misses of operations as far as they fit its reorder window together, and as far as it guesses
    /// right. `None`: a writer is in the way, or the key may be elsewhere. `shown`: the slots with the key's
    /// fingerprint.
    #[inline(always)]
    fn find_fast(
        &self,
        near: &Self::Near,
        seen: &Self::Seen,
        shown: u32,
        key: Self::Key,
    ) -> Option<Option<Found<Self>>> {
        let mut slots = shown;
        while slots != 0 {
            let (nth, slot) = Self::nth_slot(slots.trailing_zeros());
            slots &= slots - 1;
            let bucket = near.bucket(nth);
            let (found, value) = self.item(self.at(bucket), slot);
            if !is_same(found, key) {
                continue;
            }
            fence(Ordering::Acquire);
            // Unlocked, or somebody may be changing the value, and what was read not be durable.
            // Unchanged, or the slot may be another item's by now.
            let now = self.state(bucket).load(Ordering::Relaxed);
            let is_unchanged = now & (LOCK | WRITING) == 0 && now == seen.state(nth) & !LOCK;
            let found = Found { bucket, spot: Self::spot(slot), value, state: now };
            return (is_unchanged && self.wraps() == seen.wraps()).then_some(Some(found));
        }
        if Self::may_be_elsewhere(seen) {
            return None;
        }
        fence(Ordering::Acquire);
        let (changes, now) = self.changes(near, seen);
        // A removal erases the key before that is durable: with the fingerprint shown it may be this key.
        if Self::ERASES_KEYS && shown != 0 {
            cold_path();
            if now & LOCK != 0 {
                return None;
            }
        }
        (changes & !LOCK == 0 && self.geometry() == near.geometry()).then_some(None)
    }

    /// Finds a key, or that it was nowhere at one instant: none of the buckets looked at has changed since
    /// then, nor has the geometry. Both answers are durable.
    ///
    /// During a resize the key's former buckets come first: its item moves from there.
    #[cold]
    #[inline(never)]
    fn find_slow(&self, key: Self::Key, hash: Hash) -> Option<Found<Self>> {
        loop {
            let geometry = self.geometry();
            let wraps = self.wraps();
            let mut seen = [const { None }; PROBES_MAX];
            let mut count = 0;
            for pair in self.places(geometry, hash) {
                for (nth, bucket) in pair.into_iter().enumerate() {
                    if seen[..count].iter().flatten().any(|&(other, _)| other == bucket) {
                        // Both choices are one, or the owner has not changed.
                        continue;
                    }
                    let (found, state) = self.probe(bucket, key, hash, nth == 0);
                    if let Some((spot, value)) = found {
                        return Some(Found { bucket, spot, value, state });
                    }
                    seen[count] = Some((bucket, state));
                    count += 1;
                }
            }
            fence(Ordering::Acquire);
            let is_same = |&(bucket, state): &(Self::Bucket, u64)| {
                (self.state(bucket).load(Ordering::Relaxed) ^ state) & !LOCK == 0
            };
            let is_unchanged = seen[..count].iter().flatten().all(is_same);
            if is_unchanged && self.geometry() == geometry && self.wraps() == wraps {
                return None;
            }
        }
    }

    /// What a bucket says of a key, at one instant and durably: its state did not change meanwhile.
    fn probe(
        &self,
        bucket: Self::Bucket,
        key: Self::Key,
        hash: Hash,
        is_first: bool,
    ) -> Probed<Self> {
        loop {
            let wraps = self.wraps();
            let state = self.state(bucket).load(Ordering::Acquire);
            let (spot, shown) = self.look_in(bucket, state, key, hash, is_first);
            let found = spot.map(|spot| (spot, self.value(bucket, spot, state)));
            fence(Ordering::Acquire);
            let now = self.state(bucket).load(Ordering::Relaxed);
            if (now ^ state) & !LOCK != 0 || self.wraps() != wraps {
                continue;
            }
            let is_locked = now & LOCK != 0;
            let Some((spot, value)) = found else {
                if is_locked {
                    // Removals that may not be durable yet.
                    self.persist_absence(bucket, shown);
                }
                return (None, state);
            };
            let Some(value) = value else { continue };
            if is_locked {
                self.persist_item(bucket, spot);
            }
            return (Some((spot, value)), state);
        }
    }

    /// The value at a spot. One that is being overwritten is read from the log, where it is, and durable,
    /// for as long as the state says so; `None` if that has just ended. The caller looks at the state again.
    fn value(&self, bucket: Self::Bucket, spot: Self::Spot, state: u64) -> Option<Self::Value> {
        if state & WRITING == 0 {
            return Some(self.value_in(bucket, spot));
        }
        let (level, number, slot) = Self::in_log(bucket, spot);
        // Of the items that belong to a bucket one at most: its lock is held.
        let is_of_bucket = |level| Self::is_in_log_of(bucket, level);
        let entry = self.shared().log.update_in(self.medium(), number, is_of_bucket)?;
        if (entry.level, entry.slot) == (level, slot) {
            entry.value
        } else {
            Some(self.value_in(bucket, spot))
        }
    }
}

impl<T: Buckets> Search for T {}

/// The values of many keys by the fast path, where that suffices, with their cache misses overlapped.
#[inline(always)]
pub(crate) fn get_each<T: Buckets>(table: &T, keys: &[T::Key], out: &mut [Option<T::Value>]) {
    let mut ahead = Ahead::new(table, keys.len(), |index| keys[index], Likely::Updates);
    for (index, out) in out.iter_mut().enumerate().take(keys.len()) {
        let (key, known) = ahead.key(index);
        *out = match get_fast(table, key, known) {
            Some(found) => found,
            None => table.get_slow(key),
        };
        ahead.advance(index);
    }
}

/// What has been foreseen of a key tells its value; `None`: it is left to the slow path.
#[inline(always)]
fn get_fast<T: Buckets>(table: &T, key: T::Key, known: &Known<T>) -> Option<Option<T::Value>> {
    let found = table.find_fast(known.near.as_ref()?, &known.seen, known.slots, key)?;
    Some(found.map(|found| found.value))
}
