//! Insertion, update and deletion (section 4.2) as the kit asks for them: where an item goes, the displacement that
//! insertions come to, and by which word a change is committed.

use super::Core;
use super::bucket::{Change, NodeChange};
use super::layout::{
    BUCKET_BYTES, Bucket, LOCK, SLOTS_MAX, STASHED, STATE, state_and_prints, with_new_version,
};
use super::search::Spot;
use super::stash::Stash;
use crate::kit::buckets::{Buckets, Located, Locked};
use crate::kit::change::Mutate;
use crate::kit::doubling::{
    Doubles, Geometry, Two, TwoSeen, buckets_of_doubling, operations_of_doubling,
};
use crate::kit::hash::{Hash, slots_in};
use crate::kit::mutation::Likely;
use crate::kit::operations::{Operations, Placed};
use crate::kit::shared::Shared;
use crate::kit::unfenced::Unfenced;
use index::{Error, Fixed, is_same};
use pmem::sync::{AtomicU64, Ordering};
use pmem::{Medium, Offset};
use std::ops::Range;

/// What a resize has copied out of a bucket: slots, and a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    slots: u64,
    node: Option<u64>,
}

impl<M: Medium, K: Fixed, V: Fixed> Buckets for Core<M, K, V> {
    buckets_of_doubling!(u64);

    type Spot = Spot;
    type Copied = Copied;
    type Aside = ();

    const NOTHING_ASIDE: () = ();
    const ERASES_KEYS: bool = true;

    #[inline(always)]
    fn next_version(state: u64) -> u64 {
        with_new_version(state)
    }

    fn look_in(
        &self,
        bucket: u64,
        state: u64,
        key: K,
        hash: Hash,
        is_first: bool,
    ) -> (Option<Spot>, u64) {
        self.look_for(bucket, state, key, hash, is_first)
    }

    fn value_in(&self, bucket: u64, spot: Spot) -> V {
        match spot {
            Spot::Slot(slot) => self.item(self.at(bucket), slot).1,
            Spot::Node(node) => self.stash.value(self.medium(), node),
        }
    }

    fn persist_item(&self, bucket: u64, spot: Spot) {
        match spot {
            Spot::Slot(slot) => {
                self.flush_beyond(self.at(bucket), slot);
                self.flush_use(self.at(bucket), slot);
            }
            Spot::Node(node) => {
                self.medium().flush_range(self.stash.at(node), Stash::<K, V>::node_bytes());
            }
        }
        self.medium().fence();
    }

    fn persist_absence(&self, bucket: u64, shown: u64) {
        slots_in(shown).for_each(|slot| self.flush_use(self.at(bucket), slot));
        self.medium().fence();
    }

    fn in_log(bucket: u64, spot: Spot) -> (u32, u64, usize) {
        let (level, slot) = spot.in_log();
        (level, bucket, slot)
    }

    fn used(&self, bucket: u64) -> u64 {
        self.bucket.bitmap(self.medium(), self.at(bucket))
    }

    #[inline(always)]
    fn slots_with(&self, seen: &Self::Seen, hash: Hash) -> u32 {
        self.bucket.slots_of_two_with(seen.prints, hash.print())
    }

    #[inline(always)]
    fn nth_slot(bit: u32) -> (usize, usize) {
        ((bit / SLOTS_MAX) as usize, (bit % SLOTS_MAX) as usize)
    }

    #[inline(always)]
    fn spot(slot: usize) -> Spot {
        Spot::Slot(slot)
    }

    #[inline(always)]
    fn may_be_elsewhere(seen: &Self::Seen) -> bool {
        seen.states[0] & STASHED != 0
    }

    #[inline(always)]
    fn room(&self, seen: &Self::Seen) -> Option<(usize, usize)> {
        self.room_of_two(seen)
    }

    #[inline(always)]
    fn takes(key: K) -> bool {
        Bucket::<K, V>::takes(key)
    }

