//! Insertion, update and deletion (algorithms 3 to 5, section 3.4) as the kit asks for them: where an item goes, the
//! eviction that insertions and updates end in, and the one word by which a change is committed.

use super::Core;
use super::cache::Busy;
use super::layout::{BUCKET_BYTES, Bucket, LOCK, STATE, VERSION, state_and_prints};
use crate::kit::ahead::Known;
use crate::kit::buckets::{Buckets, Located, Locked};
use crate::kit::change::Mutate;
use crate::kit::doubling::{
    Change, Doubles, Geometry, Two, TwoSeen, buckets_of_doubling, operations_of_doubling,
};
use crate::kit::hash::{Hash, slots_in};
use crate::kit::mutation::Likely;
use crate::kit::operations::{Operations, Placed};
use crate::kit::paths::mutate_alone;
use crate::kit::search::{Search, get_each};
use crate::kit::shared::Shared;
use crate::kit::unfenced::Unfenced;
use index::{Error, Fixed, is_same};
use pmem::sync::{AtomicU64, Ordering};
use pmem::{Medium, Offset};
use std::ops::Range;

/// Buckets that an eviction looks at for room, at most: each may be a miss of the caches.
const LOOKS_MAX: u32 = 128;
/// Where the slots of the second bucket begin in a mask of both.
const SECOND: u32 = 16;

impl<M: Medium, K: Fixed, V: Fixed> Buckets for Core<M, K, V> {
    buckets_of_doubling!([u64; 2]);

    type Spot = usize;
    type Copied = u64;
    /// The busy entry of the cached table, and its value when the change is durable.
    type Aside = Option<(Busy, Option<V>)>;

    const NOTHING_ASIDE: Self::Aside = None;

    #[inline(always)]
    fn next_version(state: u64) -> u64 {
        state.wrapping_add(VERSION)
    }

    fn look_in(
        &self,
        bucket: u64,
        _state: u64,
        key: K,
        hash: Hash,
        _is_first: bool,
    ) -> (Option<usize>, u64) {
        self.look_for(bucket, key, hash.print())
    }

    fn value_in(&self, bucket: u64, slot: usize) -> V {
        self.bucket.value(self.medium(), self.at(bucket), slot)
    }

    fn persist_item(&self, bucket: u64, slot: usize) {
        self.flush_beyond(self.at(bucket), slot);
        self.medium().persist(self.at(bucket));
    }

    fn persist_absence(&self, bucket: u64, shown: u64) {
        if shown != 0 {
            self.medium().persist(self.at(bucket));
        }
    }

    fn in_log(bucket: u64, slot: usize) -> (u32, u64, usize) {
        (0, bucket, slot)
    }

    fn used(&self, bucket: u64) -> u64 {
        self.bucket.bitmap(self.medium().load(self.at(bucket)))
    }

    #[inline(always)]
    fn slots_with(&self, seen: &Self::Seen, hash: Hash) -> u32 {
        let print = hash.print();
        let first = self.bucket.slots_with(seen.prints[0], print) as u32;
        first | (self.bucket.slots_with(seen.prints[1], print) as u32) << SECOND
    }

    #[inline(always)]
    fn nth_slot(bit: u32) -> (usize, usize) {
        ((bit / SECOND) as usize, (bit % SECOND) as usize)
    }

    #[inline(always)]
    fn spot(slot: usize) -> usize {
        slot
    }

    #[inline(always)]
    fn room(&self, seen: &Self::Seen) -> Option<(usize, usize)> {
        let empty = [self.bucket.empty(seen.prints[0]), self.bucket.empty(seen.prints[1])];
        let nth = usize::from(empty[1].count_ones() > empty[0].count_ones());
        (empty[nth] != 0).then(|| (nth, empty[nth].trailing_zeros() as usize))
    }

