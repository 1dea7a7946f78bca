//! Empties segments, so that space that items of one size leave can serve any other size.
//!
//! Protocol. Victims leave the lists of their classes and are marked `DRAINING`. From then on nobody takes a slot of
//! them, sets one aside, or adds one to a magazine. Then all pins that exist at that moment have to end, the slots in
//! magazines go back to their segments, and once more all pins have to end. A thread that has taken a slot stays pinned
//! until its item is whole. So what lies in a taken slot does not change any more and can be read, whether a slot of
//! the table leads to it, it waits to be reclaimed, or its writer has yet to publish it. The table moves what it leads
//! to, as an update with the same value would, and retires the original. A victim in which nothing is taken afterwards
//! is a free segment. A victim in which something is left, because it is held or has no room elsewhere, goes back to
//! its class.
//!
//! None of this is recorded: after a crash a segment is what its slots say.

use super::Heap;
use super::segment::{status, usage};
use super::wanted::{Compacted, Wanted};
use crate::epoch::Epochs;
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::{Ordering, pause};

/// How often to look whether other threads' pins have ended: for about 25 ms.
const TRIES_MAX: u32 = if cfg!(any(feature = "simulated", feature = "loom")) { 2 } else { 100 };
/// A pass for a thread that waits for it empties at most this fraction of the heap, so that it ends soon ...
const PASS_FRACTION: u64 = 64;
/// ... but at least this many segments, so that passes are few.
const PASS_SEGMENTS_MIN: u64 = 4;

/// The owner of what lies in a heap, who can move it: the table whose slots lead to it.
pub trait Mover {
    /// Puts a [copy](Heap::write_copy) in place of what lies at `at`, if a slot leads to that, and retires the
    /// original. Returns whether there was room for the copy.
    fn relocate(&self, at: Offset) -> bool;

    /// Takes back what was retired and nobody holds.
    fn collect(&self);
}

impl<T: Mover + ?Sized> Mover for &T {
    fn relocate(&self, at: Offset) -> bool {
        (**self).relocate(at)
    }

    fn collect(&self) {
        (**self).collect();
    }
}

impl<M: Medium> Heap<M> {
    /// Makes room for what was `wanted`, after [`Heap::write_item`] found none. Takes back what is cached and set
    /// aside, and empties segments by moving what lies in them. Reports whether there is room then, for whoever comes
    /// first. Other threads that need room wait for this one.
    ///
    /// The caller is not pinned, and has the right to write.
    #[inline(never)]
    pub fn make_room(&self, wanted: &Wanted, epochs: &Epochs, mover: &dyn Mover) -> Compacted {
        let mut done = Compacted::default();
        let Some(bytes) = wanted.item_bytes else { return done };
        if self.is_damaged() {
            return done;
        }
        let narrow = self.classes.narrow_class_of(bytes);
        let count = match narrow {
            Some(_) => 1,
            None => self.run_for(bytes, !wanted.replaces),
        };
        let is_listed = |class| self.is_listed(class);
        let _compacting = self.compacting.lock();
        loop {
            self.take_back_what_is_unused();
            done.has_room = [narrow, self.class_of(bytes)].into_iter().flatten().any(is_listed)
                || self.free_runs.lock().has(count);
            if done.has_room {
                return done;
            }
            let total = self.segments_taken.load(Ordering::Relaxed);
            // For several segments in a row, first empty as many as possible: what is put between them would break rows
            // up.
            let enough = match count {
                1 => (total / PASS_FRACTION).max(PASS_SEGMENTS_MIN),
                _ => total,
            };
            let pass = self.empty_sparse_segments(enough, epochs, mover);
            done.add(pass);
            if pass.freed_bytes > 0 {
                continue;
            }
            if self.segments_free.load(Ordering::Relaxed) >= count {
                done.add(self.empty_window(count, epochs, mover));
                done.has_room = self.free_runs.lock().has(count);
            }
            return done;
        }
    }

    /// Empties some segments whose content fits into others of their class. If that frees nothing, no such segment is
    /// left. The caller is not pinned, and has the right to write.
    #[inline(never)]
    pub fn compact(&self, epochs: &Epochs, mover: &dyn Mover) -> Compacted {
        if self.is_damaged() {
            return Compacted::default();
        }
        let _compacting = self.compacting.lock();
        let free_before = self.segments_free.load(Ordering::Relaxed);
        self.take_back_what_is_unused();
        let free = self.segments_free.load(Ordering::Relaxed);
        let total = self.segments_taken.load(Ordering::Relaxed);
        let enough = (total / PASS_FRACTION).max(PASS_SEGMENTS_MIN);
        let mut done = self.empty_sparse_segments(enough, epochs, mover);
        done.freed_bytes += free.saturating_sub(free_before) << self.segment_log2;
        done
    }

    /// Segments in a row that a large item needs, including those set aside for its later replacement.
    fn run_for(&self, bytes: u64, is_new: bool) -> u64 {
        let count = bytes.div_ceil(self.segment_bytes());
        if !is_new {
            return count;
        }
        let wanted = self.reserved_run.wanted_with(count);
        count + if self.reserved_run.len() < wanted { wanted } else { 0 }
    }

    /// Returns slots in caches to their segments, and empty segments to all classes.
    fn take_back_what_is_unused(&self) {
        let _growing = self.growing.lock();
        self.recall_caches();
        self.release_empty_segments();
    }

    fn empty_sparse_segments(&self, enough: u64, epochs: &Epochs, mover: &dyn Mover) -> Compacted {
        let victims = self.take_sparse(enough);
        if victims.is_empty() {
            return Compacted::default();
        }
        self.drain(&victims, &[], epochs, mover)
    }

