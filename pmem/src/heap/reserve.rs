//! Slots set aside, so that values can be replaced in a heap that is full.
//!
//! Each class with a segment keeps a few slots that new items do not get. What replaces an item
//! may take one when nothing else is left; the slot of the item it replaced, once nobody can hold
//! it any more, is set aside in its place. So replacing goes on for ever, in a heap that nothing
//! can be added to. The same with one run of segments for large items, of the largest item's
//! length, up to a limit: beyond it a second copy of the largest value would have to be kept free.

use super::Heap;
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Most slots that a class sets aside: as many threads replace values of it at a time.
const SLOTS_MAX: u64 = 8;
/// A class sets aside at most this fraction of a segment.
const SEGMENT_FRACTION: u64 = 3;
/// Most segments that are set aside for large items. On the crash lab's machine a pool has few.
const RUN_SEGMENTS_MAX: u64 = if cfg!(feature = "simulated") { 4 } else { 16 };

/// The slots that one class has set aside.
#[derive(Debug)]
pub(super) struct Reserve {
    slots: Mutex<Vec<Offset>>,
    /// How many it should have.
    wanted: usize,
    /// How many it has not; a hint for who frees a slot, exact under the lock.
    missing: AtomicU64,
}

impl Reserve {
    /// Nothing yet, for a class with so many slots a segment.
    pub(super) fn new(slots_of_segment: u64) -> Reserve {
        let wanted = (slots_of_segment / SEGMENT_FRACTION).clamp(1, SLOTS_MAX);
        Reserve {
            slots: Mutex::default(),
            wanted: wanted as usize,
            missing: AtomicU64::new(wanted),
        }
    }

    pub(super) fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Sets a free slot aside, if one is missing.
    #[inline]
    pub(super) fn put(&self, slot: Offset) -> bool {
        self.missing() != 0 && self.put_missing(slot)
    }

    #[cold]
    fn put_missing(&self, slot: Offset) -> bool {
        let mut slots = self.slots.lock();
        let is_missing = slots.len() < self.wanted;
        if is_missing {
            slots.push(slot);
            self.count(&slots);
        }
        is_missing
    }

    fn take(&self) -> Option<Offset> {
        let mut slots = self.slots.lock();
        let slot = slots.pop();
        self.count(&slots);
        slot
    }

    fn count(&self, slots: &[Offset]) {
        self.missing.store((self.wanted - slots.len()) as u64, Ordering::Relaxed);
    }

    /// What is set aside.
    pub(super) fn slots(&self) -> Vec<Offset> {
        self.slots.lock().clone()
    }

    /// Gives up what is set aside where `gives_up` says so.
    pub(super) fn give_up(&self, gives_up: impl Fn(Offset) -> bool) {
        let mut slots = self.slots.lock();
        slots.retain(|&slot| !gives_up(slot));
        self.count(&slots);
    }
}

/// The run of segments set aside for large items.
#[derive(Debug, Default)]
pub(super) struct ReservedRun {
    /// First segment and length.
    run: Mutex<Option<(u64, u64)>>,
    /// Length it should have.
    wanted: AtomicU64,
}

impl ReservedRun {
    pub(super) fn get(&self) -> Option<(u64, u64)> {
        *self.run.lock()
    }

    fn len(&self) -> u64 {
        self.get().map_or(0, |(_, len)| len)
    }

    /// Asks for room for an item of so many segments.
    pub(super) fn want(&self, segments: u64) {
        if segments <= RUN_SEGMENTS_MAX {
            let more = |wanted: u64| (wanted < segments).then_some(segments);
            let _ = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }
}

impl<M: Medium> Heap<M> {
    /// Space set aside, for an item of `bytes` bytes in place of the one at `replaced`.
    pub(super) fn take_reserved(&self, bytes: u64, replaced: Offset) -> Option<Offset> {
        let reserve = |class: usize| self.reserves.get(class).and_then(Reserve::take);
        let class = self.classes.class_of(bytes);
        if let Some(slot) = class.and_then(reserve) {
            return Some(slot);
        }
        // No larger than what it replaces, it may have a slot of that class: the slot that it takes is
        // made up for by the one that it frees.
        let capacity = self.capacity_at(replaced).filter(|&capacity| capacity >= bytes)?;
        match self.classes.class_of(capacity) {
            Some(class) => reserve(class),
            None => self.take_reserved_run(bytes),
        }
    }

    fn take_reserved_run(&self, bytes: u64) -> Option<Offset> {
        let count = bytes.div_ceil(self.segment_bytes());
        let mut run = self.reserved_run.run.lock();
        let (first, len) = run.take_if(|&mut (_, len)| len >= count)?;
        // What is left stays set aside: given to new items, it would be missing for ever.
        *run = (len > count).then_some((first + count, len - count));
        drop(run);
        Some(self.take_large(first, count))
    }

    /// Sets aside as much for large items as is wanted, if `take` finds a run of that length.
    pub(super) fn set_run_aside<E>(&self, take: impl Fn(u64) -> Result<u64, E>) -> Result<(), E> {
        let wanted = self.reserved_run.wanted();
        if self.reserved_run.len() >= wanted {
            return Ok(());
        }
        let first = take(wanted)?;
        // Unless another thread was faster.
        let mut run = self.reserved_run.run.lock();
        let surplus = match *run {
            Some((_, len)) if len >= wanted => Some((first, wanted)),
            _ => run.replace((first, wanted)),
        };
        drop(run);
        if let Some((first, len)) = surplus {
            self.release_run(first, len);
        }
        Ok(())
    }

    pub(super) fn reserve_of(&self, segment: u64) -> Option<&Reserve> {
        self.reserves.get(self.class_of_segment(segment)?)
    }

    /// Sets aside what is missing of each class, of the free slots of listed segments.
    pub(super) fn set_slots_aside(&self) {
        for (list, reserve) in self.partial.iter().zip(&self.reserves) {
            self.set_slots_aside_of_listed(reserve, &list.lock());
        }
    }

    /// Sets aside what is missing, of the free slots of these segments, whose list is locked.
    pub(super) fn set_slots_aside_of_listed(&self, reserve: &Reserve, listed: &[u64]) {
        listed.iter().for_each(|&segment| self.set_aside_of(reserve, segment));
    }

    /// Sets aside what is missing of a class, of the free slots of a segment of the caller's.
    pub(super) fn set_slots_aside_of(&self, class: usize, segment: u64) {
        if let Some(reserve) = self.reserves.get(class) {
            self.set_aside_of(reserve, segment);
        }
    }

    fn set_aside_of(&self, reserve: &Reserve, segment: u64) {
        for word in (0..self.state(segment).words()).rev() {
            while reserve.missing() != 0 {
                let Some((slot, at)) = self.take_free_slot(segment, word) else { break };
                if !reserve.put(at) {
                    // Others were faster.
                    self.free_slot(segment, slot);
                }
            }
        }
    }

    /// Takes a free slot of one word of a segment's bitmap: its number in the segment, and where it begins.
    fn take_free_slot(&self, segment: u64, word: usize) -> Option<(usize, Offset)> {
        let state = self.state(segment);
        // The highest one, since owners begin with the lowest.
        let highest = |bits: u64| bits.checked_ilog2();
        let less = |bits: u64| highest(bits).map(|bit| bits & !(1 << bit));
        let bits = state.bits[word].fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).ok()?;
        let slot = word * 64 + highest(bits)? as usize;
        let size = self.classes.size(self.class_of_segment(segment)?)?;
        Some((slot, self.start_of(segment).add(slot as u64 * size)))
    }
}
