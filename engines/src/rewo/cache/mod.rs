//! The cached table (sections 3.2, 3.3 and 3.5): buckets of 128 bytes in DRAM that answer most searches.
//!
//! An entry has what the persistent table durably holds, or it is busy. Five rules keep that so:
//!
//! 1. All entries of a key change under the lock of its home. Every writer of the key holds it, too, from before it
//!    changes the persistent table until after its change is durable. Fills by readers try the lock and read again
//!    under it; if they fail, they do not fill.
//! 2. A writer marks the key's entry busy before its change is visible in the persistent table, and stores the new
//!    value in it when that is durable. A reader that meets a busy entry goes to the persistent table. So no search
//!    finds the old value here after another one has found the new one there, and none finds here what a crash could
//!    take back.
//! 3. While the table is *full-loaded*, a key absent here is absent. An insertion then makes a busy entry first. If
//!    that finds no room, or an entry is dropped for another one, the table is marked partial-loaded before that
//!    happens (the paper's `cache_overflow`). While it is partial-loaded, an insertion leaves it alone.
//! 4. An absence counts only if neither bucket has changed since it was read, nor the state, which changes
//!    whenever the table comes to be full-loaded or partial-loaded.
//! 5. It becomes full-loaded only by a refill that found room for every pair, if nothing was left out or dropped
//!    meanwhile. A thread that leaves a pair out or drops it reads the state first, under a lock that the refill takes
//!    when it comes to that pair: for an insertion the lock of the bucket in the pool, for a look-up that drops an
//!    entry the home of its key. So either it sees that a refill is under way and reports itself, or the refill comes
//!    to the pair later and sees the result.
//!
//! When the persistent table is resized, this one starts over: entries of an earlier epoch do not count.

mod bucket;
mod state;

use super::layout::BUCKET_BYTES;
use crate::kit::buckets::Locked;
use crate::kit::hash::Hash;
use bucket::{Bucket, LockedBucket, Seen, WORDS, slots_in};
use index::Fixed;
use index::hash::{h1, h2};
use pmem::sync::{Array, AtomicU64, Ordering, fence};
use state::State;
use std::io;
use std::marker::PhantomData;

/// Bytes of a bucket.
const CACHED_BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

/// What the cached table says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer<V> {
    Hit(V),
    /// It is not in the persistent table either.
    Absent,
    /// The persistent table knows.
    Unknown,
}

/// The cached table.
pub(super) struct Cache<K, V> {
    words: Array<AtomicU64>,
    state: AtomicU64,
    /// How many times smaller the table is than the persistent one in bytes, as log2.
    smaller_log2: u32,
    pair: PhantomData<fn() -> (K, V)>,
}

/// A busy entry, as one word: the epoch, the bucket, the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Busy(u64);

impl Busy {
    const SLOT_BITS: u32 = 3;
    const EPOCH_SHIFT: u32 = 48;

    fn new(epoch: u64, bucket: usize, slot: usize) -> Busy {
        Busy(epoch << Self::EPOCH_SHIFT | (bucket as u64) << Self::SLOT_BITS | slot as u64)
    }

    fn epoch(self) -> u64 {
        self.0 >> Self::EPOCH_SHIFT
    }

    fn bucket(self) -> usize {
        (self.0 << (u64::BITS - Self::EPOCH_SHIFT) >> (u64::BITS - Self::EPOCH_SHIFT)) as usize
            >> Self::SLOT_BITS
    }

    fn slot(self) -> usize {
        self.0 as usize & ((1 << Self::SLOT_BITS) - 1)
    }
}

/// A slot of a locked bucket.
type Slot<'a, K, V> = (LockedBucket<'a, K, V>, usize, usize);

/// The cached table has begun anew since the state was read.
#[derive(Debug)]
struct Outdated;

impl<K: Fixed, V: Fixed> Cache<K, V> {
    /// Entries of a bucket; 0: pairs are too large to be cached.
    #[inline(always)]
    pub(super) fn slots() -> usize {
        Bucket::<K, V>::slots()
    }

