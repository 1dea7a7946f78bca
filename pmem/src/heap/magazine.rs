//! Slots that a thread has freed and will fill again. Their lines are still in its caches, and no bitmap changes.
//!
//! A thread's magazine for a class is a *count* and the slots. The upper bits of the count are a version.
//!
//! Protocol. The owner adds slots: it writes them behind those that are there, and then shows them by a
//! compare-and-swap of the count, with a new version. It takes the last slot by a compare-and-swap to one less. A
//! thread that needs what others have copies all slots, and then empties the magazine by a compare-and-swap. That fails
//! if the owner has taken or added a slot meanwhile, since a count never comes back with its version. So each slot goes
//! to one thread. Nobody waits.
//!
//! While a slot is in a magazine, its bit says that it is taken, so its segment does not become free. A segment that is
//! to be emptied gives no more slots to magazines; [`compact`](super::compact) says what happens to those already
//! there.

use super::{Heap, Room};
use crate::epoch::Guard;
use crate::medium::Medium;
use crate::offset::Offset;
use crate::prefetch::prefetch_write;
use crate::sync::{Array, AtomicU64, Ordering, THREADS_MAX, thread_index, thread_indices_end};
use std::io;

/// Most slots of a magazine: more than come free at once, after a scan of the epochs. Few on the crash lab's machine,
/// whose histories are short and are to use bitmaps as well.
const SLOTS_MAX: usize = if cfg!(any(feature = "simulated", feature = "loom")) { 2 } else { 255 };
/// ... and most bytes of them.
const BYTES_MAX: u64 = 128 << 10;
/// Most slots that are added in one step.
const TOGETHER: usize = 32;

/// The low bits of a count: the number of slots.
const LEN_MASK: u64 = 0xff;
const VERSION: u64 = LEN_MASK + 1;
const _: () = assert!(SLOTS_MAX as u64 <= LEN_MASK);

/// The magazines of all threads with a number. Counts lie apart, so that a look at all of them touches no memory of
/// empty ones.
pub(super) struct Magazines {
    counts: Array<AtomicU64>,
    slots: Array<AtomicU64>,
    /// How many slots a magazine of each class takes.
    slots_max: Vec<usize>,
}

/// A thread's magazine for one class.
struct Magazine<'a> {
    count: &'a AtomicU64,
    slots: &'a Array<AtomicU64>,
    /// Index of its first slot in `slots`.
    first: usize,
    slots_max: usize,
}

impl Magazines {
    /// Empty magazines for classes of these sizes.
    pub(super) fn new(sizes: impl Iterator<Item = u64>) -> io::Result<Magazines> {
        let slots_of = |size: u64| (BYTES_MAX / size).min(SLOTS_MAX as u64) as usize;
        let slots_max: Vec<usize> = sizes.map(slots_of).collect();
        let counts = THREADS_MAX * slots_max.len();
        let slots = counts * SLOTS_MAX;
        Ok(Magazines {
            counts: Array::reserve(counts, counts)?,
            slots: Array::reserve(slots, slots)?,
            slots_max,
        })
    }

    /// `None` for threads without a number, and if there is no such class.
    fn of(&self, thread: usize, class: usize) -> Option<Magazine<'_>> {
        let slots_max = *self.slots_max.get(class)?;
        let index = thread * self.slots_max.len() + class;
        (thread < THREADS_MAX).then(|| Magazine {
            count: self.counts.get(index),
            slots: &self.slots,
            first: index * SLOTS_MAX,
            slots_max,
        })
    }

    /// The magazines that may be in use, if these classes are.
    fn used(&self, classes: &[usize]) -> impl Iterator<Item = Magazine<'_>> {
        (0..thread_indices_end().min(THREADS_MAX))
            .flat_map(move |thread| classes.iter().filter_map(move |&class| self.of(thread, class)))
    }

    /// Takes the slot that came last. `thread` is the calling thread, which will fill the slot.
    #[inline]
    pub(super) fn take(&self, thread: usize, class: usize) -> Option<Offset> {
        self.of(thread, class)?.take()
    }

    /// All slots that are in magazines of these classes. Exact when nobody frees or takes any.
    pub(super) fn slots(&self, classes: &[usize]) -> Vec<Offset> {
        self.used(classes)
            .flat_map(|magazine| magazine.copy(magazine.count.load(Ordering::Acquire)))
            .collect()
    }

    /// Empties all magazines of these classes.
    fn take_all(&self, classes: &[usize]) -> Vec<Offset> {
        self.used(classes).flat_map(|magazine| magazine.take_all()).collect()
    }
}

