//! More room in the index: splits of its segments, and their moves.
//!
//! A split makes a new segment with the slots of one half of a part, durable before its state says what it is. Then
//! these slots are emptied in the old one, and last that one's state says that it has the other half. A crash leaves
//! the old state beside the new half, or both halves. In the first case an opening empties the slots once more.

use super::Cache;
use super::index::{Part, SLOTS, TAG_BITS, granule_in, line_of, lines_of, lines_with, tag_in};
use super::segments::{Lists, Phase, Use};
use super::space::spare;
use pmem::sync::Ordering;
use pmem::{Medium, Offset, WORD};

impl<M: Medium> Cache<M> {
    /// Makes room in the two lines of a hash, which are full: by a split, or, if the index has its share, by an item of
    /// these lines. The caller has no lock and is not pinned.
    pub(super) fn relieve(&self, hash: u64) {
        let _growth = self.growth.lock();
        if !self.is_crowded(hash) {
            return;
        }
        let segment = self.directory.segment(hash);
        if !self.split(segment) {
            self.displace(hash);
        }
    }

    fn is_crowded(&self, hash: u64) -> bool {
        let lines = lines_with(&self.arena, self.directory.segment(hash), hash);
        let is_full =
            |line: &Offset| self.arena.medium().load_line(*line).iter().all(|slot| *slot != 0);
        lines.iter().all(is_full)
    }

    /// Segments of which the index may consist: of those that are not kept free, half.
    fn index_segments_max(&self, lists: &Lists) -> u32 {
        lists.limit.saturating_sub(spare(self.streams[0].len()) as u32) / 2
    }

    /// Splits a segment of the index. Whether it did: the index has its share.
    fn split(&self, segment: u32) -> bool {
        let Use::Index(part) = self.use_of(segment) else { return false };
        let [low, high] = part.halves();
        let has_share = {
            let lists = self.lists.lock();
            lists.index_segments < self.index_segments_max(&lists)
        };
        if !has_share || high.depth > TAG_BITS || !self.directory.can_name(high) {
            return false;
        }
        let Some(new) = self.take_segment() else { return false };
        self.segments[new as usize].set_phase(Phase::Fixed);
        {
            let _all = self.lock_all();
            self.copy_slots(segment, new, |slot| high.has(tag_in(slot)));
            self.set_use(new, Use::Index(high), 0);
            self.directory.set(high, new);
            self.empty_slots_of(segment, high);
            self.set_use(segment, Use::Index(low), 0);
        }
        self.lists.lock().index_segments += 1;
        true
    }

    /// Makes the index as small as its share: of a cache that may have less than before it could be all there is.
    /// Nothing else happens meanwhile.
    pub(super) fn merge(&self) {
        loop {
            let mut lists = self.lists.lock();
            if lists.index_segments <= self.index_segments_max(&lists) {
                return;
            }
            let part_of = |number: u32| match self.use_of(number) {
                Use::Index(part) => Some((number, part)),
                _ => None,
            };
            let parts: Vec<_> = (0..lists.count).filter_map(part_of).collect();
            let deepest = parts.iter().map(|(_, part)| part.depth).max().unwrap_or(0);
            let Some(depth) = deepest.checked_sub(1) else { return };
            // Of a part that is deepest, the other half is there, too.
            let pair = parts.iter().find_map(|&(number, low)| {
                let whole = Part { depth, ..low };
                let [_, high] = whole.halves();
                let is_low = low.depth == deepest && low != high;
                let other = parts.iter().find(|(_, part)| is_low && *part == high)?;
                Some((whole, number, other.0))
            });
            let Some((whole, low, high)) = pair else { return };
            self.merge_into(whole, low, high);
            self.segments[high as usize].set_phase(Phase::Idle);
            lists.index_segments -= 1;
            lists.free.push(high);
            self.note_room(&lists);
        }
    }

    /// Does what a split does from its end to its beginning: a crash leaves what one of a split leaves. Slots for which
    /// there is no place in their lines are dropped.
    fn merge_into(&self, whole: Part, low: u32, high: u32) {
        let medium = self.arena.medium();
        self.set_use(low, Use::Index(whole), 0);
        for line in 0..lines_of(&self.arena) {
            let slots = medium.load_line(line_of(&self.arena, high, line)).into_iter();
            let line = line_of(&self.arena, low, line);
            let empty = medium.load_line(line).into_iter().zip(0..).filter(|(slot, _)| *slot == 0);
            for (slot, (_, number)) in slots.filter(|slot| *slot != 0).zip(empty) {
                medium.store(line.word(number), slot);
            }
        }
        self.persist_slots(low);
        self.set_use(high, Use::Free, 0);
        self.directory.set(whole, low);
    }

