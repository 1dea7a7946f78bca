//! Taking and giving back slots.
//!
//! A thread takes slots from its magazine ([`magazine`](super::magazine)), else from its cache ([`Cache`]). It frees
//! them into its magazine; without one, or if that is full, it sets the slot's bit. If the slot's class has too few
//! slots set aside, it sets the slot aside. A segment without free bits is given up as `FULL`; the thread that then
//! frees a slot of it puts it on its class's list. A thread that finds nothing listed and no free segment takes what
//! others have cached, before the heap grows.

use super::cache::{BitmapWord, Cache};
use super::reserve::Reserve;
use super::segment::{Descriptor, status, usage};
use super::{Heap, Room, SCARCE_FRACTION, WIDE_SLAB_FRACTION, standing};
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::{Mutex, Ordering, THREADS_MAX, thread_index};

impl<M: Medium> Heap<M> {
    /// Space for `bytes` bytes, at a multiple of 16. Its content is undefined. An item that replaces the one at
    /// `replaced` may take space that is set aside. It does so before the heap tries to grow, which costs a system call
    /// each time if the heap is full.
    pub(super) fn allocate(
        &self,
        bytes: u64,
        replaced: Option<Offset>,
    ) -> Result<Offset, SpaceError> {
        if let Some(replaced) = replaced {
            let at_hand = self.allocate_for_copy(bytes);
            if let Some(at) = at_hand.or_else(|| self.take_reserved(bytes, replaced)) {
                return Ok(at);
            }
        }
        if let Some(at) = self.allocate_wide(bytes) {
            return Ok(at);
        }
        match self.classes.narrow_class_of(bytes) {
            Some(class) => self.allocate_small(class, |class| self.take_segment(class)),
            None if replaced.is_some() => {
                self.allocate_large(bytes, |count| self.take_free_run(count))
            }
            None => self.allocate_new_large(bytes),
        }
    }

    /// A slot in a wide slab, or else what a narrow one has left: where there is no room for a slab, there may be for
    /// the item.
    fn allocate_wide(&self, bytes: u64) -> Option<Offset> {
        let wide = self.wide_class_of(bytes)?;
        let left = || {
            let class = self.classes.narrow_class_of(bytes)?;
            self.allocate_small(class, |class| self.take_listed(class).ok_or(())).ok()
        };
        if let Some(at) = self.allocate_at_hand(wide).or_else(left) {
            return Some(at);
        }
        let total = self.segments_taken.load(Ordering::Relaxed);
        let free = self.segments_free.load(Ordering::Relaxed);
        // What is free in short runs is used before the heap grows. And what was refused is refused again: until the
        // heap grows for something else, others are not to lose their caches for each item.
        if free > total / SCARCE_FRACTION || self.wide_refused_at.load(Ordering::Relaxed) == total {
            return None;
        }
        let slot = self.allocate_small(wide, |class| self.take_segment(class));
        if slot.is_err() {
            self.wide_refused_at.store(total, Ordering::Relaxed);
        }
        slot.ok()
    }

    /// Space for a copy of an item. Takes only what is at hand, nothing that is set aside, and does not grow the heap.
    pub(super) fn allocate_for_copy(&self, bytes: u64) -> Option<Offset> {
        let wide = || self.allocate_at_hand(self.wide_class_of(bytes)?);
        let narrow = || match self.classes.narrow_class_of(bytes) {
            Some(class) => self.allocate_at_hand(class),
            None => {
                let at = self.allocate_large(bytes, |count| self.take_run(count).ok_or(())).ok()?;
                // It may have come from a slab. Then it is to be replaced as a large one.
                self.reserved_run.want(bytes.div_ceil(self.segment_bytes()));
                Some(at)
            }
        };
        wide().or_else(narrow)
    }

    /// The wide class for an item of so many bytes, if it has one, and the heap is large enough for slabs of that
    /// class.
    pub(super) fn wide_class_of(&self, bytes: u64) -> Option<usize> {
        let class = self.classes.wide_class_of(bytes)?;
        let total = self.segments_taken.load(Ordering::Relaxed);
        (self.classes.segments(class) <= total / WIDE_SLAB_FRACTION).then_some(class)
    }

