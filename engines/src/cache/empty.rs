//! Emptying segments: what is popular is appended again, and nothing leads to the rest any more.

use super::index::{granule_in, lines_with, numbers_in, slot_of, slots_that};
use super::segments::{COUNTED, Phase, Queue, Use};
use super::{Cache, Cause, Count, GENERATION_SHIFT, TIME_BITS, expires_in};
use pmem::arena::{Entry, SEGMENT_HEAD_BYTES};
use pmem::sync::Ordering;
use pmem::{Medium, Offset};

/// What is kept of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// What was asked for often enough.
    Popular,
    /// All that is there.
    All,
    /// Nothing.
    Nothing,
}

/// Items that are looked at together, so that their lines come into the caches together.
const AHEAD: usize = 16;
/// Hits by which an item stays that is in the way.
const HITS_TO_STAY: u8 = 1;
/// Of a segment of the main queue at most so many quarters are kept: otherwise a put could have to look at all there is
/// before it finds room.
const QUARTERS_KEPT: u64 = 3;

impl<M: Medium> Cache<M> {
    /// Empties a segment that the caller has taken, and lets it become free when nobody reads there any more.
    pub(super) fn empty(&self, number: u32, keep: Keep) {
        let segment = &self.segments[number as usize];
        let queue = segment.queue();
        let end = segment.used.load(Ordering::Acquire);
        let is_large = segment.run.load(Ordering::Relaxed) > 1;
        if is_large && keep != Keep::Nothing && self.keep_large(number, keep) {
            return;
        }
        let mut budget = match keep {
            Keep::Popular => end / 4 * QUARTERS_KEPT,
            Keep::All => u64::MAX,
            Keep::Nothing => 0,
        };
        let start = self.arena.start_of(number);
        let mut place = SEGMENT_HEAD_BYTES;
        while place < end {
            let guard = self.epochs.pin();
            let mut batch = [(Offset(0), 0); AHEAD];
            let mut len = 0;
            while len < AHEAD && place < end {
                let at = start.add(place);
                let Some(entry) = self.arena.entry_before(at, start.add(end), &guard) else {
                    place = end;
                    break;
                };
                let hash = self.hasher.first_bytes(entry.key);
                self.prefetch_lines(hash);
                batch[len] = (at, hash);
                len += 1;
                place += entry.bytes();
            }
            for &(at, hash) in &batch[..len] {
                let Some(entry) = self.arena.entry(at, &guard) else { continue };
                self.decide(at, hash, &entry, queue, keep, &mut budget);
            }
        }
        self.give_up(number);
    }

    /// Decides about one item of a segment that is being emptied.
    fn decide(
        &self,
        at: Offset,
        hash: u64,
        entry: &Entry<'_>,
        queue: Queue,
        keep: Keep,
        budget: &mut u64,
    ) {
        let slot = slot_of(self.arena.granule_of(at), hash);
        let hits = self.hits.of(granule_in(slot));
        let is_wanted = match keep {
            Keep::Popular => hits >= HITS_TO_STAY,
            Keep::All => true,
            Keep::Nothing => false,
        };
        let is_kept = is_wanted
            && *budget >= entry.bytes()
            && self.is_current(self.arena.stamp(at))
            && self.slot_with(hash, slot).is_some();
        if is_kept {
            *budget -= entry.bytes();
            let class = class_in(entry.stamp);
            let to = match keep {
                Keep::All => (queue, hits, class),
                _ => (Queue::Main, 0, class),
            };
            if self.move_item(hash, slot, entry, to) {
                return;
            }
        }
        self.drop_and_tell(hash, slot, entry);
    }

    /// Lets nothing lead to an item any more, and says so.
    pub(super) fn drop_and_tell(&self, hash: u64, slot: u64, entry: &Entry<'_>) {
        if let Some(cause) = self.drop_item(hash, slot, entry) {
            self.tell(entry, cause);
        }
    }

    /// Says that an item has gone.
    pub(super) fn tell(&self, entry: &Entry<'_>, cause: Cause) {
        self.count(if cause == Cause::Evicted { Count::Evictions } else { Count::Expired });
        if let Some(when_gone) = &self.settings.when_gone {
            when_gone(entry.key, entry.value, cause);
        }
    }