    /// Moves a segment of the index elsewhere. Whether it did.
    pub(super) fn move_index(&self, segment: u32) -> bool {
        let Use::Index(part) = self.use_of(segment) else { return false };
        let Some(new) = self.take_segment() else { return false };
        self.segments[new as usize].set_phase(Phase::Fixed);
        {
            let _all = self.lock_all();
            self.copy_slots(segment, new, |_| true);
            // A crash behind this leaves the part twice, with the same slots.
            self.set_use(new, Use::Index(part), 0);
            self.directory.set(part, new);
            self.set_use(segment, Use::Free, 0);
        }
        self.segments[segment as usize].set_phase(Phase::Retired);
        self.segments[segment as usize].run.store(1, Ordering::Relaxed);
        let moment = self.epochs.moment();
        self.lists.lock().retired.push_back((segment, moment));
        true
    }

    /// All keys' locks.
    fn lock_all(&self) -> impl Sized + '_ {
        self.locks.iter().map(|lock| lock.lock()).collect::<Vec<_>>()
    }

    /// Stores the slots of which `is_one` holds at the same places of another segment, and empties the other places.
    fn copy_slots(&self, from: u32, to: u32, is_one: impl Fn(u64) -> bool) {
        let (medium, lines) = (self.arena.medium(), lines_of(&self.arena));
        for line in 0..lines {
            let slots = medium.load_line(line_of(&self.arena, from, line));
            let to = line_of(&self.arena, to, line);
            for (slot, number) in slots.into_iter().zip(0..) {
                medium.store(to.word(number), if slot != 0 && is_one(slot) { slot } else { 0 });
            }
        }
        self.persist_slots(to);
    }

    /// Makes all slots of a segment durable.
    fn persist_slots(&self, segment: u32) {
        let (medium, lines) = (self.arena.medium(), lines_of(&self.arena));
        medium.flush_range(line_of(&self.arena, segment, 0), lines * SLOTS * WORD);
        medium.fence();
    }

    /// Empties the slots of a part that another segment has.
    pub(super) fn empty_slots_of(&self, segment: u32, part: Part) {
        let (medium, lines) = (self.arena.medium(), lines_of(&self.arena));
        for line in 0..lines {
            let line = line_of(&self.arena, segment, line);
            let mut some = false;
            for (slot, number) in medium.load_line(line).into_iter().zip(0..) {
                if slot != 0 && part.has(tag_in(slot)) {
                    medium.store(line.word(number), 0);
                    some = true;
                }
            }
            if some {
                medium.flush(line);
            }
        }
        medium.fence();
    }

    /// Empties all slots. The caller has the lock on growth.
    ///
    /// Stamps have only the lowest bits of how often the cache was cleared. So before the numbers of an item's time
    /// come again, nothing may lead to it any more, whatever a crash leaves. What is put while this goes on has a
    /// number that is far from coming again when all slots are emptied next.
    pub(super) fn empty_slots(&self) {
        let (medium, lines) = (self.arena.medium(), lines_of(&self.arena));
        let guard = self.epochs.pin();
        for number in 0..self.segments.len() as u32 {
            let Use::Index(_) = self.use_of(number) else { continue };
            for line in (0..lines).map(|line| line_of(&self.arena, number, line)) {
                let _all = self.lock_all();
                let slots = medium.load_line(line);
                (0..SLOTS).for_each(|number| medium.store(line.word(number), 0));
                medium.flush(line);
                for slot in slots.into_iter().filter(|slot| *slot != 0) {
                    if let Some(entry) = self.arena.entry(self.place(slot), &guard) {
                        self.uncount(slot, entry.bytes());
                    }
                }
            }
        }
        medium.fence();
    }

    /// Evicts the least popular item of a hash's two lines.
    fn displace(&self, hash: u64) {
        let guard = self.epochs.pin();
        let lines = lines_with(&self.arena, self.directory.segment(hash), hash);
        let slots = lines.into_iter().flat_map(|line| self.arena.medium().load_line(line));
        let least =
            slots.filter(|slot| *slot != 0).min_by_key(|slot| self.hits.of(granule_in(*slot)));
        let Some(slot) = least else { return };
        if let Some(entry) = self.arena.entry(self.place(slot), &guard) {
            let victim = self.hasher.first_bytes(entry.key);
            self.drop_and_tell(victim, slot, &entry);
        }
        // In a damaged pool a slot may lead to no item, or to one of a key that is elsewhere.
        let is_there = |line: &Offset| self.arena.medium().load_line(*line).contains(&slot);
        if lines.iter().any(is_there) {
            let _all = self.lock_all();
            let words = lines.into_iter().flat_map(|line| (0..SLOTS).map(move |n| line.word(n)));
            let same = words.filter(|at| self.arena.medium().load(*at) == slot);
            same.for_each(|at| self.empty_slot(at));
        }
    }
}
