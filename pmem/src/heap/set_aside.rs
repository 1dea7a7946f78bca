//! Taking what is set aside, and setting aside what is missing; see [`reserve`](super::reserve).

use super::reserve::Reserve;
use super::segment::status;
use super::{Heap, Room};
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::Ordering;

impl<M: Medium> Heap<M> {
    /// Space set aside, for an item of `bytes` bytes that replaces the one at `replaced`.
    #[inline(never)]
    pub(super) fn take_reserved(&self, bytes: u64, replaced: Offset) -> Option<Offset> {
        let slot_of = |class: usize| self.reserves.get(class).and_then(Reserve::take);
        // First of the kind of space that the replaced item leaves: that makes up for what is taken.
        let alike = || match self.room_at(replaced)? {
            _ if self.capacity_at(replaced)? < bytes => None,
            Room::Slot { class, .. } => slot_of(class),
            Room::Run { .. } => self.take_reserved_run(bytes),
        };
        let wide = || self.wide_class_of(bytes).and_then(slot_of);
        let narrow = || match self.classes.narrow_class_of(bytes) {
            Some(class) => slot_of(class),
            None => self.take_reserved_run(bytes),
        };
        alike().or_else(wide).or_else(narrow)
    }

    fn take_reserved_run(&self, bytes: u64) -> Option<Offset> {
        let count = bytes.div_ceil(self.segment_bytes());
        let mut run = self.reserved_run.run.lock();
        let (first, len) = run.take_if(|&mut (_, len)| len >= count)?;
        // The rest stays set aside: if new items got it, it would be missing for ever.
        *run = (len > count).then_some((first + count, len - count));
        drop(run);
        Some(self.take_large(first, count))
    }

    /// Sets aside `wanted` segments for large items, if `take` finds a run of that length.
    pub(super) fn set_run_aside<E>(
        &self,
        wanted: u64,
        take: impl Fn(u64) -> Result<u64, E>,
    ) -> Result<(), E> {
        if self.reserved_run.len() >= wanted {
            return Ok(());
        }
        let first = take(wanted)?;
        // Another thread may have been faster.
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

    /// Releases a run. If too little is set aside, then as much as is wanted is set aside of what is free, or else as
    /// much as was released.
    pub(super) fn release_or_set_aside(&self, first: u64, count: u64) {
        let wanted = self.reserved_run.wanted();
        let mut reserved = self.reserved_run.run.lock();
        if reserved.map_or(0, |(_, len)| len) >= wanted {
            drop(reserved);
            return self.release_run(first, count);
        }
        let mut free = self.free_runs.lock();
        // Together they may be long enough.
        let released = [Some((first, count)), reserved.take()];
        let (mut longest, mut freed) = (0, 0);
        for (first, len) in released.into_iter().flatten() {
            free.add(first, len);
            longest = len.max(longest);
            freed += len;
        }
        let mut take = |len: u64| Some((free.take(len)?, len));
        *reserved = take(wanted).or_else(|| take(longest.min(wanted)));
        self.segments_free.fetch_add(freed, Ordering::Relaxed);
        self.segments_free.fetch_sub(reserved.map_or(0, |(_, len)| len), Ordering::Relaxed);
    }

    /// Whether a small segment is neither sealed nor about to be emptied.
    pub(super) fn stays(&self, segment: u64) -> bool {
        self.state(segment).status.load(Ordering::SeqCst) >= status::FULL
    }

    /// Sets aside what is missing in each class, from the free slots of listed segments.
    pub(super) fn set_slots_aside(&self) {
        for (list, reserve) in self.partial.iter().zip(&self.reserves) {
            self.set_slots_aside_of_listed(reserve, &list.lock());
        }
    }

    /// Sets aside what is missing, from the free slots of these segments. Their list is locked.
    pub(super) fn set_slots_aside_of_listed(&self, reserve: &Reserve, listed: &[u64]) {
        listed.iter().for_each(|&segment| self.set_aside_of(reserve, segment));
    }

    /// Sets aside what is missing in a class, from the free slots of a segment that the caller owns.
    pub(super) fn set_slots_aside_of(&self, class: usize, segment: u64) {
        if let Some(reserve) = self.reserves.get(class) {
            self.set_aside_of(reserve, segment);
        }
    }

    fn set_aside_of(&self, reserve: &Reserve, segment: u64) {
        for word in (0..self.state(segment).words()).rev() {
            while reserve.missing() != 0 {
                let Some((slot, at)) = self.take_free_slot(segment, word) else { break };
                if !reserve.put(at, || self.stays(segment)) {
                    // Other threads were faster.
                    self.free_slot(segment, slot);
                }
            }
        }
    }

    /// Takes a free slot of one word of a segment's bitmap; returns its number in the segment, and where it begins.
    fn take_free_slot(&self, segment: u64, word: usize) -> Option<(usize, Offset)> {
        let state = self.state(segment);
        // The highest one, since owners begin with the lowest.
        let highest = |bits: u64| bits.checked_ilog2();
        let less = |bits: u64| highest(bits).map(|bit| bits & !(1 << bit));
        let bits = state.bits(word).fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).ok()?;
        let slot = word * 64 + highest(bits)? as usize;
        let size = self.classes.size(self.class_of_segment(segment)?)?;
        Some((slot, self.start_of(segment).add(slot as u64 * size)))
    }
}
