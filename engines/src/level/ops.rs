//! Deletion, insertion and update: algorithms 2 to 4 (section 4).

use super::Core;
use super::bucket::Unfenced;
use super::geometry::Geometry;
use super::layout::{BucketId, Hash, Locked, WRITING, next_version};
use super::search::Found;
use crate::kit::log::Entry;
use crate::kit::mutation::Likely;
use index::{Change, Error, Fixed, is_same};
use pmem::sync::{Ordering, fence, spin};
use pmem::{Medium, Offset};

/// How the attempt to place an item ended.
pub(super) enum Placed {
    Done,
    /// The geometry has changed.
    Stale,
    /// Neither its buckets have room nor could any be made.
    NoRoom,
    /// As [`Placed::NoRoom`], but somebody held a bucket to which an item could have been moved.
    Busy,
}

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
            // An absence lasts only while nobody else may insert this key. (The buckets' locks do
            // not do for that: two insertions of one key may go to different buckets.)
            let stripe = (likely == Likely::Inserts).then(|| unfenced.lock_stripe(hash.stripe()));
            if let Some(Found { bucket, slot, .. }) = self.find_slow(key, hash) {
                match self.change(unfenced, stripe, (bucket, slot), key, hash, decide) {
                    Some(value) => return Ok(Some(value)),
                    None => spin(&mut retries),
                }
                continue;
            }
            let Change::Put(value) = decide(None) else { return Ok(None) };
            if stripe.is_none() {
                likely = Likely::Inserts;
                continue;
            }
            let geometry = self.geometry();
            match self.insert(unfenced, geometry, key, value, hash) {
                Placed::Done => {
                    unfenced.end_change(stripe, 1, 0);
                    return Ok(None);
                }
                Placed::Stale => {}
                Placed::Busy => spin(&mut retries),
                Placed::NoRoom => {
                    drop(stripe);
                    unfenced.commit();
                    self.make_room(geometry)?;
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
        stripe: Option<Locked<'a>>,
        (bucket, slot): (BucketId, usize),
        key: K,
        hash: Hash,
        decide: &(impl Fn(Option<V>) -> Change<V> + ?Sized),
    ) -> Option<V> {
        let locked = unfenced.lock(bucket);
        let at = self.at(bucket);
        let (found, value) = self.bucket.pair(self.medium(), at, slot);
        if self.tokens(at) & 1 << slot == 0 || !is_same(found, key) {
            return None;
        }
        match decide(Some(value)) {
            Change::Keep => {}
            Change::Put(new) => {
                if let Some(word) = self.update(bucket, slot, key, new, hash) {
                    unfenced.push(bucket, locked, word);
                    unfenced.end_change(stripe, 0, 0);
                }
            }
            Change::Remove => {
                let word = self.delete(bucket, at, slot);
                unfenced.push(bucket, locked, word);
                self.count_at(bucket.level, -1);
                unfenced.end_change(stripe, 0, 1);
            }
        }
        Some(value)
    }

    /// Algorithm 2, the bucket being locked. Returns what the bucket's word becomes after a fence that
    /// is still to come.
    #[inline(always)]
    fn delete(&self, bucket: BucketId, at: Offset, slot: usize) -> u64 {
        self.show(at, 0, 1 << slot);
        let word = self.word(bucket).load(Ordering::Relaxed);
        next_version(self.bucket.without(word, slot))
    }

    /// Algorithm 3: into the less-loaded top bucket, then the less-loaded bottom bucket, then by
    /// at most one movement.
    pub(super) fn insert<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        geometry: Geometry,
        key: K,
        value: V,
        hash: Hash,
    ) -> Placed {
        let top = self.candidates(geometry.top(), hash);
        let bottom = self.candidates(geometry.bottom(), hash);
        let levels = if self.shape.design.two_levels { 2 } else { 1 };
        for candidates in [top, bottom].into_iter().take(levels) {
            for bucket in self.less_loaded_first(candidates) {
                let word = self.word(bucket).load(Ordering::Relaxed);
                let Some(slot) = self.bucket.empty_slot(word) else { continue };
                // While the lock is taken.
                let at = self.at(bucket);
                self.medium().prefetch_write(at.add(self.bucket.item_at(slot)));
                let Some(locked) = unfenced.lock_under(geometry, bucket) else {
                    return Placed::Stale;
                };
                let word = self.word(bucket).load(Ordering::Relaxed);
                if let Some(slot) = self.bucket.empty_slot(word) {
                    self.insert_into(unfenced, (bucket, slot), locked, (key, value), hash);
                    return Placed::Done;
                }
            }
        }
        if !self.shape.design.movement {
            return Placed::NoRoom;
        }
        // Else an item could not be moved to a bucket that is locked for a change before this one,
        // and a table that may not grow be called full.
        unfenced.commit();
        match self.try_movement(geometry, hash) {
            Ok((bucket, slot, locked)) => {
                self.insert_into(unfenced, (bucket, slot), locked, (key, value), hash);
                Placed::Done
            }
            Err(placed) => placed,
        }
    }

    /// Inserts an item into an empty slot of a locked bucket.
    fn insert_into<'a, const MOST: usize>(
        &self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        (bucket, slot): (BucketId, usize),
        locked: Locked<'a>,
        item: (K, V),
        hash: Hash,
    ) {
        let word = self.word(bucket).load(Ordering::Relaxed);
        let word = next_version(self.bucket.with(word, slot, self.print(hash)));
        unfenced.insert((bucket, self.at(bucket), slot), locked, item, word);
        self.count_at(bucket.level, 1);
    }

    fn less_loaded_first(&self, [first, second]: [BucketId; 2]) -> [BucketId; 2] {
        let load = |bucket| self.bucket.count(self.word(bucket).load(Ordering::Relaxed));
        if load(first) > load(second) { [second, first] } else { [first, second] }
    }

    /// TryMovement: moves an item of one of the key's full buckets to its other bucket in that
    /// level, or from the bottom level to the top one. Returns the slot that this empties, its bucket
    /// locked.
    #[cold]
    #[inline(never)]
    fn try_movement(
        &self,
        geometry: Geometry,
        hash: Hash,
    ) -> Result<(BucketId, usize, Locked<'_>), Placed> {
        let design = &self.shape.design;
        let (top, bottom) = (geometry.top(), geometry.bottom());
        let mut is_busy = false;
        let to_bottom = design.two_levels.then_some((bottom, bottom));
        let to_top = (design.two_levels && design.bottom_to_top).then_some((bottom, top));
        for (from_level, to_level) in [Some((top, top)), to_bottom, to_top].into_iter().flatten() {
            for from in self.candidates(from_level, hash) {
                let Some(locked) = self.lock_under(geometry, from, || {}) else {
                    return Err(Placed::Stale);
                };
                // Another thread's removal may have made room.
                let empty = self.bucket.empty_slot(self.word(from).load(Ordering::Relaxed));
                let freed = empty.or_else(|| self.move_one(geometry, from, to_level, &mut is_busy));
                if let Some(slot) = freed {
                    return Ok((from, slot, locked));
                }
            }
        }
        Err(if is_busy { Placed::Busy } else { Placed::NoRoom })
    }

    /// Moves an item of a locked bucket to another of its buckets, in `to_level`; returns the slot
    /// that this frees. Sets `is_busy` if somebody else holds one that has room.
    pub(super) fn move_one(
        &self,
        geometry: Geometry,
        from: BucketId,
        to_level: u32,
        is_busy: &mut bool,
    ) -> Option<usize> {
        let (medium, from_at) = (self.medium(), self.at(from));
        for slot in 0..self.bucket.slots as usize {
            let key = self.bucket.key(medium, from_at, slot);
            let hash = self.hash(key);
            for to in self.candidates(to_level, hash) {
                let has_room =
                    |to| self.bucket.empty_slot(self.word(to).load(Ordering::Relaxed)).is_some();
                if to == from || !has_room(to) {
                    continue;
                }
                // Only tried: its holder may be waiting for the one held here.
                let Some(_locked) = Locked::attempt(self.word(to)) else {
                    *is_busy = true;
                    continue;
                };
                if self.geometry() != geometry {
                    // Its level may have become interim, and this bucket been emptied for good.
                    return None;
                }
                let word = self.word(to).load(Ordering::Relaxed);
                let Some(empty) = self.bucket.empty_slot(word) else { continue };
                let value = self.bucket.value(medium, from_at, slot);
                // A crash between copy and deletion leaves the item twice; recovery looks here.
                let _entry =
                    self.log.write(medium, &Entry::<V>::movement(from.level, from.index(), slot));
                self.fill(self.at(to), empty, key, value, 0);
                medium.fence();
                self.set_word(to, next_version(self.bucket.with(word, empty, self.print(hash))));
                self.tell_scans(key, from, to);
                self.delete_slots(from, 1 << slot);
                self.count_at(from.level, -1);
                self.count_at(to.level, 1);
                return Some(slot);
            }
        }
        None
    }

    /// Algorithm 4, the bucket being locked: in place if one word is all that changes, else
    /// log-free into an empty slot, else over the old value, with the new one in the log. Returns
    /// what the bucket's word becomes after a fence that is still to come; `None`: all is done.
    #[inline(always)]
    fn update(&self, bucket: BucketId, slot: usize, key: K, value: V, hash: Hash) -> Option<u64> {
        let (medium, at) = (self.medium(), self.at(bucket));
        let word = self.word(bucket).load(Ordering::Relaxed);
        let design = &self.shape.design;
        if design.in_place_update
            && let Some(at) = self.bucket.value_word(at, slot)
        {
            // A reader that sees the value sees the lock.
            fence(Ordering::Release);
            medium.store(at, value.word(0));
            medium.flush(at);
            return Some(word);
        }
        if design.log_free_update
            && let Some(empty) = self.bucket.empty_slot(word)
        {
            self.fill(at, empty, key, value, 1 << slot);
            // One version, not one for each slot: none may be skipped, or coming around would be
            // missed.
            let word = self.bucket.without(word, slot);
            return Some(next_version(self.bucket.with(word, empty, self.print(hash))));
        }
        self.update_logged(bucket, slot, value);
        None
    }

    #[cold]
    fn update_logged(&self, bucket: BucketId, slot: usize, value: V) {
        let (medium, at) = (self.medium(), self.at(bucket));
        let entry =
            self.log.write(medium, &Entry::update(bucket.level, bucket.index(), slot, value));
        // From here on recovery ends the update, so a reader may report the new value.
        let word = self.word(bucket).load(Ordering::Relaxed);
        self.set_word(bucket, word | WRITING);
        // A thread that sees the value also sees that it is being written.
        fence(Ordering::Release);
        self.bucket.fill_value(medium, at, slot, value);
        self.flush_item(at, slot);
        medium.fence();
        self.set_word(bucket, next_version(word));
        // Before the lock is given back: recovery must not do it again over a later value.
        self.log.erase(medium, entry);
    }
}
