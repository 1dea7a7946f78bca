//! Slots that threads have taken from segments and not handed out yet.
//!
//! A thread's cache for a class is two words. Its *place* is the segment that it owns and the word of that segment's
//! bitmap that it took last. Its *bits* are what is left of that word.
//!
//! Protocol. The owner takes a bit by compare-and-swap. Only the owner puts bits in, while the place is locked. A
//! thread that needs what others have locks the place, takes all bits, and leaves a cache without a place. So when the
//! owner's compare-and-swap succeeds, the bits it saw are those that it put in itself, and belong to the place that it
//! put in with them. Only an owner that has run out of bits waits for a lock: for the few steps in which another thread
//! takes them.

use super::Heap;
use super::segment::status;
use crate::medium::Medium;
use crate::sync::{AtomicU64, Ordering, THREADS_MAX, spin, thread_indices_end};

/// Flag of a place: the owner fills its cache, or another thread empties it.
const LOCKED: u64 = 1 << 7;
/// Bits of a place: the word of the bitmap.
const WORD_MASK: u64 = LOCKED - 1;
const SEGMENT_SHIFT: u32 = 8;

/// The word of a bitmap from which a cache's bits come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BitmapWord {
    pub(super) segment: u64,
    /// Word of the segment's bitmap.
    pub(super) word: usize,
}

impl BitmapWord {
    /// 0 is no place.
    fn encode(place: Option<BitmapWord>) -> u64 {
        place.map_or(0, |BitmapWord { segment, word }| (segment + 1) << SEGMENT_SHIFT | word as u64)
    }

    fn decode(word: u64) -> Option<BitmapWord> {
        let segment = (word >> SEGMENT_SHIFT).checked_sub(1)?;
        Some(BitmapWord { segment, word: (word & WORD_MASK) as usize })
    }
}

/// A thread's cache for one class.
pub(super) struct Cache<'a> {
    pub(super) place: &'a AtomicU64,
    pub(super) bits: &'a AtomicU64,
}

impl Cache<'_> {
    /// Takes a free slot: its place and the number of its bit there. Only the owner calls this.
    #[inline]
    pub(super) fn take(&self) -> Option<(BitmapWord, u32)> {
        loop {
            let bits = self.bits.load(Ordering::Relaxed);
            if bits == 0 {
                return None;
            }
            // Acquire: if a thread that took the bits left this place, they are seen to be gone.
            let place = BitmapWord::decode(self.place.load(Ordering::Acquire));
            let rest = bits & (bits - 1);
            let taken =
                self.bits.compare_exchange(bits, rest, Ordering::Relaxed, Ordering::Relaxed);
            if let (Some(place), Ok(_)) = (place, taken) {
                return Some((place, bits.trailing_zeros()));
            }
        }
    }

    /// Locks the place, if there is one and nobody else has locked it.
    fn try_lock(&self) -> Option<BitmapWord> {
        let word = self.place.load(Ordering::Relaxed);
        let place = BitmapWord::decode(word)?;
        if word & LOCKED != 0 {
            return None;
        }
        self.place
            .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| place)
    }

    /// Locks the place for the owner. `None` if there is no place; nobody else will set one.
    pub(super) fn lock(&self) -> Option<BitmapWord> {
        let mut turn = 0;
        loop {
            if let Some(place) = self.try_lock() {
                return Some(place);
            }
            if self.place.load(Ordering::Acquire) == 0 {
                return None;
            }
            spin(&mut turn);
        }
    }

    /// Unlocks the place by setting another one, with the bits that belong there. For the thread that has locked it, or
    /// for the owner if there is no place.
    pub(super) fn set(&self, place: Option<BitmapWord>, bits: u64) {
        if bits != 0 {
            self.bits.store(bits, Ordering::Relaxed);
        }
        self.place.store(BitmapWord::encode(place), Ordering::Release);
    }
}

impl<M: Medium> Heap<M> {
    pub(super) fn cache(&self, thread: usize, class: usize) -> Cache<'_> {
        let index = (thread * super::CLASSES_MAX + class) * 2;
        Cache { place: self.caches.get(index), bits: self.caches.get(index + 1) }
    }

    /// The caches that may be in use.
    fn used_caches(&self) -> Vec<Cache<'_>> {
        let numbered = thread_indices_end().min(THREADS_MAX);
        let mut caches = Vec::new();
        // To look at those of all classes takes long if there are many threads.
        for class in self.classes_used() {
            caches.push(self.cache(THREADS_MAX, class));
            (0..numbered).for_each(|thread| caches.push(self.cache(thread, class)));
        }
        caches
    }

    /// Places and bits of all caches.
    pub(super) fn cached(&self) -> Vec<(BitmapWord, u64)> {
        let mut cached = Vec::new();
        for cache in self.used_caches() {
            if let Some(place) = BitmapWord::decode(cache.place.load(Ordering::Relaxed)) {
                cached.push((place, cache.bits.load(Ordering::Relaxed)));
            }
        }
        cached
    }

    /// Puts back what threads, living or ended, have in their caches and magazines. A thread in need calls this; the
    /// segments are then listed for anybody. Caches that are just being filled are skipped.
    pub(super) fn recall_caches(&self) {
        self.recall_magazines();
        for cache in self.used_caches() {
            if let Some(BitmapWord { segment, word }) = cache.try_lock() {
                let bits = cache.bits.swap(0, Ordering::Relaxed);
                if bits != 0 {
                    // Before the segment may be listed: its next owner looks for bits there.
                    self.state(segment).bits(word).fetch_or(bits, Ordering::SeqCst);
                }
                cache.set(None, 0);
                self.give_up(segment);
            }
        }
    }

    /// Gives up a segment that the caller owned. As soon as a slot of it is free, it is on its class's list.
    pub(super) fn give_up(&self, segment: u64) {
        let state = self.state(segment);
        state.status.store(status::FULL, Ordering::SeqCst);
        // A slot freed before the status changed was left to the owner: its freer saw OWNED.
        if state.has_free() {
            self.list_if_full(segment);
        }
    }
}
