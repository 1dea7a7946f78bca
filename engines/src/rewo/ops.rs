//! Insertion, update and deletion: algorithms 3 to 5 (section 3.4), and the eviction that they end in.

use super::Core;
use super::bucket::Unfenced;
use super::layout::{Bucket, Locked, VERSION, WRITING};
use super::search::Found;
use crate::kit::doubling::{Doubles, Geometry, Hash, Placed, slots_in};
use crate::kit::log::Entry;
use crate::kit::mutation::Likely;
use index::{Change, Error, Fixed, is_same};
use pmem::Medium;
use pmem::sync::{Ordering, fence, spin};

/// Buckets that an eviction looks at for room, at most: each may be a miss of the caches.
const LOOKS_MAX: u32 = 128;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state before. `decide` may be
    /// called several times. `likely`: what it is expected to do.
    #[cold]
    #[inline(never)]
    pub(super) fn mutate_slow<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        key: K,
        mut likely: Likely,
        decide: &dyn Fn(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error> {
        let hash = self.hash(key);
        let mut retries = 0;
        loop {
            // An absence lasts only while nobody else may insert this key. (The slots' locks of the paper do
            // not do for that: two insertions of one key may go to different slots.)
            let home = (likely == Likely::Inserts || self.cache.is_some())
                .then(|| unfenced.lock_home(hash));
            if let Some(Found { bucket, slot, .. }) = self.find_slow(key, hash) {
                match self.change(unfenced, home, (bucket, slot), key, hash, decide) {
                    Some(value) => return Ok(Some(value)),
                    None => spin(&mut retries),
                }
                continue;
            }
            let Change::Put(value) = decide(None) else { return Ok(None) };
            if home.is_none() {
                likely = Likely::Inserts;
                continue;
            }
            let geometry = self.geometry();
            match self.insert(unfenced, geometry, (key, value), hash) {
                Placed::Done => {
                    unfenced.end_change(home, 1, 0);
                    return Ok(None);
                }
                Placed::Stale => {}
                Placed::Busy => spin(&mut retries),
                Placed::NoRoom => {
                    drop(home);
                    unfenced.commit();
                    self.make_room(geometry, hash)?;
                    // Another thread may be at it.
                    spin(&mut retries);
                }
            }
        }
    }

    /// Does what `decide` says of the value in a slot, and returns the value; `None`: the key is no
    /// longer there.
    #[inline(always)]
    pub(super) fn change<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        home: Option<Locked<'a>>,
        (bucket, slot): (u64, usize),
        key: K,
        hash: Hash,
        decide: &(impl Fn(Option<V>) -> Change<V> + ?Sized),
    ) -> Option<V> {
        let locked = unfenced.lock(bucket);
        let at = self.at(bucket);
        let (found, value) = self.bucket.pair(self.medium(), at, slot);
        // Under the lock a fingerprint is shown if and only if the bit is set: the meta word, which may be in
        // another line, need not be read.
        if self.empty(bucket) & 1 << slot != 0 || !is_same(found, key) {
            return None;
        }
        match decide(Some(value)) {
            Change::Keep => {}
            Change::Put(new) => {
                self.update(unfenced, home, locked, (bucket, slot), (key, new), hash)
            }
            Change::Remove => {
                let busy = self.mark_busy(key, hash, false);
                unfenced.delete(bucket, locked, 1 << slot);
                unfenced.complete_with(busy, None);
                unfenced.end_change(home, 0, 1);
            }
        }
        Some(value)
    }

    /// Algorithm 3: into the emptier one of the key's buckets, or after an eviction.
    pub(super) fn insert<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        geometry: Geometry,
        item: (K, V),
        hash: Hash,
    ) -> Placed {
        let pair = self.pair_among(geometry.log2(), hash);
        for bucket in unfenced.not_held_first(self.emptier_first(pair)) {
            if self.empty(bucket) == 0 {
                continue;
            }
            let Some(locked) = unfenced.lock_under(geometry, bucket) else { return Placed::Stale };
            let empty = self.empty(bucket);
            if empty != 0 {
                let slot = empty.trailing_zeros() as usize;
                unfenced.insert((bucket, slot), locked, item, hash);
                return Placed::Done;
            }
        }
        if self.shape.design.evictions == 0 {
            return Placed::NoRoom;
        }
        // Else an item could not be moved to a bucket that is locked for a change before this one,
        // and a table that may not grow be called full.
        unfenced.commit();
        let mut is_busy = false;
        for bucket in pair {
            let Some(locked) = self.lock_under(geometry, bucket, || {}) else {
                return Placed::Stale;
            };
            // Another thread's removal may have made room.
            let empty = self.empty(bucket);
            let freed = if empty != 0 {
                Some(empty.trailing_zeros() as usize)
            } else {
                self.evict(geometry, bucket, None, &mut is_busy)
            };
            if let Some(slot) = freed {
                unfenced.insert((bucket, slot), locked, item, hash);
                return Placed::Done;
            }
        }
        if self.geometry() != geometry {
            // Evictions were given up for that.
            Placed::Stale
        } else if is_busy {
            Placed::Busy
        } else {
            Placed::NoRoom
        }
    }

    /// The empty slots of a bucket.
    #[inline(always)]
    pub(super) fn empty(&self, bucket: u64) -> u64 {
        self.bucket.empty(self.prints(bucket))
    }

    fn emptier_first(&self, [first, second]: [u64; 2]) -> [u64; 2] {
        if self.empty(second).count_ones() > self.empty(first).count_ones() {
            [second, first]
        } else {
            [first, second]
        }
    }

    /// Cuckoo eviction (section 3.4): moves an item of a full, locked bucket to its other bucket, if need be
    /// after an item of that has been moved to its own other bucket. Returns the slot that this frees, never
    /// `kept`. Sets `is_busy` if somebody else holds a bucket that may have room.
    #[cold]
    #[inline(never)]
    pub(super) fn evict(
        &self,
        geometry: Geometry,
        from: u64,
        kept: Option<usize>,
        is_busy: &mut bool,
    ) -> Option<usize> {
        let victims = self.bucket.full() & !kept.map_or(0, |slot| 1 << slot);
        let mut looks = 0;
        for slot in slots_in(victims) {
            for to in self.others(geometry, from, slot) {
                looks += 1;
                if let Some((locked, empty)) = self.try_room(geometry, to, is_busy)? {
                    self.move_item((from, slot), (to, empty));
                    drop(locked);
                    return Some(slot);
                }
            }
        }
        if self.shape.design.evictions < 2 {
            return None;
        }
        for slot in slots_in(victims) {
            for to in self.others(geometry, from, slot) {
                let Some(_locked) = Locked::attempt(self.state(to)) else {
                    *is_busy = true;
                    continue;
                };
                // As in `try_room`.
                if self.geometry() != geometry {
                    return None;
                }
                if self.empty(to) != 0 {
                    // A removal has made room meanwhile: all begins again.
                    *is_busy = true;
                    continue;
                }
                for second in slots_in(self.bucket.full()) {
                    for beyond in self.others(geometry, to, second) {
                        looks += 1;
                        if looks > LOOKS_MAX {
                            return None;
                        }
                        if beyond == from {
                            continue;
                        }
                        if let Some((locked, empty)) = self.try_room(geometry, beyond, is_busy)? {
                            self.move_item((to, second), (beyond, empty));
                            drop(locked);
                            self.move_item((from, slot), (to, second));
                            return Some(slot);
                        }
                    }
                }
            }
        }
        None
    }

    /// The buckets to which the item in a slot may be moved.
    fn others(
        &self,
        geometry: Geometry,
        bucket: u64,
        slot: usize,
    ) -> impl Iterator<Item = u64> + use<M, K, V> {
        let key = self.bucket.key(self.medium(), self.at(bucket), slot);
        let [first, second] = self.pair_among(geometry.log2(), self.hash(key));
        let is_one = first == second;
        [first, second].into_iter().take(if is_one { 1 } else { 2 }).filter(move |&to| to != bucket)
    }

    /// An empty slot of a bucket, and the bucket's lock, if it has one. `None`: the geometry has changed.
    ///
    /// The lock is only tried: its holder may be waiting for a bucket that is held here.
    fn try_room(
        &self,
        geometry: Geometry,
        bucket: u64,
        is_busy: &mut bool,
    ) -> Option<Option<(Locked<'_>, usize)>> {
        if self.empty(bucket) == 0 {
            return Some(None);
        }
        let Some(locked) = Locked::attempt(self.state(bucket)) else {
            *is_busy = true;
            return Some(None);
        };
        if self.geometry() != geometry {
            // The bucket may have been emptied for good.
            return None;
        }
        let empty = self.empty(bucket);
        Some((empty != 0).then(|| (locked, empty.trailing_zeros() as usize)))
    }

    /// Moves an item from one locked bucket to another. Its lock bit is durable before the copy is begun: a
    /// crash may leave the item twice, and recovery looks at locked slots only. The copy stays locked until the
    /// deletion is durable: else somebody could change it, and a crash bring back what stood here.
    fn move_item(&self, (from, slot): (u64, usize), (to, empty): (u64, usize)) {
        let medium = self.medium();
        let (key, value) = self.bucket.pair(medium, self.at(from), slot);
        self.set_meta(from, self.bucket.lock_bits(1 << slot));
        self.put_locked(to, empty, (key, value), self.hash(key).print());
        self.tell_scans(key, from, to);
        self.delete_slots(from, 1 << slot, self.bucket.lock_bits(1 << slot));
    }

    /// Algorithm 4, the bucket being locked: in place if one word is all that changes; else into an empty slot
    /// of the bucket, which an eviction may have to make. If there is none to be made, over the old value, with
    /// the new one in the log.
    #[inline(always)]
    fn update<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        home: Option<Locked<'a>>,
        locked: Locked<'a>,
        (bucket, slot): (u64, usize),
        item: (K, V),
        hash: Hash,
    ) {
        let (medium, at) = (self.medium(), self.at(bucket));
        let busy = self.mark_busy(item.0, hash, false);
        if self.shape.design.in_place_update
            && let Some(at) = self.bucket.value_word(at, slot)
        {
            // A reader that sees the value sees the lock.
            fence(Ordering::Release);
            medium.store(at, item.1.word(0));
            medium.flush(at);
            unfenced.overwritten(bucket, locked);
            unfenced.complete_with(busy, Some(item.1));
            unfenced.end_change(home, 0, 0);
            return;
        }
        let empty = self.empty(bucket);
        let to = if empty != 0 {
            Some(empty.trailing_zeros() as usize)
        } else {
            self.evict(self.geometry(), bucket, Some(slot), &mut false)
        };
        match to {
            Some(to) => {
                unfenced.put((bucket, to), locked, item, hash, 1 << slot);
                unfenced.complete_with(busy, Some(item.1));
                unfenced.end_change(home, 0, 0);
            }
            None => {
                self.update_logged(bucket, slot, item);
                if let (Some(cache), Some(busy)) = (&self.cache, busy) {
                    cache.complete(busy, Some(item.1));
                }
            }
        }
    }

    #[cold]
    fn update_logged(&self, bucket: u64, slot: usize, (key, value): (K, V)) {
        let (medium, at) = (self.medium(), self.at(bucket));
        let entry = self.log.write(medium, &Entry::update(0, bucket, slot, value));
        // From here on recovery ends the update, so a reader may report the new value.
        let state = self.state(bucket);
        let before = state.load(Ordering::Relaxed);
        state.store(before | WRITING, Ordering::Release);
        // A thread that sees the value also sees that it is being written.
        fence(Ordering::Release);
        self.bucket.fill(medium, at, slot, (key, value));
        medium.flush_range(at.add(self.bucket.item_at(slot)), Bucket::<K, V>::item_bytes());
        medium.fence();
        state.store(before.wrapping_add(VERSION), Ordering::Release);
        // Before the lock is given back: recovery must not do it again over a later value.
        self.log.erase(medium, entry);
    }
}
