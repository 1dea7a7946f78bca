//! Finds what is reachable: to free the rest after an opening, or to look for leaks.
//!
//! A sweep may run beside changes. Whoever changes a slot of the table before it is through first
//! [says](Heap::note_unlinking) what that slot will no longer lead to. So at the end of the walk each slot of a sealed
//! segment is free unless
//!
//! * the walk met it: whatever is linked throughout is met, since the table's scan meets each key that stays present;
//! * or its unlinking was announced: then it is retired, or about to be, and whoever may still hold it is waited for.
//!
//! What was announced and [given back](Heap::reclaim) before its segment is unsealed counts as free again. The walk
//! cannot mark it afterwards: it is pinned while it runs, and what it could still meet is not given back before.

use super::cache::BitmapWord;
use super::reserve::Reserve;
use super::segment::{BITMAP_WORDS, Segment, status, usage};
use super::{Corrupt, Heap, Room, standing};
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::Ordering;
use std::collections::{HashMap, HashSet};

/// The walk after an opening: marks everything to which the table leads, then finishes.
///
/// Until it is finished, nothing that was there before is handed out again. If it is dropped unfinished, all of that
/// stays sealed.
#[derive(Debug)]
pub struct Sweep<'a, M: Medium> {
    heap: &'a Heap<M>,
}

impl<M: Medium> Heap<M> {
    /// Begins the sweep; once after [`Heap::open`]. If others change the table meanwhile, a pin is held from before its
    /// slots are read until all that they lead to is marked.
    pub fn sweep(&self) -> Sweep<'_, M> {
        for segments in self.recorded().unwrap_or_default() {
            self.segments.advise(&segments);
        }
        Sweep { heap: self }
    }

    /// Begins an audit. Exact when nothing writes.
    pub fn audit(&self) -> Audit<'_, M> {
        Audit { heap: self, marks: HashMap::new() }
    }

    /// `(segment, slot)` of what begins at `at`.
    #[inline(never)]
    fn place_of(&self, at: Offset) -> Result<(u64, usize), Corrupt> {
        match self.room_at(at) {
            Some(Room::Slot { segment, slot, .. }) => Ok((segment, slot as usize)),
            Some(Room::Run { segment, .. }) => Ok((segment, 0)),
            None => Err(Corrupt { at, found: "a slot leads to where no item can begin".into() }),
        }
    }

    /// Says that no slot of the table may lead to `at` soon. To be called before the change, by whoever knows the
    /// offset under a pin, for as long as the heap has yet to be swept.
    #[inline(never)]
    pub fn note_unlinking(&self, at: Offset) {
        // Where nothing can begin, nothing is freed.
        let Ok((segment, slot)) = self.place_of(at) else { return };
        let mut unlinked = self.unlinked.lock();
        if self.is_sealed(segment) {
            let bits = unlinked.entry(segment).or_insert([0; BITMAP_WORDS]);
            bits[slot / 64] |= 1 << (slot % 64);
        }
    }

    pub(super) fn is_sealed(&self, segment: u64) -> bool {
        self.state(segment).status.load(Ordering::SeqCst) == status::SEALED
    }

    /// [`Heap::release`] of what lies in a sealed segment. Returns whether it does.
    #[inline(never)]
    pub(super) fn release_sealed(&self, at: Offset) -> bool {
        let Ok((segment, slot)) = self.place_of(at) else { return true };
        let mut unlinked = self.unlinked.lock();
        if !self.is_sealed(segment) {
            return false;
        }
        let bit = 1 << (slot % 64);
        if let Some(bits) = unlinked.get_mut(&segment) {
            bits[slot / 64] &= !bit;
        }
        let state = self.state(segment);
        state.bits(slot / 64).fetch_and(!bit, Ordering::Relaxed);
        if state.usage.load(Ordering::Acquire) == usage::LARGE {
            state.status.store(status::WHOLE, Ordering::SeqCst);
            self.release_large(segment, state.slots());
        }
        true
    }
}

