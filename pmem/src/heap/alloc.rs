//! Taking and giving back slots.
//!
//! A thread's cache per class is two words: the segment it owns with the bitmap word it took
//! last, and the bits it took from that word and has not handed out yet. Anyone frees a slot by
//! setting its bit. A segment without free bits is given up as `FULL`; whoever then frees a slot
//! of it puts it on its class's list.

use super::segment::{Descriptor, status, usage};
use super::{CLASSES_MAX, Heap};
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::{AtomicU64, Ordering, THREADS_MAX, thread_index};

/// A thread's cache for one class.
struct Cache<'a> {
    /// `segment + 1` in the high bits, bitmap word in the low 8; 0: owns no segment.
    place: &'a AtomicU64,
    /// Free slots of that bitmap word that belong to the thread.
    bits: &'a AtomicU64,
}

impl Cache<'_> {
    fn place(&self) -> Option<(u64, usize)> {
        let place = self.place.load(Ordering::Relaxed);
        (place != 0).then(|| ((place >> 8) - 1, (place & 0xff) as usize))
    }

    fn set_place(&self, place: Option<(u64, usize)>) {
        let word = place.map_or(0, |(segment, word)| (segment + 1) << 8 | word as u64);
        self.place.store(word, Ordering::Relaxed);
    }
}