    /// Empties a row of segments.
    fn empty_window(&self, count: u64, epochs: &Epochs, mover: &dyn Mover) -> Compacted {
        let Some(window) = self.first_window(count) else { return Compacted::default() };
        self.free_runs.lock().set_window(window.clone());
        let mut small: Vec<u64> =
            window.clone().map(|segment| self.first_of_slab(segment)).collect();
        small.dedup();
        small.retain(|&slab| self.begin_draining(slab));
        let large = self.large_items_in(window.clone());
        let drained = self.drain(&small, &large, epochs, mover);
        self.free_runs.lock().set_window(0..0);
        drained
    }

    /// Moves what lies in `small` segments, which are marked, and the `large` items.
    fn drain(
        &self,
        small: &[u64],
        large: &[Offset],
        epochs: &Epochs,
        mover: &dyn Mover,
    ) -> Compacted {
        // First wait for threads that did not see the mark and have yet to add a slot to a magazine. Then wait for
        // threads that took the slot out of there before this one could.
        let are_added = self.have_passed(epochs, mover);
        self.recall_magazines();
        let is_still = are_added && self.have_passed(epochs, mover);
        let mut had_room = true;
        if is_still {
            let slots = small.iter().flat_map(|&segment| self.taken_slots(segment));
            for at in slots.chain(large.iter().copied()) {
                // If there is no room for one, there may be for the next, of another size.
                had_room &= mover.relocate(at);
            }
        }
        // What found no room elsewhere stays. Then there is no need to wait.
        let are_empty = || !had_room || small.iter().all(|&segment| self.is_empty(segment));
        let is_done = is_still && self.wait(epochs, mover, are_empty);
        let mut drained = Compacted { is_held: !is_done, ..Compacted::default() };
        for &segment in small {
            if self.is_empty(segment) {
                drained.freed_bytes += self.release_slab(segment);
            } else {
                self.give_up(segment);
            }
        }
        drained
    }

    /// Waits a while for all present pins to end.
    fn have_passed(&self, epochs: &Epochs, mover: &dyn Mover) -> bool {
        let moment = epochs.moment();
        self.wait(epochs, mover, || epochs.has_passed(moment))
    }

    /// Waits a while for something that comes about as pins end. Does not wait for pins of the caller's thread.
    fn wait(&self, epochs: &Epochs, mover: &dyn Mover, is_so: impl Fn() -> bool) -> bool {
        for _ in 0..TRIES_MAX {
            mover.collect();
            if is_so() {
                return true;
            }
            if epochs.is_pinned_here() {
                break;
            }
            pause();
        }
        false
    }

    /// Marks a small segment whose slots nobody hands out, and takes it off its list.
    fn begin_draining(&self, segment: u64) -> bool {
        if self.state(segment).usage.load(Ordering::Acquire) < usage::SMALL {
            return false;
        }
        let Some(class) = self.class_of_segment(segment) else { return false };
        self.mark_draining(class, &[segment]).contains(&segment)
    }

    /// Marks those of these segments whose slots nobody hands out; the segments are sorted and of one class. Slots of
    /// other segments make up for those set aside in them.
    pub(super) fn mark_draining(&self, class: usize, segments: &[u64]) -> Vec<u64> {
        let (Some(list), Some(reserve)) = (self.partial.get(class), self.reserves.get(class))
        else {
            return Vec::new();
        };
        let mut list = list.lock();
        let mut marked = Vec::new();
        list.retain(|segment| {
            let is_victim = segments.binary_search(segment).is_ok();
            if is_victim {
                self.state(*segment).status.store(status::DRAINING, Ordering::SeqCst);
                marked.push(*segment);
            }
            !is_victim
        });
        for &segment in segments {
            let status = &self.state(segment).status;
            let (full, draining) = (status::FULL, status::DRAINING);
            let exchanged =
                status.compare_exchange(full, draining, Ordering::SeqCst, Ordering::SeqCst);
            if exchanged.is_err() {
                continue;
            }
            // It may have become another class's since the caller looked.
            match self.class_of_segment(segment) {
                Some(of) if of == class => marked.push(segment),
                _ => self.give_up(segment),
            }
        }
        // After they were marked: a thread that sets a slot aside checks the mark under the reserve's lock.
        marked.sort_unstable();
        let is_marked = |slot: Offset| marked.binary_search(&self.slab_of(slot)).is_ok();
        let given_up = reserve.give_up(is_marked);
        for slot in given_up {
            self.release(slot);
        }
        self.set_slots_aside_of_listed(reserve, &list);
        marked
    }

    /// Where the items of a marked segment begin.
    fn taken_slots(&self, segment: u64) -> Vec<Offset> {
        let state = self.state(segment);
        let size = self.class_of_segment(segment).and_then(|class| self.classes.size(class));
        let mut slots = Vec::new();
        for word in 0..state.words() {
            let taken = state.valid_bits(word) & !state.bits(word).load(Ordering::Acquire);
            for bit in (0..64).filter(|bit| taken & 1 << bit != 0) {
                let slot = word as u64 * 64 + bit;
                slots.push(self.start_of(segment).add(slot * size.unwrap_or(0)));
            }
        }
        slots
    }

    pub(super) fn is_empty(&self, segment: u64) -> bool {
        let state = self.state(segment);
        state.free() == state.slots()
    }
}

#[cfg(test)]
mod kept_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vacant_tests;
#[cfg(test)]
mod wide_tests;