    /// A cached table for at most `buckets_max` buckets of the persistent one, `smaller_log2` times two smaller
    /// than that, and partial-loaded; `None` where pairs are too large.
    pub(super) fn new(
        smaller_log2: u32,
        buckets_max: usize,
        used_log2: u32,
    ) -> io::Result<Option<Self>> {
        if Self::slots() == 0 {
            return Ok(None);
        }
        let log2_max = Self::log2_for(buckets_max.next_power_of_two().ilog2(), smaller_log2);
        let log2 = Self::log2_for(used_log2, smaller_log2);
        Ok(Some(Cache {
            words: Array::reserve(WORDS << log2_max, WORDS << log2)?,
            state: AtomicU64::new(State::first(log2).word()),
            smaller_log2,
            pair: PhantomData,
        }))
    }

    /// log2 of the cached buckets for `1 << log2` buckets of the persistent table.
    fn log2_for(log2: u32, smaller_log2: u32) -> u32 {
        (log2 + (BUCKET_BYTES / CACHED_BYTES).ilog2()).saturating_sub(smaller_log2)
    }

    #[inline(always)]
    pub(super) fn state(&self) -> State {
        State::from_word(self.state.load(Ordering::Acquire))
    }

    /// Replaces the state by what `next` makes of it, if anything; returns the state before.
    fn change_state(&self, next: impl Fn(State) -> Option<State>) -> State {
        let next = |word| next(State::from_word(word)).map(State::word);
        let before = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        State::from_word(before.unwrap_or_else(|word| word))
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        CACHED_BYTES << self.state().log2()
    }

    /// The numbers of a key's two buckets.
    #[inline(always)]
    fn pair(state: State, hash: Hash) -> [usize; 2] {
        let mask = (1 << state.log2()) - 1;
        [h1(hash.0), h2(hash.0)].map(|choice| (choice & mask) as usize)
    }