impl<M: Medium> Heap<M> {
    fn cache(&self, thread: usize, class: usize) -> Cache<'_> {
        let index = (thread * CLASSES_MAX + class) * 2;
        Cache { place: self.caches.get(index), bits: self.caches.get(index + 1) }
    }

    /// Slots that threads have taken and not handed out: `(segment, bitmap word, bits)`.
    pub(super) fn cached(&self) -> Vec<(u64, usize, u64)> {
        let mut found = Vec::new();
        for thread in 0..=THREADS_MAX {
            for class in 0..self.classes.count() {
                let cache = self.cache(thread, class);
                if let Some((segment, word)) = cache.place() {
                    found.push((segment, word, cache.bits.load(Ordering::Relaxed)));
                }
            }
        }
        found
    }

    /// Space for `bytes` bytes, at a multiple of 16. Its content is undefined.
    pub(super) fn allocate(&self, bytes: u64) -> Result<Offset, SpaceError> {
        let Some(class) = self.classes.class_of(bytes) else {
            return self.allocate_large(bytes);
        };
        let thread = thread_index();
        let _shared = (thread == THREADS_MAX).then(|| self.shared_cache.lock());
        let cache = self.cache(thread, class);
        loop {
            let bits = cache.bits.load(Ordering::Relaxed);
            match cache.place() {
                Some((segment, word)) if bits != 0 => {
                    cache.bits.store(bits & (bits - 1), Ordering::Relaxed);
                    let slot = word as u64 * 64 + u64::from(bits.trailing_zeros());
                    let size = self.classes.size(class).unwrap_or(0);
                    return Ok(self.start_of(segment).add(slot * size));
                }
                Some((segment, word)) => self.take_bits(&cache, segment, word),
                None => {
                    let segment = self.take_segment(class)?;
                    cache.set_place(Some((segment, 0)));
                }
            }
        }
    }

    /// Takes the next free bits of the owned segment into the cache, or gives the segment up.
    fn take_bits(&self, cache: &Cache<'_>, segment: u64, from: usize) {
        let state = self.state(segment);
        for word in from..state.words() {
            if state.bits[word].load(Ordering::Relaxed) != 0 {
                let bits = state.bits[word].swap(0, Ordering::Acquire);
                cache.set_place(Some((segment, word)));
                cache.bits.store(bits, Ordering::Relaxed);
                return;
            }
        }
        if from > 0 {
            cache.set_place(Some((segment, 0)));
            return;
        }
        cache.set_place(None);
        state.status.store(status::FULL, Ordering::SeqCst);
        // A slot freed before the status changed was left to this thread: its freer saw OWNED.
        if state.has_free() {
            self.list_if_full(segment);
        }
    }

    fn list_if_full(&self, segment: u64) {
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

    pub(super) fn list_of(&self, segment: u64) -> Option<&super::Mutex<Vec<u64>>> {
        let class = self.state(segment).usage.load(Ordering::Relaxed).checked_sub(usage::SMALL)?;
        self.partial.get(class as usize)
    }

    /// A segment of `class` with free slots, owned by the caller.
    fn take_segment(&self, class: usize) -> Result<u64, SpaceError> {
        let listed = self.partial.get(class).and_then(|list| list.lock().pop());
        if let Some(segment) = listed {
            self.state(segment).status.store(status::OWNED, Ordering::SeqCst);
            return Ok(segment);
        }
        let segment = self.take_free_run(1)?;
        let state = self.state(segment);
        let slots = self.segment_bytes() / self.classes.size(class).unwrap_or(u64::MAX);
        state.count.store(slots as u32, Ordering::Relaxed);
        for word in 0..state.words() {
            state.bits[word].store(state.valid_bits(word), Ordering::Relaxed);
        }
        state.status.store(status::OWNED, Ordering::Relaxed);
        // The word must survive before any item does: a sweep finds slots by it. An item's own
        // fence would not do, since threads without a number share their segments.
        let incarnation = self.incarnation;
        self.describe(segment, Descriptor::Small { class: class as u8, incarnation });
        self.medium().fence();
        state.usage.store(usage::SMALL + class as u32, Ordering::Release);
        Ok(segment)
    }

    /// A run of free segments: from the free ones, else by emptied small ones, else by growth.
    fn take_free_run(&self, count: u64) -> Result<u64, SpaceError> {
        loop {
            if let Some(first) = self.take_run(count) {
                return Ok(first);
            }
            let _growing = self.growing.lock();
            if let Some(first) = self.take_run(count) {
                return Ok(first);
            }
            self.release_empty_segments();
            if let Some(first) = self.take_run(count) {
                return Ok(first);
            }
            self.grow(count)?;
        }
    }

    /// Makes listed segments whose slots are all free available to other classes.
    fn release_empty_segments(&self) {
        for list in &self.partial {
            let mut empty = Vec::new();
            list.lock().retain(|&segment| {
                let is_empty = self.state(segment).is_all_free();
                if is_empty {
                    empty.push(segment);
                }
                !is_empty
            });
            for segment in empty {
                self.release_segment(segment);
            }
        }
    }

    /// Gives a small segment back in which nothing is stored and which nobody allocates from.
    pub(super) fn release_segment(&self, segment: u64) {
        let state = self.state(segment);
        state.usage.store(usage::FREE, Ordering::Release);
        state.status.store(status::SEALED, Ordering::Relaxed);
        // If this does not survive, a sweep finds the segment empty and releases it again.
        self.describe(segment, Descriptor::Free);
        self.release_run(segment, 1);
    }

    fn allocate_large(&self, bytes: u64) -> Result<Offset, SpaceError> {
        let count = bytes.div_ceil(self.segment_bytes());
        let first = self.take_free_run(count)?;
        let segments = count as u32;
        self.state(first).count.store(segments, Ordering::Relaxed);
        // The tails' words say free; a sweep skips them because the first one says how many
        // there are. It survives before the item is published, by the item's own fence.
        self.describe(first, Descriptor::Large { segments, incarnation: self.incarnation });
        for tail in 1..count {
            self.state(first + tail).usage.store(usage::TAIL, Ordering::Relaxed);
        }
        self.state(first).usage.store(usage::LARGE, Ordering::Release);
        Ok(self.start_of(first))
    }

    /// Gives back what [`Heap::allocate`] returned. Offsets at which nothing can begin, which
    /// only a damaged pool contains, are left alone.
    pub(super) fn release(&self, at: Offset) {
        if self.damaged.load(Ordering::Relaxed) {
            return;
        }
        let Some(size) = self.capacity_at(at) else {
            return;
        };
        let segment = at.0 >> self.segment_log2;
        let state = self.state(segment);
        if state.usage.load(Ordering::Acquire) == usage::LARGE {
            self.release_large(segment, state.slots());
            return;
        }
        let slot = ((at.0 & (self.segment_bytes() - 1)) / size) as usize;
        state.bits[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
        if state.status.load(Ordering::SeqCst) == status::FULL {
            self.list_if_full(segment);
        }
    }

    pub(super) fn release_large(&self, first: u64, count: u64) {
        for segment in first..first + count {
            self.state(segment).usage.store(usage::FREE, Ordering::Release);
        }
        // Durable before its segments serve other threads: their own words would not be read
        // while this one says that they are part of a large item.
        self.describe(first, Descriptor::Free);
        self.medium().fence();
        self.release_run(first, count);
    }
}
