//! Growth before anybody waits for it.
//!
//! A quarter of a large heap takes long to get from the system. So a thread that takes some of the last free segments
//! asks for more ([`Heap::ask_for_growth`]), and goes on with those. A helper prepares the memory, without a lock that
//! writers need, and then takes the extent, which no longer takes time.

use super::Heap;
use super::grow::GROWTH_SEGMENTS_MIN;
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::sync::{AtomicU8, Ordering};

/// A heap is short if no more than this fraction of it is free ...
const SHORT_FRACTION: u64 = 16;
/// ... and a small one, for which growth takes no time to speak of, if this is.
const SHORT_FRACTION_SMALL: u64 = 32;
/// A heap grows ahead by this fraction of it: by less than in need, since it may not be needed.
const AHEAD_FRACTION: u64 = 16;
/// Who cannot wait for growth ahead takes this fraction of it.
const IN_NEED_FRACTION: u64 = 4;

/// Whether growth is asked for.
#[derive(Debug, Default)]
pub(super) struct Growth(AtomicU8);

/// Enough is free, as far as anybody has seen.
const NOT_DUE: u8 = 0;
/// Nobody has been told so yet.
const DUE: u8 = 1;
/// A helper has.
const ASKED_FOR: u8 = 2;
/// There is none, or it was refused the space. The heap grows in need.
const IN_NEED: u8 = 3;

impl<M: Medium> Heap<M> {
    /// Whether the heap is about to need another extent. Does not wait.
    pub fn is_short(&self) -> bool {
        // Before the sweep nobody knows what is free.
        if self.segments_vacant.load(Ordering::Relaxed) > 0 || self.is_unswept() {
            return false;
        }
        let free = self.segments_free.load(Ordering::Relaxed);
        let total = self.segments_taken.load(Ordering::Relaxed);
        let fraction = if self.is_small(total) { SHORT_FRACTION_SMALL } else { SHORT_FRACTION };
        total > 0 && free <= total / fraction
    }

    /// Notes that the heap is short, if it is. A small one grows in less time than it takes to ask.
    pub(super) fn look_ahead(&self) {
        if self.growth.0.load(Ordering::Relaxed) == NOT_DUE
            && self.is_short()
            && !self.is_small(self.segments_taken.load(Ordering::Relaxed))
        {
            // One of those who see it says so.
            let _ =
                self.growth.0.compare_exchange(NOT_DUE, DUE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Called after a change that may have taken space: if growth has become due, one of the callers is to `wake`
    /// whoever sees to it, and to say whether there is anybody.
    #[inline(always)]
    pub fn ask_for_growth(&self, wake: impl FnOnce() -> bool) {
        if self.asks_for_growth() && !wake() {
            self.do_not_ask();
        }
    }

    #[inline(always)]
    pub(super) fn asks_for_growth(&self) -> bool {
        let growth = &self.growth.0;
        growth.load(Ordering::Relaxed) == DUE
            && growth.compare_exchange(DUE, ASKED_FOR, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether a helper has been asked to let the heap grow.
    pub fn is_growth_asked_for(&self) -> bool {
        self.growth.0.load(Ordering::Relaxed) == ASKED_FOR
    }

    pub(super) fn do_not_ask(&self) {
        self.growth.0.store(IN_NEED, Ordering::Relaxed);
    }

    /// After growth in need: where there was space for that, there may be some ahead.
    pub(super) fn ask_again(&self) {
        let growth = &self.growth.0;
        let _ = growth.compare_exchange(IN_NEED, NOT_DUE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Leaves it to the next change to ask again.
    pub fn put_growth_off(&self) {
        let growth = &self.growth.0;
        let _ = growth.compare_exchange(ASKED_FOR, DUE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Has the memory ready that growth takes. Needs no right to write: nothing in the pool changes.
    #[inline(never)]
    pub fn prepare_growth(&self) {
        if self.is_short() {
            // Refused, it is refused again to who takes the extent.
            let _ = self.pool.prepare(self.next_growth_bytes());
        }
    }

    /// Bytes by which the pool becomes longer when the heap next grows ahead.
    #[inline(never)]
    pub fn next_growth_bytes(&self) -> u64 {
        let count = self.segments_ahead();
        // What cannot be recorded is refused when it is taken.
        self.pool.bytes_of(|draft| self.take_segments(draft, count)).unwrap_or(0)
    }

    /// Takes the next extent before a writer has to wait for it, if the heap is short and there is room for a whole
    /// one. A helper calls this after [`Heap::prepare_growth`]. Needs the right to write. Refused, it is not asked for
    /// again until the heap has grown in need.
    #[inline(never)]
    pub fn grow_ahead(&self) -> Result<(), SpaceError> {
        let _growing = self.growing.lock();
        let grown = if self.is_short() { self.add_segments(self.segments_ahead()) } else { Ok(()) };
        let next = if grown.is_ok() { NOT_DUE } else { IN_NEED };
        self.growth.0.store(next, Ordering::Relaxed);
        grown
    }

    /// Segments to take for a writer that waits for them. If a helper is about to bring more, few will do.
    pub(super) fn segments_in_need(&self) -> u64 {
        if self.is_growth_asked_for() {
            return (self.segments_ahead() / IN_NEED_FRACTION).max(GROWTH_SEGMENTS_MIN);
        }
        self.segments_of_next_extent()
    }

    fn segments_ahead(&self) -> u64 {
        let total = self.segments_taken.load(Ordering::Relaxed);
        if self.is_small(total) {
            return self.segments_of_next_extent();
        }
        (total / AHEAD_FRACTION).max(GROWTH_SEGMENTS_MIN)
    }
}
