//! The cached table (sections 3.2, 3.3 and 3.5): buckets of 128 bytes in DRAM that answer most searches.
//!
//! ```text
//! bucket, 16 words
//!   | version, busy, used, LOCK | epoch, referenced | entry | entry | …      entry = key, value, in whole words
//! ```
//!
//! An entry is what the persistent table durably holds, or it is busy. What keeps that so:
//!
//! 1. All entries of a key change under the lock of its home, which every writer of the key holds, too, from
//!    before it changes the persistent table until after its change is durable. So do fills by readers, which
//!    try for it, look again under it, and else do without.
//! 2. A writer marks the key's entry busy before its change can be seen in the persistent table, and makes it
//!    say what is new when that is durable. A reader that meets a busy entry goes to the persistent table. So no
//!    search finds the old value here after another one has found the new one there, and none finds here what a
//!    crash could take back.
//! 3. While the table is *full-loaded*, absence here is absence. An insertion then makes a busy entry first. Where
//!    that has no room, or an entry is dropped for another one, the table is partial-loaded before that happens
//!    (the paper's `cache_overflow`).
//! 4. An absence counts only if neither bucket has changed since it was read, nor the state, which changes
//!    whenever the table comes to be full-loaded or partial-loaded.
//! 5. It becomes full-loaded only by a refill that found room for every pair, if nothing was left out or dropped
//!    meanwhile. Who leaves out or drops something holds the key's home and looks at the state first; the
//!    refill, once it has said that it is under way, takes every home once: after that, all see it.
//!
//! When the persistent table is resized, this one begins anew: entries of an earlier epoch are none.

use super::layout::{HOMES, Hash, Locked};
use index::hash::{h1, h2};
use index::{Fixed, is_same};
use pmem::sync::{Array, AtomicU64, Ordering, fence};
use std::io;
use std::marker::PhantomData;

/// Words of a bucket: two lines.
const BUCKET_WORDS: usize = 16;
/// Words of a bucket before its entries.
const HEAD_WORDS: usize = 2;
/// Most entries of a bucket.
const SLOTS_MAX: usize = 7;
/// Bytes of a bucket, against which those of the persistent table's are measured.
const BUCKET_BYTES: u64 = 128;

// Word 0 of a bucket. Bit 0 is the lock.
const LOCK: u64 = super::layout::LOCK;
const USED_SHIFT: u32 = 1;
const BUSY_SHIFT: u32 = 8;
const SLOTS_MASK: u64 = (1 << SLOTS_MAX) - 1;
const VERSION: u64 = 1 << 15;

// Word 1 of a bucket.
const EPOCH_SHIFT: u32 = 8;

/// What is left out of the cached table, and how large it is: one word, so that any change is noticed.
///
/// ```text
///  63 … 40   39 … 10    9 … 4    3        2         1           0
/// | epoch  | refills | log2  | - | dropped | refilling | overflow |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    /// Something is in the persistent table that is not here: the table is partial-loaded.
    const OVERFLOW: u64 = 1;
    /// A refill is under way.
    const REFILLING: u64 = 1 << 1;
    /// Something was left out or dropped since the refill began.
    const DROPPED: u64 = 1 << 2;
    const LOG2_SHIFT: u32 = 4;
    const REFILL: u64 = 1 << 10;
    const REFILLS_MASK: u64 = (1 << 40) - Self::REFILL;
    const EPOCH_SHIFT: u32 = 40;

    /// Of a partial-loaded table.
    fn new(epoch: u64, log2: u32) -> State {
        State(epoch << Self::EPOCH_SHIFT | u64::from(log2) << Self::LOG2_SHIFT | Self::OVERFLOW)
    }

    fn log2(self) -> u32 {
        (self.0 >> Self::LOG2_SHIFT) as u32 & 63
    }

    pub(super) fn epoch(self) -> u64 {
        self.0 >> Self::EPOCH_SHIFT
    }

    pub(super) fn is_full_loaded(self) -> bool {
        self.0 & Self::OVERFLOW == 0
    }

    fn is_refilling(self) -> bool {
        self.0 & Self::REFILLING != 0
    }
}

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
    slots: usize,
    entry: PhantomData<fn() -> (K, V)>,
}

