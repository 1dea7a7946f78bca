//! Deletion, insertion and update (algorithms 2 to 4, section 4) as the kit asks for them: where an item goes, the
//! movement that insertions come to, and by which token a change is committed.

use super::bucket::Change;
use super::fast::{Four, FourSeen};
use super::geometry::Geometry;
use super::layout::{BucketId, LOCK, next_version, slot_of_four};
use super::{BASES, Core};
use crate::kit::ahead::Known;
use crate::kit::buckets::{Buckets, Located, Locked};
use crate::kit::change::Mutate;
use crate::kit::hash::{Hash, slots_in};
use crate::kit::log::Entry;
use crate::kit::mutation::Likely;
use crate::kit::operations::{Operations, Placed};
use crate::kit::paths::mutate_alone;
use crate::kit::shared::Shared;
use crate::kit::unfenced::Unfenced;
use index::{Error, Fixed, is_same};
use pmem::sync::{AtomicU64, Ordering};
use pmem::{Medium, Offset};
use std::ops::Range;

impl<M: Medium, K: Fixed, V: Fixed> Buckets for Core<M, K, V> {
    type Key = K;
    type Value = V;
    type Medium = M;
    type Geometry = Geometry;
    type Bucket = BucketId;
    type Spot = usize;
    type Near = Four;
    type Seen = FourSeen;
    type Pending = Change;
    type Copied = u64;
    type Aside = ();

    const NOTHING_ASIDE: () = ();
    /// Else levels would fill less evenly, and the table expand earlier.
    const COPIES_KEEP_APART: bool = false;