impl Magazine<'_> {
    fn slot(&self, index: usize) -> &AtomicU64 {
        self.slots.get(self.first + index)
    }

    #[inline]
    fn take(&self) -> Option<Offset> {
        loop {
            let count = self.count.load(Ordering::Relaxed);
            let last = (count & LEN_MASK).checked_sub(1)?;
            let slot = self.slot(last as usize).load(Ordering::Relaxed);
            let taken =
                self.count.compare_exchange(count, count - 1, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(Offset(slot));
            }
        }
    }

    /// Adds slots; returns how many had room.
    fn add(&self, slots: &[Offset]) -> usize {
        loop {
            let count = self.count.load(Ordering::Relaxed);
            let len = (count & LEN_MASK) as usize;
            let added = slots.len().min(self.slots_max - len);
            if added == 0 {
                return 0;
            }
            for (index, slot) in (len..).zip(&slots[..added]) {
                self.slot(index).store(slot.0, Ordering::Relaxed);
            }
            let more = (count & !LEN_MASK).wrapping_add(VERSION) | (len + added) as u64;
            // Release: a thread that takes all of them sees which they are.
            let shown =
                self.count.compare_exchange(count, more, Ordering::Release, Ordering::Relaxed);
            if shown.is_ok() {
                return added;
            }
        }
    }

    fn copy(&self, count: u64) -> Vec<Offset> {
        let slots = 0..(count & LEN_MASK) as usize;
        slots.map(|index| Offset(self.slot(index).load(Ordering::Relaxed))).collect()
    }

    fn take_all(&self) -> Vec<Offset> {
        loop {
            let count = self.count.load(Ordering::Acquire);
            let slots = self.copy(count);
            let none = count & !LEN_MASK;
            let taken = slots.is_empty()
                || self
                    .count
                    .compare_exchange(count, none, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if taken {
                return slots;
            }
        }
    }
}

impl<M: Medium> Heap<M> {
    /// Like [`Heap::reclaim`], for a thread that is pinned until this returns. It keeps small slots for its next items.
    pub fn reclaim_pinned(&self, at: Offset, guard: &Guard<'_>) {
        self.reclaim_many(std::iter::once(at), guard);
    }

    /// [`Heap::reclaim_pinned`] for many items, with overlapped cache misses.
    pub fn reclaim_many(&self, items: impl Iterator<Item = Offset> + Clone, _guard: &Guard<'_>) {
        items.clone().for_each(|at| self.segments.prefetch(at.0 >> self.segment_log2));
        let mut kept = Kept { class: 0, slots: [Offset(0); TOGETHER], len: 0 };
        for at in items {
            let Some(class) = self.class_to_keep(at) else {
                self.release(at);
                continue;
            };
            if kept.len == TOGETHER || kept.class != class {
                self.keep(&mut kept);
            }
            kept.class = class;
            kept.slots[kept.len] = at;
            kept.len += 1;
        }
        self.keep(&mut kept);
    }

    /// The class of the slot at `at`, if a magazine may have that slot.
    #[inline]
    fn class_to_keep(&self, at: Offset) -> Option<usize> {
        let (segment, class) = self.slot_at(at)?;
        let is_missing = self.reserves.get(class)?.missing() != 0;
        // The pin lasts until the slot is in the magazine. A thread that empties the segment waits for it, then takes
        // the slot out.
        (!is_missing && self.stays(segment) && !self.is_damaged()).then_some(class)
    }

    fn keep(&self, kept: &mut Kept) {
        let slots = &kept.slots[..kept.len];
        let magazine = self.magazines.of(thread_index(), kept.class);
        let added = magazine.map_or(0, |magazine| magazine.add(slots));
        slots[added..].iter().for_each(|&at| self.prefetch_bit(at));
        slots[added..].iter().for_each(|&at| self.release(at));
        kept.len = 0;
    }

    /// Hints that the slot at `at` is about to be freed.
    fn prefetch_bit(&self, at: Offset) {
        if let Some(Room::Slot { segment, slot, .. }) = self.room_at(at) {
            prefetch_write(self.state(segment).bits(slot as usize / 64));
        }
    }

    /// Frees what is in the magazines of all threads, living or ended.
    pub(super) fn recall_magazines(&self) {
        self.magazines.take_all(&self.classes_used()).into_iter().for_each(|at| self.release(at));
    }
}

/// Slots of one class on their way to a magazine.
struct Kept {
    class: usize,
    slots: [Offset; TOGETHER],
    len: usize,
}