    /// The class for an item of so many bytes; `None` if it takes whole segments.
    pub(super) fn class_of(&self, bytes: u64) -> Option<usize> {
        self.wide_class_of(bytes).or_else(|| self.classes.narrow_class_of(bytes))
    }

    /// A slot of a class, if there is one without taking from other threads or growing.
    #[inline]
    pub(super) fn allocate_at_hand(&self, class: usize) -> Option<Offset> {
        self.allocate_small(class, |class| self.segment_at_hand(class).ok_or(())).ok()
    }

    fn allocate_small<E>(
        &self,
        class: usize,
        take_segment: impl Fn(usize) -> Result<u64, E>,
    ) -> Result<Offset, E> {
        let thread = thread_index();
        if let Some(at) = self.magazines.take(thread, class) {
            return Ok(at);
        }
        // Threads without a number share one cache, which belongs to one of them at a time.
        let _shared = (thread == THREADS_MAX).then(|| self.shared_cache.lock());
        let cache = self.cache(thread, class);
        loop {
            if let Some((BitmapWord { segment, word }, bit)) = cache.take() {
                let slot = word as u64 * 64 + u64::from(bit);
                let size = self.classes.size(class).unwrap_or(0);
                return Ok(self.start_of(segment).add(slot * size));
            }
            match cache.lock() {
                Some(place) => self.refill(&cache, place),
                None => {
                    let segment = take_segment(class)?;
                    cache.set(Some(BitmapWord { segment, word: 0 }), 0);
                }
            }
        }
    }

    /// Takes the next free bits of the owned segment into the cache, which is locked, or gives the
    /// segment up.
    fn refill(&self, cache: &Cache<'_>, BitmapWord { segment, word: from }: BitmapWord) {
        let state = self.state(segment);
        for word in from..state.words() {
            if state.bits(word).load(Ordering::Relaxed) != 0 {
                let bits = state.bits(word).swap(0, Ordering::Acquire);
                return cache.set(Some(BitmapWord { segment, word }), bits);
            }
        }
        if from > 0 {
            return cache.set(Some(BitmapWord { segment, word: 0 }), 0);
        }
        cache.set(None, 0);
        self.give_up(segment);
    }