/// A locked bucket, by its first word.
struct Bucket<'a> {
    first: usize,
    _locked: Locked<'a>,
}

/// An entry, by its locked bucket and slot.
type Entry<'a> = (Bucket<'a>, usize);

/// The cached table has begun anew since the state was read.
#[derive(Debug)]
struct Outdated;

const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

impl<K: Fixed, V: Fixed> Cache<K, V> {
    const KEY_WORDS: usize = words_of(K::BYTES);
    const ENTRY_WORDS: usize = words_of(K::BYTES) + words_of(V::BYTES);
    /// Entries of a bucket; 0: pairs are too large to be cached.
    pub(super) const SLOTS: usize = {
        let fitting = (BUCKET_WORDS - HEAD_WORDS) / Self::ENTRY_WORDS;
        if fitting < SLOTS_MAX { fitting } else { SLOTS_MAX }
    };

    /// A cached table for at most `buckets_max` buckets of the persistent one, `smaller_log2` times two smaller
    /// than that, and partial-loaded; `None` where pairs are too large.
    pub(super) fn new(
        smaller_log2: u32,
        buckets_max: usize,
        used_log2: u32,
    ) -> io::Result<Option<Self>> {
        if Self::SLOTS == 0 {
            return Ok(None);
        }
        let log2_max = Self::log2_for(buckets_max.next_power_of_two().ilog2(), smaller_log2);
        let log2 = Self::log2_for(used_log2, smaller_log2);
        Ok(Some(Cache {
            words: Array::reserve(BUCKET_WORDS << log2_max, BUCKET_WORDS << log2)?,
            state: AtomicU64::new(State::new(1, log2).0),
            smaller_log2,
            slots: Self::SLOTS,
            entry: PhantomData,
        }))
    }

    /// log2 of the cached buckets for `1 << log2` buckets of the persistent table.
    fn log2_for(log2: u32, smaller_log2: u32) -> u32 {
        (log2 + (super::layout::BUCKET_BYTES / BUCKET_BYTES).ilog2()).saturating_sub(smaller_log2)
    }

