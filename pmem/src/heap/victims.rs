//! Chooses the segments to be emptied.

use super::Heap;
use super::segment::{status, usage};
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::Ordering;
use std::ops::Range;

/// A segment is sparse if at most this many eighths of it are taken. Emptying a fuller one moves more than seven bytes
/// for each byte that it frees.
const SPARSE_EIGHTHS: u64 = 7;

/// A slab that could be emptied.
#[derive(Debug, Clone, Copy)]
struct Sparse {
    live_bytes: u64,
    class: usize,
    segment: u64,
}

impl<M: Medium> Heap<M> {
    /// Whether a slab of this class has free slots and no owner.
    pub(super) fn is_listed(&self, class: usize) -> bool {
        self.partial.get(class).is_some_and(|list| !list.lock().is_empty())
    }

    /// Takes slabs to be emptied, up to `enough` segments: those with the least in them for which others of their class
    /// have room.
    pub(super) fn take_sparse(&self, enough: u64) -> Vec<u64> {
        let mut sparse: Vec<Sparse> = Vec::new();
        (0..self.classes.count()).for_each(|class| sparse.extend(self.sparse_of(class)));
        let live_bytes = |one: &Sparse| one.live_bytes / self.classes.segments(one.class);
        sparse.sort_unstable_by_key(|one| (live_bytes(one), one.segment));
        let mut segments = 0;
        sparse.retain(|one| {
            let is_among = segments < enough;
            segments += self.classes.segments(one.class);
            is_among
        });
        sparse.sort_unstable_by_key(|one| (one.class, one.segment));
        let mut marked = Vec::new();
        for group in sparse.chunk_by(|a, b| a.class == b.class) {
            let segments: Vec<u64> = group.iter().map(|one| one.segment).collect();
            marked.extend(self.mark_draining(group[0].class, &segments));
        }
        marked
    }

    /// Sparse segments of a class: the emptiest, as many as the free slots of the others can take in.
    fn sparse_of(&self, class: usize) -> Vec<Sparse> {
        let (Some(list), Some(reserve)) = (self.partial.get(class), self.reserves.get(class))
        else {
            return Vec::new();
        };
        let size = self.classes.size(class).unwrap_or(0);
        let list = list.lock();
        let set_aside = reserve.slots();
        let mut segments: Vec<(u64, u64, u64)> = list
            .iter()
            .map(|&segment| {
                let is_there = |slot: &&Offset| self.slab_of(**slot) == segment;
                let set_aside = set_aside.iter().filter(is_there).count() as u64;
                let state = self.state(segment);
                (state.slots().saturating_sub(state.free() + set_aside), set_aside, segment)
            })
            .collect();
        segments.sort_unstable();
        let slots = self.classes.slots(class);
        let mut room: u64 = list.iter().map(|&segment| self.state(segment).free()).sum();
        let mut to_be_moved = 0;
        let fits = |&(live, set_aside, _): &(u64, u64, u64)| {
            room = room.saturating_sub(slots.saturating_sub(live + set_aside));
            to_be_moved += live + set_aside;
            live * 8 <= slots * SPARSE_EIGHTHS && to_be_moved <= room
        };
        let fitting = segments.iter().copied().take_while(fits).collect::<Vec<_>>();
        let sparse = |(live, _, segment)| Sparse { live_bytes: live * size, class, segment };
        fitting.into_iter().map(sparse).collect()
    }

    /// The first window of `count` segments in a row that can be emptied, or some more. The one with the least in
    /// it would not do: chosen anywhere, windows would leave gaps between them that are too short for the next one.
    /// What must be moved is less than twice as large as the item for which it is moved.
    pub(super) fn first_window(&self, count: u64) -> Option<Range<u64>> {
        self.adopt_all();
        // An item longer than every free run stays where it is.
        let longest = self.free_runs.lock().longest();
        self.recorded().unwrap_or_default().into_iter().find_map(|Range { start, end }| {
            let mut window = start..start;
            let mut is_fixed = false;
            // A slab is whole in a window or outside. The last one may reach beyond `count`.
            while window.end < end {
                let segment = window.end;
                let state = self.state(segment);
                let len = match state.usage.load(Ordering::Acquire) {
                    usage::LARGE => {
                        is_fixed = state.slots() > longest;
                        1
                    }
                    small if small >= usage::SMALL => {
                        let len = self.classes.segments((small - usage::SMALL) as usize);
                        is_fixed = len > count;
                        len
                    }
                    _ => 1,
                };
                window.end = segment + len;
                if !self.can_be_emptied(segment, is_fixed) {
                    window.start = window.end;
                }
                if window.end - window.start >= count {
                    return Some(window);
                }
            }
            None
        })
    }

    /// Whether everything in a segment can be moved now. A part of a large item or of a wide slab can, unless that
    /// `is_fixed`.
    fn can_be_emptied(&self, segment: u64, is_fixed: bool) -> bool {
        if let Some((first, len)) = self.reserved_run.get()
            && (first..first + len).contains(&segment)
        {
            return false;
        }
        match self.state(segment).usage.load(Ordering::Acquire) {
            usage::FREE => true,
            usage::LARGE | usage::TAIL => !is_fixed,
            usage::NONE | usage::VACANT => false,
            _ => {
                let status = self.state(self.first_of_slab(segment)).status.load(Ordering::SeqCst);
                !is_fixed && matches!(status, status::FULL | status::LISTED)
            }
        }
    }

    /// Large items with a segment in a window.
    pub(super) fn large_items_in(&self, window: Range<u64>) -> Vec<Offset> {
        let usage_of = |segment: u64| self.state(segment).usage.load(Ordering::Acquire);
        let mut heads: Vec<u64> =
            window.clone().filter(|&segment| usage_of(segment) == usage::LARGE).collect();
        if usage_of(window.start) == usage::TAIL {
            heads
                .extend((0..window.start).rev().find(|&segment| usage_of(segment) == usage::LARGE));
        }
        heads.into_iter().map(|head| self.start_of(head)).collect()
    }
}
