//! Search: algorithms 1 and 2 (section 3.3).

use super::cache::{Answer, Cache};
use super::layout::LOCK;
use super::{CACHE_ABSENT, CACHE_HITS, CACHE_MISSES, Core};
use crate::kit::ahead::{BATCH, Known};
use crate::kit::buckets::{Buckets, Locked};
use crate::kit::doubling::Two;
use crate::kit::hash::{Hash, slots_in};
use crate::kit::mutation::Likely;
use crate::kit::search::{Found, Search};
use index::Fixed;
use pmem::Medium;
use pmem::sync::{Ordering, thread_index};

/// Misses of a thread of which one replaces another pair in the cached table.
const MISSES_PER_REPLACEMENT: u64 = 4;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// First in the cached table, and in the persistent one only if that cannot tell.
    #[inline(never)]
    pub(super) fn get_cached(&self, cache: &Cache<K, V>, key: K, hash: Hash) -> Option<V> {
        let two = self.near(hash);
        if let Some(two) = &two {
            // Read only after a miss, but then they arrive while the cached table is searched.
            self.prefetch_states(two);
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
        let mut known = Known { hash, near: two, ..Known::default() };
        if let Some(two) = &known.near {
            known.seen = self.see(two);
            known.slots = self.slots_with(&known.seen, hash);
        }
        self.get_uncached(cache, key, &known)
    }

    /// Searches the persistent table. What is found there is cached; in place of another pair only now and then:
    /// pairs that are looked up often come to be cached all the same, and others seldom drop them.
    #[inline(always)]
    pub(super) fn get_uncached(
        &self,
        cache: &Cache<K, V>,
        key: K,
        known: &Known<Self>,
    ) -> Option<V> {
        let &Known { hash, near: ref two, ref seen, slots } = known;
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
    pub(super) fn fill_cache(&self, cache: &Cache<K, V>, key: K, hash: Hash, found: &Found<Self>) {
        let Some(_home) = Locked::attempt(self.shared.homes.get(hash.home())) else { return };
        if self.state(found.bucket).load(Ordering::Acquire) == found.state & !LOCK {
            cache.insert(key, hash, found.value, |key| self.hash(key), Some(&self.shared.homes));
        }
    }

    /// [`Core::get_cached`] of many keys.
    pub(super) fn get_many_cached(&self, cache: &Cache<K, V>, keys: &[K], out: &mut [Option<V>]) {
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let mut known = [Known::default(); BATCH];
            for (known, &key) in known.iter_mut().zip(keys) {
                known.foresee(self, key);
                cache.prefetch(known.hash);
            }
            let mut missed = 0;
            for (index, ((out, &key), known)) in
                out.iter_mut().zip(keys).zip(&mut known).enumerate()
            {
                match self.ask_cache(cache, key, known.hash) {
                    Some(answer) => *out = answer,
                    None => {
                        missed |= 1 << index;
                        known.look(self, Likely::Updates);
                    }
                }
            }
            for index in slots_in(missed) {
                out[index] = self.get_uncached(cache, keys[index], &known[index]);
            }
        }
    }

    /// In which slot of a bucket a key is, and on which slots an absence rests.
    pub(super) fn look_for(&self, bucket: u64, key: K, print: u8) -> (Option<usize>, u64) {
        let (medium, at) = (self.medium(), self.at(bucket));
        if !self.has_print(bucket, key, print) {
            return (None, 0);
        }
        // The bitmap decides: the key may be on its way out, or from one slot to another.
        let meta = medium.load(at);
        let slot = slots_in(self.bucket.bitmap(meta))
            .filter(|&slot| self.bucket.has_print(meta, slot, print))
            .find(|&slot| self.bucket.has_key(medium, at, slot, key));
        (slot, self.bucket.full())
    }

    /// Whether a bucket shows the key, be it in a slot that it is just leaving. If not, no search reports
    /// it: what one of them does, the others must.
    fn has_print(&self, bucket: u64, key: K, print: u8) -> bool {
        let shown = self.bucket.slots_with(self.prints(bucket), print);
        let has_key = |slot| self.bucket.has_key(self.medium(), self.at(bucket), slot, key);
        !self.shape.design.sidecar_prints || slots_in(shown).any(has_key)
    }
}
