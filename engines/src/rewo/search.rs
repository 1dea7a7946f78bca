//! Search: algorithms 1 and 2 (section 3.3).

use super::batch::Known;
use super::cache::{Answer, Cache};
use super::fast::Two;
use super::layout::{LOCK, Locked, WRITING};
use super::{CACHE_ABSENT, CACHE_HITS, CACHE_MISSES, Core};
use crate::kit::doubling::{Doubles, Hash, SPAN_MAX, slots_in};
use index::Fixed;
use pmem::Medium;
use pmem::sync::{Ordering, fence, thread_index};

/// Where a key was found.
pub(super) struct Found<V> {
    pub(super) bucket: u64,
    pub(super) slot: usize,
    pub(super) value: V,
    /// The bucket's state then, perhaps with the lock.
    pub(super) state: u64,
}

/// What one bucket says of a key: where it is and the value, and the bucket's state.
type Probe<V> = (Option<(usize, V)>, u64);

/// Most buckets that a search probes.
const PROBES_MAX: usize = 2 * (SPAN_MAX as usize + 1);

/// Misses of a thread of which one replaces another pair in the cached table.
const MISSES_PER_REPLACEMENT: u64 = 4;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// First in the cached table, and in the persistent one only if that cannot tell.
    #[inline(never)]
    pub(super) fn get_cached(&self, cache: &Cache<K, V>, key: K, hash: Hash) -> Option<V> {
        let two = self.two(hash);
        if let Some(two) = &two {
            // Read only after a miss, but then they arrive while the cached table is searched.
            self.prefetch_records(two);
        }
        match self.ask_cache(cache, key, hash) {
            Some(answer) => answer,
            None => self.miss(cache, key, hash, two),
        }
    }

    /// What the cached table says of a key; `None`: the persistent one knows.
    #[inline(always)]
    pub(super) fn ask_cache(&self, cache: &Cache<K, V>, key: K, hash: Hash) -> Option<Option<V>> {
        let (word, found) = match cache.search(key, hash) {
            Answer::Hit(value) => (CACHE_HITS, Some(value)),
            Answer::Absent => (CACHE_ABSENT, None),
            Answer::Unknown => return None,
        };
        self.tables.counts.add(thread_index(), word, 1);
        Some(found)
    }

    #[inline(never)]
    fn miss(&self, cache: &Cache<K, V>, key: K, hash: Hash, two: Option<Two>) -> Option<V> {
        let mut known = Known { hash, two, ..Known::default() };
        if let Some(two) = &known.two {
            known.seen = self.see(two);
            known.slots = self.slots_with(&known.seen, hash);
        }
        self.get_uncached(cache, key, &known)
    }

    /// Searches the persistent table. What is found there is cached; in place of another pair only now and then:
    /// pairs that are looked up often come to be cached all the same, and others seldom drop them.
    #[inline(always)]
    pub(super) fn get_uncached(&self, cache: &Cache<K, V>, key: K, known: &Known) -> Option<V> {
        let &Known { hash, ref two, ref seen, slots } = known;
        let misses = self.tables.counts.add(thread_index(), CACHE_MISSES, 1);
        let fast = two.as_ref().and_then(|two| self.find_fast(two, seen, slots, key));
        let found = fast.unwrap_or_else(|| self.find_slow(key, hash))?;
        if misses % MISSES_PER_REPLACEMENT == 1 || cache.has_room(hash) {
            self.fill_cache(cache, key, hash, &found);
        }
        Some(found.value)
    }

    /// Caches a key that was found in the persistent table, unless a writer of it is under way. What was found
    /// may be old by now. But under the home's lock it does not change, and if its bucket is as it was then, it
    /// is what is there: the pool need not be read again while others may wait.
    #[cold]
    #[inline(never)]
    pub(super) fn fill_cache(&self, cache: &Cache<K, V>, key: K, hash: Hash, found: &Found<V>) {
        let Some(_home) = Locked::attempt(self.homes.get(hash.home())) else { return };
        if self.state(found.bucket).load(Ordering::Acquire) == found.state & !LOCK {
            cache.insert(key, hash, found.value, |key| self.hash(key), Some(&self.homes));
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn get_slow(&self, key: K) -> Option<V> {
        self.find_slow(key, self.hash(key)).map(|found| found.value)
    }

    /// Finds a key, or that it was nowhere at one instant: none of the buckets looked at has changed since
    /// then, nor has the geometry. Both answers are durable.
    ///
    /// During a resize the key's former buckets come first (section 3.6): its item moves from there.
    #[cold]
    #[inline(never)]
    pub(super) fn find_slow(&self, key: K, hash: Hash) -> Option<Found<V>> {
        loop {
            let geometry = self.geometry();
            let mut seen = [(0, 0); PROBES_MAX];
            let mut count = 0;
            for log2 in geometry.places() {
                let pair = self.pair_among(log2, hash);
                for bucket in pair.into_iter().take(1 + usize::from(pair[0] != pair[1])) {
                    if seen[..count].iter().any(|&(other, _)| other == bucket) {
                        // The owner has not changed.
                        continue;
                    }
                    let (found, state) = self.probe(bucket, key, hash.print());
                    if let Some((slot, value)) = found {
                        return Some(Found { bucket, slot, value, state });
                    }
                    seen[count] = (bucket, state);
                    count += 1;
                }
            }
            fence(Ordering::Acquire);
            let is_same = |&(bucket, state): &(u64, u64)| {
                (self.state(bucket).load(Ordering::Relaxed) ^ state) & !LOCK == 0
            };
            if seen[..count].iter().all(is_same) && self.geometry() == geometry {
                return None;
            }
        }
    }

    /// What a bucket says of a key, at one instant and durably: its state did not change meanwhile.
    fn probe(&self, bucket: u64, key: K, print: u8) -> Probe<V> {
        let (medium, at) = (self.medium(), self.at(bucket));
        loop {
            let state = self.state(bucket).load(Ordering::Acquire);
            let has_print = self.has_print(bucket, key, print);
            // The bitmap decides: the key may be on its way out, or from one slot to another.
            let meta = if has_print { medium.load(at) } else { 0 };
            let slot = slots_in(self.bucket.bitmap(meta))
                .filter(|&slot| self.bucket.has_print(meta, slot, print))
                .find(|&slot| self.bucket.has_key(medium, at, slot, key));
            let found = slot.map(|slot| (slot, self.value(bucket, slot, state)));
            fence(Ordering::Acquire);
            let now = self.state(bucket).load(Ordering::Relaxed);
            if (now ^ state) & !LOCK != 0 {
                continue;
            }
            let Some((slot, value)) = found else {
                if has_print && now & LOCK != 0 {
                    // A removal that may not be durable yet.
                    medium.persist(at);
                }
                return (None, state);
            };
            let Some(value) = value else { continue };
            if now & LOCK != 0 {
                self.flush_beyond(at, slot);
                medium.persist(at);
            }
            return (Some((slot, value)), state);
        }
    }

    /// Whether a bucket shows the key, be it in a slot that it is just leaving. If not, no search reports
    /// it: what one of them does, the others must.
    fn has_print(&self, bucket: u64, key: K, print: u8) -> bool {
        let shown = self.bucket.slots_with(self.prints(bucket), print);
        let has_key = |slot| self.bucket.has_key(self.medium(), self.at(bucket), slot, key);
        !self.shape.design.sidecar_prints || slots_in(shown).any(has_key)
    }

    /// The value in a slot. One that is being overwritten is read from the log, where it is, and durable,
    /// for as long as the state says so; `None` if that has just ended. The caller looks at the state again.
    fn value(&self, bucket: u64, slot: usize, state: u64) -> Option<V> {
        if state & WRITING == 0 {
            return Some(self.bucket.value(self.medium(), self.at(bucket), slot));
        }
        match self.log.update_of(self.medium(), 0, bucket) {
            Some((logged, value)) if logged == slot => Some(value),
            Some(_) => Some(self.bucket.value(self.medium(), self.at(bucket), slot)),
            None => None,
        }
    }
}