    pub(super) fn list_if_full(&self, segment: u64) {
        let state = self.state(segment);
        let listed = state.status.compare_exchange(
            status::FULL,
            status::LISTED,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
        if listed.is_ok()
            && let Some(list) = self.list_of(segment)
        {
            list.lock().push(segment);
        }
    }

    /// The class of a slab, by its first segment.
    pub(super) fn class_of_segment(&self, segment: u64) -> Option<usize> {
        let usage = self.state(segment).usage.load(Ordering::Relaxed);
        usage.checked_sub(usage::SMALL).map(|class| class as usize)
    }

    pub(super) fn list_of(&self, segment: u64) -> Option<&Mutex<Vec<u64>>> {
        self.partial.get(self.class_of_segment(segment)?)
    }

    /// A slab of `class` with free slots, owned by the caller.
    #[inline(never)]
    fn take_segment(&self, class: usize) -> Result<u64, SpaceError> {
        if let Some(segment) = self.segment_at_hand(class) {
            return Ok(segment);
        }
        let growing = self.growing.lock();
        // Whoever held the lock before may have made room for all who waited. To recall caches takes time for each
        // thread that there is.
        if let Some(segment) = self.segment_at_hand(class) {
            return Ok(segment);
        }
        self.recall_caches();
        if let Some(listed) = self.take_listed(class) {
            return Ok(listed);
        }
        let count = self.classes.segments(class);
        let segment = self.take_run_or_grow(count, count == 1)?;
        drop(growing);
        Ok(self.make_small(segment, class))
    }

    /// Like [`Heap::take_segment`], but without taking from other threads or growing.
    fn segment_at_hand(&self, class: usize) -> Option<u64> {
        let count = self.classes.segments(class);
        let free = || self.take_run(count).map(|segment| self.make_small(segment, class));
        self.take_listed(class).or_else(free)
    }

    /// Makes free segments in a row, which the caller owns, a slab of `class`.
    fn make_small(&self, segment: u64, class: usize) -> u64 {
        let state = self.state(segment);
        state.count.store(self.classes.slots(class) as u32, Ordering::Relaxed);
        for word in 0..state.words() {
            state.bits(word).store(state.valid_bits(word), Ordering::Relaxed);
        }
        state.status.store(status::OWNED, Ordering::Relaxed);
        // The word must survive before any item does: a sweep finds slots by it. An item's own
        // fence would not do, since threads without a number share their segments.
        let incarnation = self.incarnation;
        self.describe(segment, Descriptor::Small { class: class as u8, incarnation });
        self.medium().fence();
        self.mark_slab(segment, class);
        self.set_slots_aside_of(class, segment);
        segment
    }

    fn take_listed(&self, class: usize) -> Option<u64> {
        let segment = self.partial.get(class)?.lock().pop()?;
        self.state(segment).status.store(status::OWNED, Ordering::SeqCst);
        Some(segment)
    }

    /// A run of free segments: from the free ones, else from what threads have cached, else by growth.
    #[inline(never)]
    fn take_free_run(&self, count: u64) -> Result<u64, SpaceError> {
        if let Some(first) = self.take_run(count) {
            return Ok(first);
        }
        let _growing = self.growing.lock();
        if let Some(first) = self.take_run(count) {
            return Ok(first);
        }
        self.recall_caches();
        self.take_run_or_grow(count, true)
    }

    /// A run of free segments: from the free ones, else by releasing empty small ones, else by taking back space that
    /// the system has, else by growth. The caller holds the lock for growth. If the run `is_needed`, this may also take
    /// back shorter ones.
    fn take_run_or_grow(&self, count: u64, is_needed: bool) -> Result<u64, SpaceError> {
        loop {
            if let Some(first) = self.take_run(count) {
                return Ok(first);
            }
            if self.is_unswept() {
                return Err(SpaceError::Full {
                    needed_bytes: count << self.segment_log2,
                    reason: "what is free in its heap has yet to be found".into(),
                });
            }
            self.release_empty_segments();
            if let Some(first) = self.take_run(count) {
                return Ok(first);
            }
            // What the system refuses to fill leaves what it has given already: the pool may have space behind it.
            let unfilled = match self.fill_vacant(count, count) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(refused) => Some(refused),
            };
            if let Err(refused) = self.grow(count)
                // With their neighbours, shorter runs may do.
                && !(is_needed && self.fill_vacant(1, count)?)
            {
                return Err(unfilled.unwrap_or(refused));
            }
        }
    }

    /// Makes listed slabs whose slots are all free or set aside available to other classes.
    pub(super) fn release_empty_segments(&self) {
        for (list, reserve) in self.partial.iter().zip(&self.reserves) {
            let mut list = list.lock();
            let empty = self.take_empty_slabs(reserve, &mut list, &reserve.slots());
            drop(list);
            for slab in empty {
                self.release_slab(slab);
            }
        }
    }

    /// Takes slabs off their list, which is locked, if all their slots are free or set aside. What is said to be
    /// `set_aside` may no longer be so: threads take such slots without the list's lock.
    pub(super) fn take_empty_slabs(
        &self,
        reserve: &Reserve,
        list: &mut Vec<u64>,
        set_aside: &[Offset],
    ) -> Vec<u64> {
        let mut candidates = Vec::new();
        list.retain(|&slab| {
            let state = self.state(slab);
            let is_there = |slot: &&Offset| self.slab_of(**slot) == slab;
            let set_aside = set_aside.iter().filter(is_there).count() as u64;
            let may_be_empty = state.free() + set_aside >= state.slots();
            if may_be_empty {
                candidates.push(slab);
            }
            !may_be_empty
        });
        if candidates.is_empty() {
            return Vec::new();
        }
        for at in reserve.give_up(|slot| candidates.contains(&self.slab_of(slot))) {
            if let Some(Room::Slot { segment, slot, .. }) = self.room_at(at) {
                self.free_slot(segment, slot as usize);
            }
        }
        // Now only free bits count. While the list is locked, nobody takes them.
        let (empty, others): (Vec<u64>, Vec<u64>) =
            candidates.into_iter().partition(|&slab| self.is_empty(slab));
        list.extend(others);
        // Slots of the slabs that stay make up for those that were set aside in slabs that go.
        self.set_slots_aside_of_listed(reserve, list);
        empty
    }