    #[inline(always)]
    fn bucket(&self, number: usize) -> Bucket<'_, K, V> {
        Bucket::new(&self.words.as_slice().as_chunks().0[number])
    }

    /// Hints that a key is about to be searched.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: Hash) {
        let [first, second] = Self::pair(self.state(), hash);
        self.words.prefetch(WORDS * first);
        self.words.prefetch(WORDS * second);
    }

    /// Algorithm 1. Takes no lock and waits for nobody.
    #[inline(always)]
    pub(super) fn search(&self, key: K, hash: Hash) -> Answer<V> {
        let (state, print) = (self.state(), hash.print());
        let buckets = Self::pair(state, hash).map(|number| self.bucket(number));
        let seen = buckets.map(Bucket::see);
        for (bucket, seen) in buckets.into_iter().zip(seen) {
            if seen.epoch() != state.epoch() {
                continue;
            }
            let Some(slot) = bucket.slot_of(seen, key, print) else { continue };
            let value = bucket.value(slot);
            fence(Ordering::Acquire);
            let is_same = bucket.is_as_seen(seen) && self.state() == state;
            if !is_same || !Bucket::<K, V>::shows(seen, slot) {
                return Answer::Unknown;
            }
            bucket.refer(seen, slot);
            return Answer::Hit(value);
        }
        if !state.is_full_loaded() {
            return Answer::Unknown;
        }
        fence(Ordering::Acquire);
        let is_same = buckets.into_iter().zip(seen).all(|(bucket, seen)| bucket.is_as_seen(seen));
        if is_same && self.state() == state { Answer::Absent } else { Answer::Unknown }
    }

    /// Locks a bucket, and empties it if it is of an earlier epoch. Not one of a later epoch: what is there
    /// counts, and the caller's state does not.
    fn lock(&self, state: State, number: usize) -> Result<LockedBucket<'_, K, V>, Outdated> {
        let bucket = self.bucket(number).lock();
        let epoch = bucket.see().epoch();
        if epoch > state.epoch() {
            return Err(Outdated);
        }
        if epoch < state.epoch() {
            bucket.begin(state.epoch());
        }
        Ok(bucket)
    }

    /// The key's entry, its bucket locked. The key's home is locked, so an entry that is not there does not come,
    /// and buckets that show no such fingerprint need not be locked.
    fn find(&self, state: State, key: K, hash: Hash) -> Result<Option<Slot<'_, K, V>>, Outdated> {
        for number in Self::pair(state, hash) {
            let seen = self.bucket(number).see();
            if seen.epoch() > state.epoch() {
                return Err(Outdated);
            }
            if seen.epoch() < state.epoch() || !Bucket::<K, V>::may_hold(seen, hash.print()) {
                continue;
            }
            let bucket = self.lock(state, number)?;
            if let Some(slot) = bucket.slot_of(key, hash.print()) {
                return Ok(Some((bucket, number, slot)));
            }
        }
        Ok(None)
    }

    /// The emptier one of a key's buckets first: so nearly twice as many pairs find room before one does not.
    fn emptier_first(&self, state: State, hash: Hash) -> [(usize, u64); 2] {
        let mut pair = Self::pair(state, hash).map(|number| {
            let seen = self.bucket(number).see();
            (number, if seen.epoch() == state.epoch() { seen.used() } else { 0 })
        });
        if pair[1].1.count_ones() < pair[0].1.count_ones() {
            pair.swap(0, 1);
        }
        pair
    }

    /// A free slot in one of a key's buckets, which is locked.
    fn find_free(&self, state: State, hash: Hash) -> Result<Option<Slot<'_, K, V>>, Outdated> {
        for (number, used) in self.emptier_first(state, hash) {
            if used == Bucket::<K, V>::all() {
                continue;
            }
            let bucket = self.lock(state, number)?;
            if let Some(slot) = bucket.free_slot() {
                return Ok(Some((bucket, number, slot)));
            }
        }
        Ok(None)
    }

    /// Visits the entries, with whether they are busy. Nothing else happens meanwhile.
    pub(super) fn for_each(&self, mut visit: impl FnMut(K, V, bool)) {
        let state = self.state();
        for bucket in (0..1 << state.log2()).map(|number| self.bucket(number)) {
            let seen = bucket.see();
            let used = if seen.epoch() == state.epoch() { seen.used() } else { 0 };
            for slot in slots_in(used) {
                visit(bucket.key(slot), bucket.value(slot), seen.busy() >> slot & 1 != 0);
            }
        }
    }

    /// Says that something is about to be left out or dropped. Its home is locked.
    fn leave_out(&self) {
        if self.state().left_out().is_some() {
            self.change_state(State::left_out);
        }
    }

    /// Called before a change of the key can be seen in the persistent table: nobody finds the key here until
    /// [`Cache::complete`], which is called if this returns an entry. The key's home is locked until then.
    /// `appears`: it is not in the persistent table yet.
    #[inline(always)]
    pub(super) fn mark_busy(&self, key: K, hash: Hash, appears: bool) -> Option<Busy> {
        loop {
            if let Ok(busy) = self.try_mark_busy(self.state(), key, hash, appears) {
                return busy;
            }
        }
    }

    fn try_mark_busy(
        &self,
        state: State,
        key: K,
        hash: Hash,
        appears: bool,
    ) -> Result<Option<Busy>, Outdated> {
        if state.is_off() || appears && !state.keeps_all() {
            // What is not in the persistent table is not here.
            return Ok(None);
        }
        let (number, slot) = if let Some((bucket, number, slot)) = self.find(state, key, hash)? {
            bucket.set_busy(slot);
            (number, slot)
        } else if !appears {
            return Ok(None);
        } else if let Some((bucket, number, slot)) = self.find_free(state, hash)? {
            bucket.put(slot, key, hash.print(), None);
            (number, slot)
        } else {
            self.leave_out();
            return Ok(None);
        };
        Ok(Some(Busy::new(state.epoch(), number, slot)))
    }

    /// Called when a change of the key is durable: `value` is what the persistent table has. The key's home is
    /// still locked.
    pub(super) fn complete(&self, busy: Busy, value: Option<V>) {
        let bucket = self.bucket(busy.bucket()).lock();
        if bucket.see().epoch() != busy.epoch() {
            // The table has begun anew.
            return;
        }
        match value {
            Some(value) => bucket.complete(busy.slot(), value),
            None => bucket.clear(busy.slot()),
        }
    }

    /// Whether a key could be cached without dropping an entry.
    pub(super) fn has_room(&self, hash: Hash) -> bool {
        let state = self.state();
        self.emptier_first(state, hash)[0].1 != Bucket::<K, V>::all()
    }

    /// Caches a pair that the persistent table durably has, whose home is locked by the caller. If its buckets
    /// are full, an entry that was not referred to of late is dropped for it, if `homes` says where to lock
    /// that. Returns whether the pair is cached now.
    pub(super) fn insert(
        &self,
        key: K,
        hash: Hash,
        value: V,
        hash_of: impl Fn(K) -> Hash,
        homes: Option<&Array<AtomicU64>>,
    ) -> bool {
        // A table that has begun anew meanwhile does without.
        let state = self.state();
        self.try_insert(state, key, hash, value, &hash_of, homes).unwrap_or(false)
    }

    fn try_insert(
        &self,
        state: State,
        key: K,
        hash: Hash,
        value: V,
        hash_of: &impl Fn(K) -> Hash,
        homes: Option<&Array<AtomicU64>>,
    ) -> Result<bool, Outdated> {
        if state.is_off() {
            return Ok(false);
        }
        if self.find(state, key, hash)?.is_some() {
            return Ok(true);
        }
        let mut place = self.find_free(state, hash)?.map(|(bucket, _, slot)| (bucket, slot));
        if let Some(homes) = homes {
            let pair = Self::pair(state, hash);
            // An entry that was of no use in the second bucket goes before one of the first that was.
            let tries = [false, true].into_iter();
            let tries = tries.flat_map(|may_forget| pair.map(|number| (number, may_forget)));
            for (number, may_forget) in tries {
                if place.is_some() {
                    break;
                }
                let bucket = self.lock(state, number)?;
                let slot = self.victim(&bucket, hash, hash_of, homes, may_forget);
                place = slot.map(|slot| (bucket, slot));
            }
        }
        let Some((bucket, slot)) = place else { return Ok(false) };
        bucket.put(slot, key, hash.print(), Some(value));
        Ok(true)
    }

    /// A slot of a locked bucket, out of which it takes the entry if there is one. An entry that was of use stays. But
    /// if all were, the bucket `may_forget` it.
    fn victim(
        &self,
        bucket: &LockedBucket<'_, K, V>,
        hash: Hash,
        hash_of: &impl Fn(K) -> Hash,
        homes: &Array<AtomicU64>,
        may_forget: bool,
    ) -> Option<usize> {
        if let Some(slot) = bucket.free_slot() {
            return Some(slot);
        }
        let seen: Seen = bucket.see();
        let idle = Bucket::<K, V>::all() & !seen.busy();
        let mut candidates = idle & !seen.referenced();
        if candidates == 0 && may_forget {
            // All have been referred to: they get another chance.
            bucket.forget_referenced();
            candidates = idle;
        }
        slots_in(candidates).find(|&slot| {
            let home = hash_of(bucket.key(slot)).home();
            // Its entry may be dropped only under its own home. That of the pair to be cached is held.
            let locked = (home != hash.home()).then(|| Locked::attempt(homes.get(home)));
            let may_drop = locked.as_ref().is_none_or(Option::is_some);
            if may_drop {
                self.leave_out();
                bucket.clear(slot);
            }
            may_drop
        })
    }

    /// Makes an empty table full-loaded: the persistent one is empty, too, and nobody uses either yet.
    pub(super) fn begin_full_loaded(&self) {
        self.change_state(|state| Some(state.full()));
    }

    /// Begins anew if a persistent table of `1 << log2` buckets is worth a cached one of another size.
    pub(super) fn fit(&self, log2: u32) {
        let log2_max = (self.words.len() / WORDS).ilog2();
        let log2 = Self::log2_for(log2, self.smaller_log2).min(log2_max);
        self.change_state(|state| state.anew(log2));
    }

    /// Begins a refill. From now on, a thread that leaves something out reports it.
    pub(super) fn begin_refill(&self) -> State {
        // Not what the state is by now: were something dropped meanwhile, that would be taken for part of it, and
        // what is dropped later not be noticed.
        self.change_state(|state| Some(state.refilling())).refilling()
    }

    /// Ends the refill that began with `begun`, for which everything was found room if `has_all`; whether the
    /// table is full-loaded now.
    pub(super) fn end_refill(&self, begun: State, has_all: bool) -> bool {
        if has_all && !begun.is_off() {
            let full = |state| (state == begun).then(|| begun.refilled());
            if self.change_state(full) == begun {
                return true;
            }
        }
        self.change_state(|state| Some(state.not_refilled()));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::hash::HOMES;

    fn cache() -> Cache<u64, u64> {
        Cache::new(0, 16, 2).unwrap().unwrap()
    }

    /// What was dropped during one refill is missing after it, even if another refill begins meanwhile.
    #[test]
    fn a_refill_does_not_forget_what_another_one_was_told() {
        let cache = cache();
        let first = cache.begin_refill();
        cache.leave_out();
        let second = cache.begin_refill();
        assert!(!cache.end_refill(first, true), "something was left out");
        assert!(!cache.state().is_full_loaded());
        // The first one's end has ended both.
        assert!(!cache.end_refill(second, true));
        let third = cache.begin_refill();
        assert!(cache.end_refill(third, true) && cache.state().is_full_loaded());
        cache.leave_out();
        assert!(!cache.state().is_full_loaded());
    }

    /// A thread that has read the state before the table started over takes nothing out of it.
    #[test]
    fn entries_outlive_who_has_an_older_state() {
        let cache = cache();
        let old = cache.state();
        cache.fit(3);
        let hash = |key: u64| Hash(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for key in 0..6 {
            assert!(cache.insert(key, hash(key), !key, hash, None));
        }
        for key in 0..60 {
            let _ = cache.try_mark_busy(old, key, hash(key), true);
            let _ = cache.try_insert(old, key, hash(key), 7, &hash, None);
        }
        for key in 0..6 {
            assert_eq!(cache.search(key, hash(key)), Answer::Hit(!key), "key {key}");
        }
    }

    /// A pair that is looked up often stays where another bucket has one that is not.
    #[test]
    fn what_was_of_no_use_in_either_bucket_is_dropped_first() {
        let cache = cache();
        let homes = Array::reserve(HOMES, HOMES).unwrap();
        let hash = |key: u64| Hash(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let cached: Vec<u64> =
            (0..1000).filter(|&key| cache.insert(key, hash(key), !key, hash, None)).collect();
        let new = |key: &u64| {
            let [first, second] = Cache::<u64, u64>::pair(cache.state(), hash(*key));
            first != second && !cache.has_room(hash(*key))
        };
        let key = (1000..).find(new).unwrap();
        let [first, _] = Cache::<u64, u64>::pair(cache.state(), hash(key));
        let is_in_first = |key: &u64| {
            let bucket = cache.bucket(first);
            bucket.slot_of(bucket.see(), *key, hash(*key).print()).is_some()
        };
        let used: Vec<u64> = cached.into_iter().filter(is_in_first).collect();
        assert_eq!(used.len(), Cache::<u64, u64>::slots());
        let assert_there = || {
            for &key in &used {
                assert_eq!(cache.search(key, hash(key)), Answer::Hit(!key), "key {key}");
            }
        };
        assert_there();
        assert!(cache.insert(key, hash(key), !key, hash, Some(&homes)));
        assert_there();
    }
}