    /// Where there is a slot of this content, for an item whose key has this hash. The caller keeps the item's segment
    /// from being used again: so whatever leads to its place leads to the item, and no key has to be compared.
    ///
    /// Without the key's lock, a split may move the slot meanwhile, as in [`Cache::find`].
    pub(super) fn slot_with(&self, hash: u64, slot: u64) -> Option<Offset> {
        let mut segment = self.directory.segment(hash);
        loop {
            for line in &lines_with(&self.arena, segment, hash) {
                let slots = self.arena.medium().load_line(*line);
                if let Some(number) = numbers_in(slots_that(&slots, |one| one == slot)).next() {
                    return Some(line.word(number));
                }
            }
            let now = self.directory.segment(hash);
            if now == segment {
                return None;
            }
            segment = now;
        }
    }

    /// Appends an item to a queue, with these hits and this class, and lets its slot lead there. Whether that is done,
    /// or there is no need any more; otherwise there is no room.
    pub(super) fn move_item(
        &self,
        hash: u64,
        slot: u64,
        entry: &Entry<'_>,
        (queue, hits, class): (Queue, u8, u64),
    ) -> bool {
        let Some(copy) = self.begin_item(queue, entry.key, entry.value, 0) else { return false };
        self.arena.finish_item(copy, entry.key, entry.value);
        let granule = self.arena.granule_of(copy);
        self.hits.set(granule, hits);
        {
            let _lock = self.lock(hash);
            if let Some(slot_at) = self.slot_with(hash, slot) {
                // It may have been set since the item was looked at.
                let stamp = self.arena.stamp(self.place(slot));
                if !self.is_of_generation(stamp) {
                    // Among what was put since the clearing it would be counted with that.
                    self.empty_slot(slot_at);
                    self.uncount(slot, entry.bytes());
                    self.end_item(copy);
                    return true;
                }
                // With its fence all of the copy is durable, before a slot leads to it.
                self.arena.set_stamp(copy, with_class(stamp, class));
                self.segment_at(copy).count(entry.bytes());
                self.set_slot(slot_at, slot_of(granule, hash));
                if !self.is_counted(slot) {
                    self.note(hash, stamp);
                }
                self.uncount(slot, entry.bytes());
                self.count(Count::Kept);
            }
        }
        self.end_item(copy);
        true
    }

    /// Lets nothing lead to an item any more. `None`: nothing did, or it was cleared already.
    pub(super) fn drop_item(&self, hash: u64, slot: u64, entry: &Entry<'_>) -> Option<Cause> {
        let _lock = self.lock(hash);
        let slot_at = self.slot_with(hash, slot)?;
        let stamp = self.arena.stamp(self.place(slot));
        let is_current = self.is_current(stamp);
        self.empty_slot(slot_at);
        self.uncount(slot, entry.bytes());
        let cause = if is_current { Cause::Evicted } else { Cause::Expired };
        self.is_of_generation(stamp).then_some(cause)
    }

    /// A segment to which nothing leads any more becomes free as soon as all pins have passed.
    pub(super) fn give_up(&self, number: u32) {
        let segment = &self.segments[number as usize];
        // A large item may still be read where its other segments will say that they are free.
        if segment.run.load(Ordering::Relaxed) == 1 {
            self.set_use(number, Use::Free, 0);
        }
        // Nothing is left to be counted, if that was not done yet.
        segment.counted.store(COUNTED, Ordering::Relaxed);
        segment.set_phase(Phase::Retired);
        let moment = self.epochs.moment();
        let mut lists = self.lists.lock();
        let run = segment.run.load(Ordering::Relaxed);
        lists.lengths[segment.queue() as usize] -= run;
        lists.retired.push_back((number, moment));
    }
}

/// The class in a stamp.
pub(super) fn class_in(stamp: u64) -> u64 {
    (stamp >> TIME_BITS) & ((1 << (GENERATION_SHIFT - TIME_BITS)) - 1)
}

/// The stamp with another class.
pub(super) fn with_class(stamp: u64, class: u64) -> u64 {
    expires_in(stamp) | class << TIME_BITS | stamp >> GENERATION_SHIFT << GENERATION_SHIFT
}