    /// Gives back a slab in which nothing is stored and from which nobody allocates; returns how many bytes.
    pub(super) fn release_slab(&self, first: u64) -> u64 {
        let count = self.class_of_segment(first).map_or(1, |class| self.classes.segments(class));
        for segment in first..first + count {
            self.state(segment).usage.store(usage::FREE, Ordering::Release);
        }
        self.state(first).status.store(status::WHOLE, Ordering::Relaxed);
        // If this does not survive, a sweep finds the slab empty and releases it again.
        self.describe(first, Descriptor::Free);
        if count > 1 {
            // But not once the other segments serve somebody else: their own words are not read while this one says
            // that they are part of a slab.
            self.medium().fence();
        }
        self.release_run(first, count);
        count << self.segment_log2
    }

    fn allocate_large<E>(
        &self,
        bytes: u64,
        take: impl Fn(u64) -> Result<u64, E>,
    ) -> Result<Offset, E> {
        let count = bytes.div_ceil(self.segment_bytes());
        take(count).map(|first| self.take_large(first, count))
    }

    /// Space for an item that replaces none. Refused if the item could not be replaced later.
    #[inline(never)]
    fn allocate_new_large(&self, bytes: u64) -> Result<Offset, SpaceError> {
        let count = bytes.div_ceil(self.segment_bytes());
        let first = self.take_free_run(count)?;
        let wanted = self.reserved_run.wanted_with(count);
        if let Err(full) = self.set_run_aside(wanted, |count| self.take_free_run(count)) {
            self.release_run(first, count);
            return Err(full);
        }
        // Not before it has room: what was refused must not take room from what is smaller.
        self.reserved_run.want(count);
        Ok(self.take_large(first, count))
    }

    /// Makes a run of segments, which the caller owns, a large item's.
    pub(super) fn take_large(&self, first: u64, count: u64) -> Offset {
        let segments = count as u32;
        // A sweep skips the tails' words because the first word says how many there are. The first word survives before
        // the item is published, by the item's own fence.
        self.describe(first, Descriptor::Large { segments, incarnation: self.incarnation });
        self.state(first).status.store(status::WHOLE, Ordering::Relaxed);
        self.mark_large(first, segments);
        self.start_of(first)
    }

    /// Gives back what [`Heap::allocate`] returned. Leaves alone offsets at which nothing can begin, which only a
    /// damaged pool contains.
    pub(super) fn release(&self, at: Offset) {
        match self.standing.load(Ordering::Acquire) {
            standing::SWEPT => {}
            standing::DAMAGED => return,
            _ => {
                if self.release_sealed(at) {
                    return;
                }
            }
        }
        match self.room_at(at) {
            None => {}
            Some(Room::Run { segment, segments }) => self.release_large(segment, segments),
            Some(Room::Slot { segment, class, slot }) => {
                let stays = || self.stays(segment);
                let is_set_aside =
                    self.reserves.get(class).is_some_and(|reserve| reserve.put(at, stays));
                if !is_set_aside {
                    self.free_slot(segment, slot as usize);
                }
            }
        }
    }

    /// Leaves a slot to the segment's owner, or to its next one.
    pub(super) fn free_slot(&self, segment: u64, slot: usize) {
        let state = self.state(segment);
        state.bits(slot / 64).fetch_or(1 << (slot % 64), Ordering::SeqCst);
        if state.status.load(Ordering::SeqCst) == status::FULL {
            self.list_if_full(segment);
        }
    }

    #[inline(never)]
    pub(super) fn release_large(&self, first: u64, count: u64) {
        for segment in first..first + count {
            self.state(segment).usage.store(usage::FREE, Ordering::Release);
        }
        // Durable before the segments serve other threads: their own words are not read while this one says that they
        // are part of a large item.
        self.describe(first, Descriptor::Free);
        self.medium().fence();
        // The item that replaced it may have taken what was set aside.
        self.release_or_set_aside(first, count);
    }
}
