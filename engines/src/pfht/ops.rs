//! Insertion, update and deletion (section 4.2), and the displacement that insertions come to.

use super::Core;
use super::bucket::Unfenced;
use super::layout::{BUCKET_BYTES, Bucket, LOCK, Locked, WRITING, with_new_version};
use super::search::{Found, Spot};
use super::stash::Stash;
use crate::kit::doubling::{Doubles, Geometry, Hash, Placed, slots_in};
use crate::kit::log::Entry;
use crate::kit::mutation::Likely;
use index::{Change, Error, Fixed, is_same};
use pmem::Medium;
use pmem::sync::{Ordering, fence, spin};

/// What an insertion finds out of a full bucket.
enum Displaced<'a> {
    /// An item went to its other bucket, which is locked still: this slot is empty.
    Room(usize, Locked<'a>),
    No,
    /// As [`Displaced::No`], but somebody held a bucket that may have room.
    Busy,
    Stale,
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
            // An absence lasts only while nobody else may insert this key: two insertions of one key may go to
            // different slots.
            let home = (likely == Likely::Inserts).then(|| unfenced.lock_home(hash));
            if let Some(Found { bucket, spot, .. }) = self.find_slow(key, hash) {
                match self.change(unfenced, home, (bucket, spot), key, decide) {
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
            match self.insert(unfenced, geometry, (key, value), hash, false) {
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

    /// Does what `decide` says of the value at a spot, and returns the value; `None`: the key is no longer there.
    #[inline(always)]
    pub(super) fn change<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        home: Option<Locked<'a>>,
        (bucket, spot): (u64, Spot),
        key: K,
        decide: &(impl Fn(Option<V>) -> Change<V> + ?Sized),
    ) -> Option<V> {
        let locked = unfenced.lock(bucket);
        let at = self.at(bucket);
        let value = match spot {
            Spot::Slot(slot) => {
                let (found, value) = self.bucket.pair(self.medium(), at, slot);
                // Under the lock a fingerprint is shown if and only if the slot is in use.
                let is_shown = self.bucket.empty(self.prints(bucket)) & 1 << slot == 0;
                (is_shown && is_same(found, key)).then_some(value)
            }
            Spot::Node(node) => self.value_of_node(bucket, node, key),
        }?;
        match decide(Some(value)) {
            Change::Keep => {}
            Change::Put(new) => {
                if self.update(unfenced, locked, (bucket, spot), (key, new)) {
                    unfenced.end_change(home, 0, 0);
                }
            }
            Change::Remove => {
                match spot {
                    Spot::Slot(slot) => unfenced.delete(bucket, locked, slot),
                    Spot::Node(node) => unfenced.unstash(bucket, locked, node),
                }
                unfenced.end_change(home, 0, 1);
            }
        }
        Some(value)
    }

    /// The value in a node, if it still belongs to the locked bucket and has this key.
    #[cold]
    fn value_of_node(&self, bucket: u64, node: u64, key: K) -> Option<V> {
        let (found, value) = self.stash.pair(self.medium(), node);
        (self.stash.nodes_of(bucket).contains(&node) && is_same(found, key)).then_some(value)
    }

    /// Insertion: into the emptier one of the key's buckets, after a displacement, or into the stash. `is_moved`: the
    /// item is in the table already. `Done`: the change is pushed, and to be ended.
    pub(super) fn insert<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        geometry: Geometry,
        item: (K, V),
        hash: Hash,
        is_moved: bool,
    ) -> Placed {
        let mut no_room = Placed::NoRoom;
        if Bucket::<K, V>::takes(item.0) {
            no_room = match self.insert_into_table(unfenced, geometry, item, hash) {
                placed @ (Placed::NoRoom | Placed::Busy) => placed,
                other => return other,
            };
        }
        let [first, _] = self.pair_among(geometry.log2(), hash);
        // An item that a resize moves has its place among others that are moved.
        if !is_moved && Bucket::<K, V>::takes(item.0) && self.stash.has_long_chain(first) {
            return no_room;
        }
        match self.insert_into_stash(unfenced, geometry, first, item) {
            Placed::NoRoom => no_room,
            other => other,
        }
    }

    /// Of that, into the main table.
    #[inline(always)]
    pub(super) fn insert_into_table<'a, const MOST: usize>(
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
                unfenced.put((bucket, slot), locked, item, hash, 0);
                return Placed::Done;
            }
        }
        if self.shape.design.displaces {
            return self.insert_displacing(unfenced, geometry, pair, item, hash);
        }
        Placed::NoRoom
    }

    #[cold]
    #[inline(never)]
    fn insert_displacing<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        geometry: Geometry,
        pair: [u64; 2],
        item: (K, V),
        hash: Hash,
    ) -> Placed {
        // Else an item could not be moved to a bucket that is locked for a change before this one.
        unfenced.commit();
        let mut no_room = Placed::NoRoom;
        for bucket in pair {
            let Some(locked) = self.lock_under(geometry, bucket, || {}) else {
                return Placed::Stale;
            };
            // Another thread's removal may have made room.
            let empty = self.empty(bucket);
            let (slot, displaced_to) = if empty != 0 {
                (empty.trailing_zeros() as usize, None)
            } else {
                match self.displace(geometry, bucket) {
                    Displaced::Room(slot, to) => (slot, Some(to)),
                    Displaced::No => continue,
                    Displaced::Busy => {
                        no_room = Placed::Busy;
                        continue;
                    }
                    Displaced::Stale => return Placed::Stale,
                }
            };
            unfenced.put((bucket, slot), locked, item, hash, 0);
            unfenced.hold(displaced_to);
            return Placed::Done;
        }
        no_room
    }

    #[cold]
    #[inline(never)]
    pub(super) fn insert_into_stash<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        geometry: Geometry,
        first: u64,
        item: (K, V),
    ) -> Placed {
        let Some(locked) = unfenced.lock_under(geometry, first) else { return Placed::Stale };
        let Some(node) = self.stash.take_node(Bucket::<K, V>::takes(item.0)) else {
            return Placed::NoRoom;
        };
        unfenced.stash(first, locked, node, item);
        Placed::Done
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

    /// Displacement: moves an item of a full, locked bucket to its other bucket, if that has room. That bucket's lock
    /// is only tried: its holder may be waiting for this one.
    fn displace(&self, geometry: Geometry, from: u64) -> Displaced<'_> {
        let medium = self.medium();
        let mut no_room = Displaced::No;
        for slot in slots_in(self.bucket.full()) {
            let item = self.bucket.pair(medium, self.at(from), slot);
            let hash = self.hash(item.0);
            for to in self.pair_among(geometry.log2(), hash) {
                if to == from || self.empty(to) == 0 {
                    continue;
                }
                let Some(locked) = Locked::attempt(self.state(to)) else {
                    no_room = Displaced::Busy;
                    continue;
                };
                if self.geometry() != geometry {
                    // The bucket may have been emptied for good.
                    return Displaced::Stale;
                }
                let empty = self.empty(to);
                if empty == 0 {
                    continue;
                }
                self.put_locked(to, empty.trailing_zeros() as usize, item, hash.print());
                self.tell_scans(item.0, from, to);
                self.empty_slot(from, slot);
                return Displaced::Room(slot, locked);
            }
        }
        no_room
    }

    /// Update: in place if one word is all that changes; else into an empty slot of the bucket, and one word shows
    /// that instead; else over the old value, with the new one in the log. The bucket is locked. Whether a change is
    /// pushed, which is to be ended.
    #[inline(always)]
    fn update<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, M, K, V, MOST>,
        locked: Locked<'a>,
        (bucket, spot): (u64, Spot),
        item: (K, V),
    ) -> bool {
        let (medium, at) = (self.medium(), self.at(bucket));
        let word = match spot {
            Spot::Slot(slot) => self.bucket.value_word(at, slot),
            Spot::Node(node) => self.stash.value_word(node),
        };
        if let Some(at) = word {
            // A reader that sees the value sees the lock.
            fence(Ordering::Release);
            medium.store(at, item.1.word(0));
            medium.flush(at);
            unfenced.overwritten(bucket, locked);
            return true;
        }
        let empty = self.empty(bucket);
        match spot {
            Spot::Slot(slot) if empty != 0 => {
                let to = empty.trailing_zeros() as usize;
                unfenced.put((bucket, to), locked, item, self.hash(item.0), 1 << slot);
                true
            }
            _ => {
                self.update_logged(bucket, spot, item);
                false
            }
        }
    }

    #[cold]
    fn update_logged(&self, bucket: u64, spot: Spot, (key, value): (K, V)) {
        let (level, slot) = spot.in_log();
        let entry = self.log.write(self.medium(), &Entry::update(level, bucket, slot, value));
        // From here on recovery ends the update, so a reader may report the new value.
        self.set_state(bucket, |state| state | WRITING);
        // A thread that sees the value also sees that it is being written.
        fence(Ordering::Release);
        self.overwrite(bucket, spot, (key, value));
        self.set_state(bucket, |state| with_new_version(state & !WRITING));
        // Before the lock is given back: recovery must not do it again over a later value.
        self.log.erase(self.medium(), entry);
        debug_assert!(self.state(bucket).load(Ordering::Relaxed) & LOCK != 0);
    }

    /// Stores a value where an item is, durably.
    pub(super) fn overwrite(&self, bucket: u64, spot: Spot, (key, value): (K, V)) {
        let (medium, at) = (self.medium(), self.at(bucket));
        match spot {
            Spot::Slot(slot) => {
                self.bucket.fill(medium, at, slot, (key, value));
                medium.flush_range(at, BUCKET_BYTES);
            }
            Spot::Node(node) => {
                self.stash.fill_value(medium, node, value);
                medium.flush_range(self.stash.at(node), Stash::<K, V>::node_bytes());
            }
        }
        medium.fence();
    }
}