    #[inline(always)]
    fn medium(&self) -> &M {
        self.pool.medium()
    }

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.published.geometry()
    }

    #[inline(always)]
    fn shared(&self) -> &Shared<K> {
        &self.shared
    }

    #[inline(always)]
    fn at(&self, bucket: BucketId) -> Offset {
        let base = self.bases[bucket.level as usize % BASES].load(Ordering::Relaxed);
        Offset(base.wrapping_add(bucket.word.wrapping_mul(self.bucket.bytes)))
    }

    /// The bucket's word of the sidecar.
    #[inline(always)]
    fn state(&self, bucket: BucketId) -> &AtomicU64 {
        self.words.get(bucket.word as usize)
    }

    #[inline(always)]
    fn next_version(word: u64) -> u64 {
        next_version(word)
    }

    #[inline(always)]
    fn set_state(&self, bucket: BucketId, word: u64) {
        self.set_word(bucket, word);
    }

    #[inline(always)]
    fn wraps(&self) -> u64 {
        self.published.wraps()
    }

    /// Dynamic search (section 3.2.1): the level with more items first.
    fn places(&self, geometry: Geometry, hash: Hash) -> impl Iterator<Item = [BucketId; 2]> {
        let (top, bottom) = (geometry.top(), geometry.bottom());
        let levels = if self.published.is_bottom_first() { [bottom, top] } else { [top, bottom] };
        let levels = levels.into_iter().chain(geometry.interims());
        levels.map(move |level| self.candidates(level, hash))
    }

    fn look_in(
        &self,
        bucket: BucketId,
        word: u64,
        key: K,
        hash: Hash,
        _is_first: bool,
    ) -> (Option<usize>, u64) {
        self.look_for(bucket, word, key, self.print(hash))
    }

    fn value_in(&self, bucket: BucketId, slot: usize) -> V {
        self.bucket.value(self.medium(), self.at(bucket), slot)
    }

    fn persist_item(&self, bucket: BucketId, slot: usize) {
        self.flush_beyond(self.at(bucket), slot);
        self.medium().persist(self.at(bucket));
    }

    fn persist_absence(&self, bucket: BucketId, shown: u64) {
        if shown != 0 {
            self.medium().persist(self.at(bucket));
        }
    }

    fn in_log(bucket: BucketId, slot: usize) -> (u32, u64, usize) {
        (bucket.level, bucket.index(), slot)
    }

    fn is_in_log_of(bucket: BucketId, level: u32) -> bool {
        level == bucket.level
    }

    #[inline(always)]
    fn used(&self, bucket: BucketId) -> u64 {
        self.tokens(self.at(bucket))
    }

    fn key_in(&self, bucket: BucketId, slot: usize) -> K {
        self.bucket.key(self.medium(), self.at(bucket), slot)
    }

    #[inline(always)]
    fn near(&self, hash: Hash) -> Option<Four> {
        self.four(hash)
    }

    #[inline(always)]
    fn see(&self, four: &Four) -> FourSeen {
        let (wraps, words) = (self.published.wraps(), self.words.as_slice());
        let words = four.words.map(|word| words[word as usize].load(Ordering::Acquire));
        FourSeen { words, wraps }
    }

    #[inline(always)]
    fn changes(&self, four: &Four, seen: &FourSeen) -> (u64, u64) {
        let now = self.see(four);
        let changes = (0..4).fold(0, |changes, nth| changes | now.words[nth] ^ seen.words[nth]);
        (if now.wraps == seen.wraps { changes } else { u64::MAX }, 0)
    }

    #[inline(always)]
    fn slots_with(&self, seen: &FourSeen, hash: Hash) -> u32 {
        self.bucket.slots_with(&seen.words, self.print(hash))
    }

    #[inline(always)]
    fn nth_slot(bit: u32) -> (usize, usize) {
        slot_of_four(bit)
    }

    #[inline(always)]
    fn spot(slot: usize) -> usize {
        slot
    }

    #[inline(always)]
    fn item(&self, at: Offset, slot: usize) -> (K, V) {
        self.bucket.pair(self.medium(), at, slot)
    }

    /// The less-loaded one of the top level, if that has room, else of the bottom level; if that has.
    #[inline(always)]
    fn room(&self, seen: &FourSeen) -> Option<(usize, usize)> {
        let empty = seen.words.map(|word| self.bucket.empty_slots(word));
        let [top, bottom] = [0, 2].map(|nth| nth + usize::from(empty[nth + 1] > empty[nth]));
        let has_bottom = self.shape.design.two_levels;
        let nth = if empty[top] == 0 && has_bottom { bottom } else { top };
        Some((nth, self.bucket.empty_slot(seen.words[nth])?))
    }

    #[inline(always)]
    fn prefetch_states(&self, four: &Four) {
        for word in four.words {
            self.words.prefetch(word as usize);
        }
    }

    /// In two buckets: these are where most items are.
    #[inline(always)]
    fn prefetch_items(&self, four: &Four) {
        let first = if self.published.is_bottom_first() { 2 } else { 0 };
        for nth in [first, first + 1] {
            self.medium().prefetch(self.at(four.bucket_of(nth)));
        }
    }

    #[inline(always)]
    fn prefetch_slot(&self, at: Offset, slot: usize) {
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch_write(at.add(beyond.start));
        }
    }

    /// The item in the first slot with the fingerprint is about to be read; or, if there is none, a slot to be written.
    #[inline(always)]
    fn prefetch_likely(&self, four: &Four, seen: &FourSeen, slots: u32, likely: Likely) {
        let (nth, slot) = if slots != 0 {
            slot_of_four(slots.trailing_zeros())
        } else {
            match self.room(seen) {
                Some(room) if likely == Likely::Inserts => room,
                _ => return,
            }
        };
        // The lines of the tokens and of the item's end.
        let at = self.at(four.bucket_of(nth));
        self.medium().prefetch(at);
        let beyond = self.bucket.beyond_tokens(slot);
        if !beyond.is_empty() {
            self.medium().prefetch(at.add(beyond.end - 1));
        }
    }

    #[inline(always)]
    fn value_if_there(&self, bucket: Located<BucketId>, slot: usize, key: K) -> Option<V> {
        let (found, value) = self.item(bucket.at, slot);
        (self.tokens(bucket.at) & 1 << slot != 0 && is_same(found, key)).then_some(value)
    }

    /// Log-free insertion (section 3.3.2), and update (section 3.3.4).
    #[inline(always)]
    fn fill(
        &self,
        Located { bucket, at }: Located<BucketId>,
        slot: usize,
        item: (K, V),
        hash: Hash,
        clear: u64,
    ) -> Change {
        let is_late = self.store_item(at, slot, item);
        let mut word = self.state(bucket).load(Ordering::Relaxed);
        if clear == 0 {
            self.count_at(bucket.level, 1);
        } else {
            // One version, not one for each slot: none may be skipped, or coming around would be missed.
            word = self.bucket.without(word, clear.trailing_zeros() as usize);
        }
        let word = next_version(self.bucket.with(word, slot, self.print(hash)));
        Change { bucket, word, set: 1 << slot, clear: clear as u8, is_late }
    }

    #[inline(always)]
    fn commit(&self, at: Offset, change: &Change) {
        self.set_tokens(at, change.set.into(), change.clear.into());
    }

    /// Algorithm 2.
    #[inline(always)]
    fn erase(&self, Located { bucket, at }: Located<BucketId>, slot: usize) -> Change {
        self.set_tokens(at, 0, 1 << slot);
        self.count_at(bucket.level, -1);
        let word = self.state(bucket).load(Ordering::Relaxed);
        let word = next_version(self.bucket.without(word, slot));
        Change { bucket, word, ..Change::default() }
    }

    #[inline(always)]
    fn unseen(&self, bucket: BucketId) -> Change {
        Change { bucket, word: self.state(bucket).load(Ordering::Relaxed), ..Change::default() }
    }

    #[inline(always)]
    fn value_word(&self, at: Offset, slot: usize) -> Option<Offset> {
        if !self.shape.design.in_place_update {
            return None;
        }
        self.bucket.value_word(at, slot)
    }

    #[inline(always)]
    fn slot_for_update(&self, bucket: BucketId, slot: usize) -> Option<(usize, u64)> {
        if !self.shape.design.log_free_update {
            return None;
        }
        self.empty_slot(bucket).map(|to| (to, 1 << slot))
    }

    fn overwrite(&self, bucket: BucketId, slot: usize, (_, value): (K, V)) {
        self.bucket.fill_value(self.medium(), self.at(bucket), slot, value);
        self.flush_item(self.at(bucket), slot);
        self.medium().fence();
    }

    #[inline(always)]
    fn show_locked(&self, change: &mut Change) {
        self.set_word(change.bucket, change.word | LOCK);
    }

    #[inline(always)]
    fn show(&self, change: &mut Change) {
        self.set_word(change.bucket, change.word & !LOCK);
    }

    #[inline(always)]
    fn add_copied(copied: &mut u64, slot: usize) {
        *copied |= 1 << slot;
    }

    fn delete_copied(&self, source: BucketId, copied: u64) {
        self.delete_slots(source, copied);
        self.count_at(source.level, -i64::from(copied.count_ones()));
    }

    #[inline(always)]
    fn empty_slots(&self, bucket: BucketId) -> u32 {
        self.bucket.empty_slots(self.state(bucket).load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn empty_slot(&self, bucket: BucketId) -> Option<usize> {
        self.bucket.empty_slot(self.state(bucket).load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn count(&self, inserted: u64, removed: u64) {
        self.look_after(inserted, removed);
    }

    /// In the order of their words in the sidecar.
    fn numbers(&self) -> Range<u64> {
        self.geometry().words()
    }

    fn number(bucket: BucketId) -> u64 {
        bucket.word
    }

    fn bucket_of(word: u64) -> BucketId {
        BucketId::of_word(word)
    }

    fn items_of(&self, bucket: BucketId, items: &mut Vec<(K, V)>) {
        let at = self.at(bucket);
        items.extend(slots_in(self.tokens(at)).map(|slot| self.item(at, slot)));
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Operations for Core<M, K, V> {
    /// The level to which an item is moved.
    type Way = u32;

    #[inline(always)]
    fn hint(&self, known: &mut Known<Self>, _likely: Likely) {
        if let Some(four) = &known.near {
            self.prefetch_items(four);
        }
    }

    #[inline(always)]
    fn see_again(
        &self,
        four: &Four,
        known: &Known<Self>,
        _likely: Likely,
    ) -> Option<(FourSeen, u32)> {
        let seen = self.see(four);
        let slots = self.slots_with(&seen, known.hash);
        Some((seen, slots))
    }

    /// Algorithm 3: into the less-loaded top bucket, then the less-loaded bottom bucket, then by
    /// at most one movement.
    fn insert<'a, const MOST: usize>(
        &'a self,
        unfenced: &mut Unfenced<'a, Self, MOST>,
        geometry: Geometry,
        item: (K, V),
        hash: Hash,
    ) -> Placed {
        let levels = if self.shape.design.two_levels { 2 } else { 1 };
        for level in [geometry.top(), geometry.bottom()].into_iter().take(levels) {
            let pair = self.candidates(level, hash);
            match self.insert_into_emptier(unfenced, geometry, pair, item, hash) {
                Placed::NoRoom => {}
                placed => return placed,
            }
        }
        if self.shape.design.movement {
            self.insert_moving(unfenced, geometry, item, hash)
        } else {
            Placed::NoRoom
        }
    }

    /// TryMovement: an item of one of the key's full buckets goes to its other bucket in that
    /// level, or from the bottom level to the top one.
    fn ways(&self, geometry: Geometry, hash: Hash) -> impl Iterator<Item = (BucketId, u32)> {
        let design = &self.shape.design;
        let (top, bottom) = (geometry.top(), geometry.bottom());
        let to_bottom = design.two_levels.then_some((bottom, bottom));
        let to_top = (design.two_levels && design.bottom_to_top).then_some((bottom, top));
        let ways = [Some((top, top)), to_bottom, to_top].into_iter().flatten();
        ways.flat_map(move |(from, to)| self.candidates(from, hash).map(|bucket| (bucket, to)))
    }

    fn free_slot(
        &self,
        geometry: Geometry,
        bucket: BucketId,
        to_level: u32,
        is_busy: &mut bool,
    ) -> Option<(usize, Option<Locked<'_>>)> {
        self.move_one(geometry, bucket, to_level, is_busy).map(|slot| (slot, None))
    }

    fn grow(&self, geometry: Geometry, _hash: Hash) -> Result<(), Error> {
        Ok(self.make_room(geometry)?)
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
                    |to| self.bucket.empty_slot(self.state(to).load(Ordering::Relaxed)).is_some();
                if to == from || !has_room(to) {
                    continue;
                }
                // Only tried: its holder may be waiting for the one held here.
                let Some(_locked) = Locked::attempt(self.state(to)) else {
                    *is_busy = true;
                    continue;
                };
                if self.geometry() != geometry {
                    // Its level may have become interim, and this bucket been emptied for good.
                    return None;
                }
                let word = self.state(to).load(Ordering::Relaxed);
                let Some(empty) = self.bucket.empty_slot(word) else { continue };
                let value = self.bucket.value(medium, from_at, slot);
                // A crash between copy and deletion leaves the item twice; recovery looks here.
                let _entry = self
                    .shared
                    .log
                    .write(medium, &Entry::<V>::movement(from.level, from.index(), slot));
                self.put_durably(self.at(to), empty, (key, value));
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
}