    #[inline(always)]
    fn prefetch_slot(&self, at: Offset, slot: usize) {
        self.medium().prefetch_write(at.add(self.bucket.item_at(slot)));
        let beyond = self.bucket.beyond_bitmap(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at);
        }
    }

    #[inline(always)]
    fn prefetch_likely(&self, two: &Two, seen: &TwoSeen<u64>, slots: u32, likely: Likely) {
        let (nth, slot) = match self.room(seen) {
            _ if slots != 0 => Self::nth_slot(slots.trailing_zeros()),
            Some(room) if likely == Likely::Inserts => room,
            _ => return,
        };
        self.prefetch_slot(self.at(two.buckets[nth]), slot);
    }

    #[inline(always)]
    fn value_if_there(
        &self,
        Located { bucket, at }: Located<u64>,
        spot: Spot,
        key: K,
    ) -> Option<V> {
        match spot {
            Spot::Slot(slot) => {
                let (found, value) = self.item(at, slot);
                // Under the lock a fingerprint is shown if and only if the slot is in use.
                let is_shown = self.empty(bucket) & 1 << slot == 0;
                (is_shown && is_same(found, key)).then_some(value)
            }
            Spot::Node(node) => self.value_of_node(bucket, node, key),
        }
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
        Change { bucket, slot, print: hash.print(), clear, is_beyond, ..Change::default() }
    }

    #[inline(always)]
    fn commit(&self, at: Offset, change: &Change) {
        self.commit_bitmap(at, change.slot, change.clear);
    }

    #[inline(always)]
    fn erase(&self, Located { bucket, at }: Located<u64>, spot: Spot) -> Change {
        match spot {
            Spot::Slot(slot) => {
                self.erase_slots(at, 1 << slot);
                Change { bucket, clear: 1 << slot, ..Change::default() }
            }
            Spot::Node(node) => {
                self.stash.erase(self.medium(), node);
                Change { bucket, besides: NodeChange::Unstashed(node), ..Change::default() }
            }
        }
    }

    #[inline(always)]
    fn value_word(&self, at: Offset, spot: Spot) -> Option<Offset> {
        match spot {
            Spot::Slot(slot) => self.bucket.value_word(at, slot),
            Spot::Node(node) => self.stash.value_word(node),
        }
    }

    #[inline(always)]
    fn slot_for_update(&self, bucket: u64, spot: Spot) -> Option<(usize, u64)> {
        match spot {
            Spot::Slot(slot) => self.empty_slot(bucket).map(|to| (to, 1 << slot)),
            Spot::Node(_) => None,
        }
    }

    fn overwrite(&self, bucket: u64, spot: Spot, (key, value): (K, V)) {
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

    #[inline(always)]
    fn show(&self, change: &mut Change) {
        if change.print != 0 && change.clear == 0 {
            // As nearly always: in one step.
            self.set_print(change.bucket, change.slot, change.print);
            self.change_state(change.bucket, |state| with_new_version(state) & !LOCK);
            return;
        }
        self.show_of(change);
        self.change_state(change.bucket, |state| state & !LOCK);
    }

    fn add_copied(copied: &mut Copied, spot: Spot) {
        match spot {
            Spot::Slot(slot) => copied.slots |= 1 << slot,
            Spot::Node(node) => copied.node = Some(node),
        }
    }

    fn delete_copied(&self, source: u64, Copied { slots, node }: Copied) {
        if slots != 0 {
            self.erase_slots(self.at(source), slots);
        }
        if let Some(node) = node {
            self.stash.erase(self.medium(), node);
        }
        self.medium().fence();
        let besides = node.map_or(NodeChange::None, NodeChange::Unstashed);
        self.show_of(&Change { bucket: source, clear: slots, besides, ..Change::default() });
    }

    fn items_of(&self, bucket: u64, items: &mut Vec<(K, V)>) {
        let used = self.bucket.full() & !self.empty(bucket);
        items.extend(slots_in(used).map(|slot| self.item(self.at(bucket), slot)));
        if self.state(bucket).load(Ordering::Relaxed) & STASHED != 0 {
            let nodes = self.stash.nodes_of(bucket).into_iter();
            items.extend(nodes.map(|node| self.stash.pair(self.medium(), node)));
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Operations for Core<M, K, V> {
    operations_of_doubling!();

    #[inline(always)]
    fn mutate_alone(
        &self,
        key: K,
        likely: Likely,
        decide: &impl Fn(Option<V>) -> index::Change<V>,
    ) -> Option<Option<V>> {
        self.mutate_single(key, likely, decide)
    }

    /// Into the emptier one of the key's buckets, after a displacement, or into the stash.
    fn insert<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Geometry,
        item: (K, V),
        hash: Hash,
    ) -> Placed {
        let mut no_room = Placed::NoRoom;
        if Self::takes(item.0) {
            no_room = match self.insert_into_table(unfenced, geometry, item, hash) {
                placed @ (Placed::NoRoom | Placed::Busy) => placed,
                other => return other,
            };
        }
        let [first, _] = self.pair_among(geometry.log2(), hash);
        // An item that a resize moves has its place among others that are moved.
        if !unfenced.copies() && Self::takes(item.0) && self.stash.has_long_chain(first) {
            return no_room;
        }
        match self.insert_into_stash(unfenced, geometry, first, item) {
            Placed::NoRoom => no_room,
            other => other,
        }
    }

    /// Displacement: an item goes to its other bucket, if that has room.
    fn free_slot(
        &self,
        geometry: Geometry,
        from: u64,
        (): (),
        is_busy: &mut bool,
    ) -> Option<(usize, Option<Locked<'_>>)> {
        for slot in slots_in(self.bucket.full()) {
            let item = self.item(self.at(from), slot);
            let hash = self.hash(item.0);
            for to in self.pair_among(geometry.log2(), hash) {
                if to == from || self.empty(to) == 0 {
                    continue;
                }
                let Some(locked) = Locked::attempt(self.state(to)) else {
                    *is_busy = true;
                    continue;
                };
                if self.geometry() != geometry {
                    // The bucket may have been emptied for good.
                    return None;
                }
                let Some(empty) = self.empty_slot(to) else { continue };
                self.put_locked(to, empty, item, hash.print());
                self.tell_scans(item.0, from, to);
                self.hide_slot(from, slot);
                return Some((slot, Some(locked)));
            }
        }
        None
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// The value in a node, if it still belongs to the locked bucket and has this key.
    #[cold]
    fn value_of_node(&self, bucket: u64, node: u64, key: K) -> Option<V> {
        let (found, value) = self.stash.pair(self.medium(), node);
        (self.stash.nodes_of(bucket).contains(&node) && is_same(found, key)).then_some(value)
    }

    /// Insertion into the main table.
    #[inline(always)]
    pub(super) fn insert_into_table<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Geometry,
        item: (K, V),
        hash: Hash,
    ) -> Placed {
        let pair = self.pair_among(geometry.log2(), hash);
        match self.insert_into_emptier(unfenced, geometry, pair, item, hash) {
            Placed::NoRoom if self.shape.design.displaces => {
                self.insert_moving(unfenced, geometry, item, hash)
            }
            placed => placed,
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn insert_into_stash<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Geometry,
        first: u64,
        item: (K, V),
    ) -> Placed {
        let Some(locked) = unfenced.lock_under(geometry, first) else { return Placed::Stale };
        let Some(node) = self.stash.take_node(Self::takes(item.0)) else {
            return Placed::NoRoom;
        };
        self.stash.fill(self.medium(), node, item);
        let besides = NodeChange::Stashed(node);
        unfenced.push(locked, Change { bucket: first, besides, ..Change::default() }, ());
        Placed::Done
    }
}