    /// With the meta word.
    #[inline(always)]
    fn prefetch_slot(&self, at: Offset, slot: usize) {
        self.medium().prefetch_write(at);
        let beyond = self.bucket.beyond_meta(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at.add(beyond.start));
        }
    }

    #[inline(always)]
    fn prefetch_likely(&self, two: &Two, seen: &Self::Seen, slots: u32, likely: Likely) {
        if slots != 0 {
            let (nth, slot) = Self::nth_slot(slots.trailing_zeros());
            let at = self.at(two.buckets[nth]);
            if self.changes_meta(likely) {
                self.prefetch_slot(at, slot);
            } else {
                self.medium().prefetch_write(at.add(self.bucket.item_at(slot)));
            }
        } else if likely == Likely::Inserts
            && let Some((nth, slot)) = self.room(seen)
        {
            self.prefetch_slot(self.at(two.buckets[nth]), slot);
        }
    }

    #[inline(always)]
    fn prefetch_aside(&self, hash: Hash, likely: Likely) {
        if likely != Likely::Inserts
            && let Some(cache) = &self.cache
        {
            // An entry of a key that changes is marked before the change.
            cache.prefetch(hash);
        }
    }

    #[inline(always)]
    fn value_if_there(
        &self,
        Located { bucket, at }: Located<u64>,
        slot: usize,
        key: K,
    ) -> Option<V> {
        let (found, value) = self.item(at, slot);
        // Under the lock a fingerprint is shown if and only if the bit is set: the meta word, which may be in
        // another line, need not be read.
        (self.empty(bucket) & 1 << slot == 0 && is_same(found, key)).then_some(value)
    }

    #[inline(always)]
    fn fill(
        &self,
        Located { bucket, at }: Located<u64>,
        slot: usize,
        item: (K, V),
        hash: Hash,
        clear: u64,
    ) -> Change {
        let is_beyond = self.store_item(at, slot, item);
        Change { bucket, slot, print: hash.print(), clear, is_beyond, besides: () }
    }

    #[inline(always)]
    fn commit(&self, at: Offset, change: &Change) {
        self.commit_meta(at, change);
    }

    /// Log-free atomic deletion (algorithm 5).
    #[inline(always)]
    fn erase(&self, Located { bucket, at }: Located<u64>, slot: usize) -> Change {
        let change = Change { bucket, clear: 1 << slot, ..Change::default() };
        self.commit_meta(at, &change);
        change
    }

    #[inline(always)]
    fn value_word(&self, at: Offset, slot: usize) -> Option<Offset> {
        let word = self.bucket.value_word(at, slot);
        word.filter(|_| self.shape.design.in_place_update)
    }

    /// Log-free atomic update (algorithm 4, lines 16 to 24), perhaps after an eviction.
    #[inline(always)]
    fn slot_for_update(&self, bucket: u64, slot: usize) -> Option<(usize, u64)> {
        let to = self
            .empty_slot(bucket)
            .or_else(|| self.evict(self.geometry(), bucket, Some(slot), &mut false))?;
        Some((to, 1 << slot))
    }

    fn overwrite(&self, bucket: u64, slot: usize, item: (K, V)) {
        let (medium, at) = (self.medium(), self.at(bucket));
        self.bucket.fill(medium, at, slot, item);
        medium.flush_range(at.add(self.bucket.item_at(slot)), Bucket::<K, V>::item_bytes());
        medium.fence();
    }

    #[inline(always)]
    fn show(&self, change: &mut Change) {
        self.show_of(change);
        if self.cache.is_some() && change.print == 0 && change.clear == 0 {
            // Overwritten in place: a thread that has read the old value must not cache it.
            self.new_version(change.bucket);
        }
        let state = self.state(change.bucket);
        state.store(state.load(Ordering::Relaxed) & !LOCK, Ordering::Release);
    }

    #[inline(always)]
    fn add_copied(copied: &mut u64, slot: usize) {
        *copied |= 1 << slot;
    }

    fn delete_copied(&self, source: u64, copied: u64) {
        self.delete_slots(source, copied, 0);
    }

    /// Fills of the cached table and changes of its entries exclude each other.
    #[inline(always)]
    fn locks_all_homes(&self) -> bool {
        self.cache.is_some()
    }

    #[inline(always)]
    fn begin_aside(&self, key: K, hash: Hash, appears: bool, then: Option<V>) -> Self::Aside {
        let busy = self.cache.as_ref()?.mark_busy(key, hash, appears)?;
        Some((busy, then))
    }

    #[inline(always)]
    fn end_aside(&self, aside: Self::Aside) {
        if let Some(cache) = &self.cache
            && let Some((busy, value)) = aside
        {
            cache.complete(busy, value);
        }
    }

    fn items_of(&self, bucket: u64, items: &mut Vec<(K, V)>) {
        let at = self.at(bucket);
        items.extend(slots_in(self.used(bucket)).map(|slot| self.item(at, slot)));
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Operations for Core<M, K, V> {
    operations_of_doubling!();

    #[inline(always)]
    fn see_again(
        &self,
        two: &Two,
        known: &Known<Self>,
        likely: Likely,
    ) -> Option<(Self::Seen, u32)> {
        if known.slots != 0 && self.changes_meta(likely) {
            // Beside the item, which may be in another line.
            let (nth, _) = Self::nth_slot(known.slots.trailing_zeros());
            self.medium().prefetch_write(self.at(two.buckets[nth]));
        }
        None
    }

    #[inline(always)]
    fn get(&self, key: K) -> Option<V> {
        match &self.cache {
            Some(cache) => self.get_cached(cache, key, self.hash(key)),
            None => self.get_from_buckets(key),
        }
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        match &self.cache {
            Some(cache) => self.get_many_cached(cache, keys, out),
            None => get_each(self, keys, out),
        }
    }

    /// Algorithm 3: into the emptier one of the key's buckets, or after an eviction.
    fn insert<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Geometry,
        item: (K, V),
        hash: Hash,
    ) -> Placed {
        let pair = self.pair_among(geometry.log2(), hash);
        match self.insert_into_emptier(unfenced, geometry, pair, item, hash) {
            Placed::NoRoom if self.shape.design.evictions > 0 => {
                self.insert_moving(unfenced, geometry, item, hash)
            }
            placed => placed,
        }
    }

    fn free_slot(
        &self,
        geometry: Geometry,
        bucket: u64,
        (): (),
        is_busy: &mut bool,
    ) -> Option<(usize, Option<Locked<'_>>)> {
        self.evict(geometry, bucket, None, is_busy).map(|slot| (slot, None))
    }

    #[inline(always)]
    fn mutate_alone(
        &self,
        key: K,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> index::Change<V>,
    ) -> Option<Option<V>> {
        mutate_alone(self, key, likely, decide)
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Whether the meta word is written when a key is found.
    #[inline(always)]
    fn changes_meta(&self, likely: Likely) -> bool {
        let overwrites = const { V::BYTES == 8 } && self.shape.design.in_place_update;
        match likely {
            Likely::Inserts => false,
            Likely::Updates => !overwrites,
            Likely::Removes => true,
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
}