impl<M: Medium> Sweep<'_, M> {
    /// Marks what begins at `at` as reachable. Any number of threads may call this.
    ///
    /// Fails if nothing can begin there, or if it was marked before. Then the pool is damaged, and the sweep will free
    /// nothing.
    #[inline(never)]
    pub fn mark(&self, at: Offset) -> Result<(), Corrupt> {
        let marked = self.heap.place_of(at).and_then(|(segment, slot)| {
            if !self.heap.is_sealed(segment) {
                return Ok(());
            }
            let bit = 1 << (slot % 64);
            let word = self.heap.state(segment).bits(slot / 64);
            match word.fetch_or(bit, Ordering::Relaxed) & bit {
                0 => Ok(()),
                _ => Err(Corrupt { at, found: "two slots lead to one item".into() }),
            }
        });
        if marked.is_err() {
            self.heap.standing.store(standing::DAMAGED, Ordering::Release);
        }
        marked
    }

    /// Whether what begins at `at` was marked.
    #[inline(never)]
    pub fn is_marked(&self, at: Offset) -> bool {
        self.heap.place_of(at).is_ok_and(|(segment, slot)| {
            let word = self.heap.state(segment).bits(slot / 64);
            word.load(Ordering::Relaxed) & 1 << (slot % 64) != 0
        })
    }

    /// Frees everything that was not marked, nor announced to be unlinked, unless the pool is damaged.
    #[inline(never)]
    pub fn finish(self) {
        let heap = self.heap;
        if heap.is_damaged() {
            for segment in heap.all_segments().filter(|&segment| heap.is_sealed(segment)) {
                heap.state(segment).clear_bits();
            }
            heap.forget_free_runs();
            return;
        }
        heap.all_segments().for_each(|segment| heap.unseal(segment));
        heap.set_slots_aside();
        // If there is room without growth.
        let wanted = heap.reserved_run.wanted();
        let _ = heap.set_run_aside(wanted, |count| heap.take_run(count).ok_or(()));
        heap.wide_refused_at.store(0, Ordering::Relaxed);
        heap.standing.store(standing::SWEPT, Ordering::Release);
    }
}

impl<M: Medium> Heap<M> {
    /// Makes what the sweep has found of a segment what is known of it.
    fn unseal(&self, segment: u64) {
        let mut unlinked = self.unlinked.lock();
        let state = self.state(segment);
        let used_for = state.usage.load(Ordering::Acquire);
        // Asked after: a segment that was free at the opening is sealed until a thread takes it, and only then used for
        // anything.
        if !self.is_sealed(segment) {
            return;
        }
        match used_for {
            usage::LARGE => {
                let is_unlinked = unlinked.remove(&segment).is_some_and(|bits| bits[0] != 0);
                let is_reached = state.bits(0).swap(0, Ordering::Relaxed) != 0;
                state.status.store(status::WHOLE, Ordering::SeqCst);
                drop(unlinked);
                if is_reached || is_unlinked {
                    self.reserved_run.want(state.slots());
                } else if !self.pool.is_read_only() {
                    self.release_large(segment, state.slots());
                }
            }
            small if small >= usage::SMALL => {
                let unlinked = unlinked.remove(&segment).unwrap_or([0; BITMAP_WORDS]);
                self.unseal_slots(segment, state, &unlinked);
            }
            _ => {}
        }
    }

    fn unseal_slots(&self, segment: u64, state: Segment<'_>, unlinked: &[u64; BITMAP_WORDS]) {
        for (word, unlinked) in (0..state.words()).zip(unlinked) {
            let taken = state.bits(word).load(Ordering::Relaxed) | unlinked;
            state.bits(word).store(!taken & state.valid_bits(word), Ordering::Relaxed);
        }
        if state.free() == state.slots() && !self.pool.is_read_only() {
            self.release_slab(segment);
        } else if state.has_free() {
            self.list(segment);
        } else {
            state.status.store(status::FULL, Ordering::SeqCst);
        }
    }

    /// Leaves all free segments alone. In a damaged pool a word that says free may be of a segment in use.
    fn forget_free_runs(&self) {
        for (runs, count) in
            [(&self.free_runs, &self.segments_free), (&self.vacant_runs, &self.segments_vacant)]
        {
            count.fetch_sub(runs.lock().clear(), Ordering::Relaxed);
        }
    }

    /// Lists a slab of which nobody hands out slots.
    pub(super) fn list(&self, segment: u64) {
        self.state(segment).status.store(status::LISTED, Ordering::SeqCst);
        if let Some(list) = self.list_of(segment) {
            list.lock().push(segment);
        }
    }
}