    pub(super) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        BUCKET_BYTES << self.state().log2()
    }

    /// The first words of a key's two buckets.
    #[inline(always)]
    fn firsts(&self, state: State, hash: Hash) -> [usize; 2] {
        let mask = (1 << state.log2()) - 1;
        [h1(hash.0), h2(hash.0)].map(|choice| (choice & mask) as usize * BUCKET_WORDS)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.words.get(index)
    }

    fn entry_at(first: usize, slot: usize) -> usize {
        first + HEAD_WORDS + slot * Self::ENTRY_WORDS
    }

    fn key_in(&self, first: usize, slot: usize) -> K {
        let at = Self::entry_at(first, slot);
        K::of_words(|word| self.word(at + word).load(Ordering::Acquire))
    }

    fn value_in(&self, first: usize, slot: usize) -> V {
        let at = Self::entry_at(first, slot) + Self::KEY_WORDS;
        V::of_words(|word| self.word(at + word).load(Ordering::Acquire))
    }

    /// The slots in use of a bucket with this head, which may be of another epoch.
    fn used(&self, state: State, first: usize, head: u64) -> u64 {
        let epoch = self.word(first + 1).load(Ordering::Acquire) >> EPOCH_SHIFT;
        if epoch == state.epoch() { head >> USED_SHIFT & SLOTS_MASK } else { 0 }
    }

    fn slot_of(&self, first: usize, used: u64, key: K) -> Option<usize> {
        (0..self.slots)
            .find(|&slot| used & 1 << slot != 0 && is_same(self.key_in(first, slot), key))
    }

    /// Algorithm 1. Takes no lock and waits for nobody.
    pub(super) fn search(&self, key: K, hash: Hash) -> Answer<V> {
        let state = self.state();
        let firsts = self.firsts(state, hash);
        let mut heads = [0; 2];
        for (first, seen) in firsts.into_iter().zip(&mut heads) {
            let head = self.word(first).load(Ordering::Acquire);
            *seen = head;
            let used = self.used(state, first, head);
            let Some(slot) = self.slot_of(first, used, key) else { continue };
            let value = self.value_in(first, slot);
            fence(Ordering::Acquire);
            let now = self.word(first).load(Ordering::Relaxed);
            let is_busy = now >> BUSY_SHIFT & 1 << slot != 0;
            if is_busy || (now ^ head) & !LOCK != 0 || self.state() != state {
                return Answer::Unknown;
            }
            let referenced = self.word(first + 1);
            if referenced.load(Ordering::Relaxed) & 1 << slot == 0 {
                referenced.fetch_or(1 << slot, Ordering::Relaxed);
            }
            return Answer::Hit(value);
        }
        if !state.is_full_loaded() {
            return Answer::Unknown;
        }
        fence(Ordering::Acquire);
        let is_same = firsts
            .into_iter()
            .zip(heads)
            .all(|(first, head)| (self.word(first).load(Ordering::Relaxed) ^ head) & !LOCK == 0);
        if is_same && self.state() == state { Answer::Absent } else { Answer::Unknown }
    }

    /// Locks a bucket, and empties it if it is of an earlier epoch. Not one of a later epoch: what is there
    /// counts, and the caller's state does not.
    fn lock(&self, state: State, first: usize) -> Result<Bucket<'_>, Outdated> {
        let bucket = Bucket { first, _locked: Locked::wait(self.word(first)) };
        let word = self.word(first + 1);
        let epoch = word.load(Ordering::Relaxed) >> EPOCH_SHIFT;
        if epoch > state.epoch() {
            return Err(Outdated);
        }
        if epoch < state.epoch() {
            self.change(&bucket, |_, _| (0, 0));
            word.store(state.epoch() << EPOCH_SHIFT, Ordering::Release);
        }
        Ok(bucket)
    }

    /// The key's entry, its bucket locked.
    fn find(&self, state: State, key: K, hash: Hash) -> Result<Option<Entry<'_>>, Outdated> {
        for first in self.firsts(state, hash) {
            let bucket = self.lock(state, first)?;
            if let Some(slot) = self.slot_of(first, self.slots(&bucket).0, key) {
                return Ok(Some((bucket, slot)));
            }
        }
        Ok(None)
    }

    /// A free slot in the emptier one of a key's buckets, which is locked: so nearly twice as many find room
    /// before the first one does not.
    fn find_free(&self, state: State, hash: Hash) -> Result<Option<Entry<'_>>, Outdated> {
        let mut firsts = self.firsts(state, hash);
        let [one, other] = firsts.map(|first| {
            self.used(state, first, self.word(first).load(Ordering::Relaxed)).count_ones()
        });
        if other < one {
            firsts.swap(0, 1);
        }
        for first in firsts {
            let bucket = self.lock(state, first)?;
            let free = !self.slots(&bucket).0 & ((1 << self.slots) - 1);
            if free != 0 {
                return Ok(Some((bucket, free.trailing_zeros() as usize)));
            }
        }
        Ok(None)
    }

    /// The slots in use and the busy ones of a locked bucket.
    fn slots(&self, bucket: &Bucket<'_>) -> (u64, u64) {
        let head = self.word(bucket.first).load(Ordering::Relaxed);
        (head >> USED_SHIFT & SLOTS_MASK, head >> BUSY_SHIFT & SLOTS_MASK)
    }

    /// Changes which slots of a locked bucket are in use and which are busy: a new version.
    fn change(&self, bucket: &Bucket<'_>, to: impl FnOnce(u64, u64) -> (u64, u64)) {
        let word = self.word(bucket.first);
        let head = word.load(Ordering::Relaxed);
        let (used, busy) = self.slots(bucket);
        let (used, busy) = to(used, busy);
        let version = (head & !(VERSION - 1)).wrapping_add(VERSION);
        word.store(version | used << USED_SHIFT | busy << BUSY_SHIFT | LOCK, Ordering::Release);
    }

    /// Stores an entry into a slot that is not in use, or busy.
    fn fill(&self, bucket: &Bucket<'_>, slot: usize, key: K, value: Option<V>) {
        // Who sees these stores sees the version that made the slot so.
        fence(Ordering::Release);
        let at = Self::entry_at(bucket.first, slot);
        for word in 0..Self::KEY_WORDS {
            self.word(at + word).store(key.word(word), Ordering::Relaxed);
        }
        for word in 0..words_of(V::BYTES) {
            let value = value.map_or(0, |value| value.word(word));
            self.word(at + Self::KEY_WORDS + word).store(value, Ordering::Relaxed);
        }
    }

    /// Says that something is about to be left out or dropped. Its home is locked.
    fn leave_out(&self) {
        let state = self.state.load(Ordering::SeqCst);
        let is_known = if state & State::REFILLING != 0 { State::DROPPED } else { State::OVERFLOW };
        if state & is_known == 0 {
            self.state.fetch_or(State::OVERFLOW | State::DROPPED, Ordering::SeqCst);
        }
    }

    /// Called before a change of the key can be seen in the persistent table: nobody finds the key here until
    /// [`Cache::complete`]. The key's home is locked. `appears`: it is not in the persistent table yet.
    pub(super) fn mark_busy(&self, key: K, hash: Hash, appears: bool) {
        while self.try_mark_busy(self.state(), key, hash, appears).is_err() {}
    }

    fn try_mark_busy(
        &self,
        state: State,
        key: K,
        hash: Hash,
        appears: bool,
    ) -> Result<(), Outdated> {
        if let Some((bucket, slot)) = self.find(state, key, hash)? {
            self.change(&bucket, |used, busy| (used, busy | 1 << slot));
        } else if appears {
            let counts = state.is_full_loaded() || state.is_refilling();
            match if counts { self.find_free(state, hash)? } else { None } {
                Some((bucket, slot)) => {
                    self.fill(&bucket, slot, key, None);
                    self.change(&bucket, |used, busy| (used | 1 << slot, busy | 1 << slot));
                }
                None => self.leave_out(),
            }
        }
        Ok(())
    }

    /// Called when a change of the key is durable: `value` is what the persistent table has. The key's home is
    /// still locked.
    pub(super) fn complete(&self, key: K, hash: Hash, value: Option<V>) {
        let (bucket, slot) = loop {
            match self.find(self.state(), key, hash) {
                Ok(Some(entry)) => break entry,
                // It was left out, or the table has begun anew.
                Ok(None) => return,
                Err(Outdated) => {}
            }
        };
        let bit = 1 << slot;
        if value.is_some() {
            self.fill(&bucket, slot, key, value);
        }
        let kept = if value.is_some() { 0 } else { bit };
        self.change(&bucket, |used, busy| (used & !kept, busy & !bit));
    }

    /// Caches a pair that the persistent table durably has, whose home is locked by the caller. If its buckets
    /// are full and there are `homes`, in place of another one that was not referred to of late, and whose home
    /// can be locked, too. Whether it is there.
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
        if self.find(state, key, hash)?.is_some() {
            return Ok(true);
        }
        let mut place = self.find_free(state, hash)?;
        if let Some(homes) = homes {
            for first in self.firsts(state, hash) {
                if place.is_some() {
                    break;
                }
                let bucket = self.lock(state, first)?;
                let slot = self.victim(&bucket, hash, hash_of, homes);
                place = slot.map(|slot| (bucket, slot));
            }
        }
        let Some((bucket, slot)) = place else { return Ok(false) };
        self.fill(&bucket, slot, key, Some(value));
        self.change(&bucket, |used, busy| (used | 1 << slot, busy));
        Ok(true)
    }

    /// A slot of a locked bucket, out of which it takes the entry if there is one.
    fn victim(
        &self,
        bucket: &Bucket<'_>,
        hash: Hash,
        hash_of: &impl Fn(K) -> Hash,
        homes: &Array<AtomicU64>,
    ) -> Option<usize> {
        let (used, busy) = self.slots(bucket);
        let all = (1 << self.slots) - 1;
        if used != all {
            return Some((!used).trailing_zeros() as usize);
        }
        let word = self.word(bucket.first + 1);
        let mut candidates = all & !busy & !word.load(Ordering::Relaxed);
        if candidates == 0 {
            // All have been referred to: they get another chance.
            word.fetch_and(!SLOTS_MASK, Ordering::Relaxed);
            candidates = all & !busy;
        }
        while candidates != 0 {
            let slot = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let home = hash_of(self.key_in(bucket.first, slot)).home();
            let locked = if home == hash.home() {
                None
            } else {
                match Locked::attempt(homes.get(home)) {
                    Some(locked) => Some(locked),
                    None => continue,
                }
            };
            self.leave_out();
            self.change(bucket, |used, busy| (used & !(1 << slot), busy));
            drop(locked);
            return Some(slot);
        }
        None
    }

    /// Visits all entries, and whether each is busy. Exact when nothing else runs.
    pub(super) fn for_each(&self, mut visit: impl FnMut(K, V, bool)) {
        let state = self.state();
        for first in (0..1 << state.log2()).map(|bucket: usize| bucket * BUCKET_WORDS) {
            let head = self.word(first).load(Ordering::Acquire);
            let used = self.used(state, first, head);
            for slot in (0..self.slots).filter(|slot| used & 1 << slot != 0) {
                let is_busy = head >> BUSY_SHIFT & 1 << slot != 0;
                visit(self.key_in(first, slot), self.value_in(first, slot), is_busy);
            }
        }
    }

    /// Called before operations begin if the persistent table is empty: the table is full-loaded.
    pub(super) fn begin_full_loaded(&self) {
        self.state.fetch_and(!State::OVERFLOW, Ordering::SeqCst);
    }

    /// Begins anew if a persistent table of `1 << log2` buckets is worth a cached one of another size.
    pub(super) fn fit(&self, log2: u32) {
        let log2_max = (self.words.len() / BUCKET_WORDS).ilog2();
        let log2 = Self::log2_for(log2, self.smaller_log2).min(log2_max);
        let next = |state| {
            let state = State(state);
            (state.log2() != log2).then(|| State::new(state.epoch() + 1, log2).0)
        };
        let _ = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    /// Begins a refill: after this, who leaves something out says so.
    pub(super) fn begin_refill(&self, homes: &Array<AtomicU64>) -> State {
        // Counted: two refills must not take each other's state for their own.
        let next = |state: u64| {
            let refills = (state + State::REFILL) & State::REFILLS_MASK;
            let others = state & !(State::REFILLS_MASK | State::DROPPED);
            others | refills | State::REFILLING
        };
        let before = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| Some(next(state)))
            .unwrap_or_else(|state| state);
        // Not what the state is by now: were something dropped meanwhile, that would be taken for part of it, and
        // what is dropped later not be noticed.
        let state = State(next(before));
        // A writer that did not see this has ended before its home can be locked.
        for home in 0..HOMES {
            drop(Locked::wait(homes.get(home)));
        }
        state
    }

    /// Ends the refill that began with `state`, for which everything was found room if `has_all`; whether the
    /// table is full-loaded now.
    pub(super) fn end_refill(&self, begun: State, has_all: bool) -> bool {
        let full = begun.0 & !(State::REFILLING | State::OVERFLOW);
        if has_all
            && self
                .state
                .compare_exchange(begun.0, full, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
        {
            return true;
        }
        self.state.fetch_and(!State::REFILLING, Ordering::SeqCst);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (Cache<u64, u64>, Array<AtomicU64>) {
        let cache = Cache::new(0, 16, 2).unwrap().unwrap();
        (cache, Array::reserve(HOMES, HOMES).unwrap())
    }

    /// What was dropped during one refill is missing after it, whoever begins another one meanwhile.
    #[test]
    fn a_refill_does_not_forget_what_another_one_was_told() {
        let (cache, homes) = cache();
        let first = cache.begin_refill(&homes);
        cache.leave_out();
        let second = cache.begin_refill(&homes);
        assert!(!cache.end_refill(first, true), "something was left out");
        assert!(!cache.state().is_full_loaded());
        // The first one's end has ended both.
        assert!(!cache.end_refill(second, true));
        let third = cache.begin_refill(&homes);
        assert!(cache.end_refill(third, true) && cache.state().is_full_loaded());
        cache.leave_out();
        assert!(!cache.state().is_full_loaded());
    }

    /// Who has read the state before the table began anew takes nothing out of it.
    #[test]
    fn entries_outlive_who_has_an_older_state() {
        let (cache, _) = cache();
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
}