/// Compares what is reachable with what is taken.
#[derive(Debug)]
pub struct Audit<'a, M: Medium> {
    heap: &'a Heap<M>,
    marks: HashMap<u64, [u64; BITMAP_WORDS]>,
}

impl<M: Medium> Audit<'_, M> {
    /// Marks what begins at `at` and has `bytes` bytes as reachable. Fails if nothing can begin
    /// there, if it does not fit there, if it is free, or if it was marked before.
    #[inline(never)]
    pub fn mark(&mut self, at: Offset, bytes: u64) -> Result<(), Corrupt> {
        let corrupt = |found: &str| Err(Corrupt { at, found: found.into() });
        let (segment, slot) = self.heap.place_of(at)?;
        let state = self.heap.state(segment);
        if self.heap.capacity_at(at).is_none_or(|capacity| capacity < bytes) {
            return corrupt("an item larger than its slot");
        }
        let is_small = state.usage.load(Ordering::Acquire) >= usage::SMALL;
        let bit = 1 << (slot % 64);
        if is_small && state.bits(slot / 64).load(Ordering::Acquire) & bit != 0 {
            return corrupt("a slot leads to a free item");
        }
        let marks = self.marks.entry(segment).or_insert([0; BITMAP_WORDS]);
        if marks[slot / 64] & bit != 0 {
            return corrupt("two slots lead to one item");
        }
        marks[slot / 64] |= bit;
        Ok(())
    }

    /// Bytes of an item with this key and value.
    pub fn item_bytes(key: &[u8], value: &[u8]) -> u64 {
        super::item::item_bytes(key, value)
    }

    /// Counts what is lost. Also returns the number of slots and segments looked at. Lost are:
    ///
    /// * slots that are taken and not marked, not set aside, not in a thread's cache or magazine, and not among
    ///   `retired`;
    /// * retired items that are reachable, free, or retired twice;
    /// * free space that no allocation would find.
    #[inline(never)]
    pub fn finish(mut self, retired: &[u64]) -> (u64, u64) {
        // A helper may be about to add segments, although nothing writes.
        let _growing = self.heap.growing.lock();
        let (mut leaks, mut looked_at) = (0, 0);
        leaks += retired.iter().filter(|&&at| self.mark(Offset(at), 0).is_err()).count() as u64;
        let mut findable = HashSet::new();
        for (BitmapWord { segment, word }, bits) in self.heap.cached() {
            self.marks.entry(segment).or_insert([0; BITMAP_WORDS])[word] |= bits;
            findable.insert(segment);
        }
        let kept = self.heap.magazines.slots(&self.heap.classes_used());
        for slot in self.heap.reserves.iter().flat_map(Reserve::slots).chain(kept) {
            leaks += u64::from(self.mark(slot, 0).is_err());
        }
        self.heap.partial.iter().for_each(|list| findable.extend(list.lock().iter()));
        let mut runs: Vec<(u64, u64)> = self.heap.free_runs.lock().iter().collect();
        runs.extend(self.heap.vacant_runs.lock().iter());
        runs.extend(self.heap.reserved_run.get());
        runs.into_iter().for_each(|(first, len)| findable.extend(first..first + len));
        // A damaged heap hands out nothing, so nothing of it has to be found.
        let is_lost = |segment| !findable.contains(&segment) && !self.heap.is_damaged();
        for segment in self.heap.all_segments() {
            let state = self.heap.state(segment);
            let marks = self.marks.get(&segment);
            let mark = |word: usize| marks.map_or(0, |marks| marks[word]);
            match state.usage.load(Ordering::Acquire) {
                usage::LARGE => {
                    looked_at += 1;
                    // A pool that is opened for reading keeps what was retired and not reclaimed before a sync, until
                    // it is opened for writing.
                    leaks += u64::from(mark(0) == 0 && !self.heap.pool.is_read_only());
                }
                small if small >= usage::SMALL => {
                    looked_at += state.slots();
                    leaks += u64::from(state.has_free() && is_lost(segment));
                    for word in 0..state.words() {
                        let free = state.bits(word).load(Ordering::Acquire);
                        let lost = state.valid_bits(word) & !free & !mark(word);
                        leaks += u64::from(lost.count_ones());
                    }
                }
                usage::FREE | usage::VACANT => {
                    looked_at += 1;
                    leaks += u64::from(is_lost(segment));
                }
                _ => looked_at += 1,
            }
        }
        (leaks, looked_at)
    }
}
