//! Which segments are emptied.

use super::Heap;
use super::segment::{status, usage};
use crate::medium::Medium;
use crate::offset::Offset;
use crate::superblock::HEAP;
use crate::sync::Ordering;
use std::ops::Range;

/// A segment is sparse if at most this part of it is taken, in eighths. Emptying a fuller one moves more than
/// seven bytes for each that it frees.
const SPARSE_EIGHTHS: u64 = 7;

/// A segment that could be emptied.
#[derive(Debug, Clone, Copy)]
struct Sparse {
    live_bytes: u64,
    class: usize,
    segment: u64,
}

impl<M: Medium> Heap<M> {
    /// Whether a segment of this class has free slots and is nobody's.
    pub(super) fn is_listed(&self, class: usize) -> bool {
        self.partial.get(class).is_some_and(|list| !list.lock().is_empty())
    }

    /// Takes up to `enough` segments to be emptied: those with the least in them, as far as others of their class
    /// have room for that.
    pub(super) fn take_sparse(&self, enough: u64) -> Vec<u64> {
        let mut sparse: Vec<Sparse> =
            (0..self.classes.count()).flat_map(|class| self.sparse_of(class)).collect();
        sparse.sort_unstable_by_key(|one| (one.live_bytes, one.segment));
        sparse.truncate(enough as usize);
        sparse.sort_unstable_by_key(|one| (one.class, one.segment));
        let of_class = |group: &[Sparse]| {
            let segments: Vec<u64> = group.iter().map(|one| one.segment).collect();
            self.mark_draining(group.first().map_or(0, |one| one.class), &segments)
        };
        sparse.chunk_by(|a, b| a.class == b.class).flat_map(of_class).collect()
    }

    /// Sparse segments of a class: the emptiest, as many as the free slots of the others can make up for.
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
                let is_there = |slot: &&Offset| slot.0 >> self.segment_log2 == segment;
                let set_aside = set_aside.iter().filter(is_there).count() as u64;
                let state = self.state(segment);
                (state.slots().saturating_sub(state.free() + set_aside), set_aside, segment)
            })
            .collect();
        segments.sort_unstable();
        let slots = self.segment_bytes() / size.max(1);
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

    /// The window of `count` segments of one extent with the least in them; none if some of each window are used in
    /// other ways, or if there is not as much room outside.
    pub(super) fn cheapest_window(&self, count: u64) -> Option<Range<u64>> {
        let extents = self.pool.extents_of(HEAP);
        let windows = extents.iter().filter_map(|extent| {
            let first = extent.start.0 >> self.segment_log2;
            self.cheapest_window_of(first..first + self.parts(extent).0, count)
        });
        let (_, first) = windows.min()?;
        Some(first..first + count)
    }

    /// The cheapest window of these segments: bytes to be moved, and where it begins.
    fn cheapest_window_of(&self, segments: Range<u64>, count: u64) -> Option<(u64, u64)> {
        let costs: Vec<Option<u64>> =
            segments.clone().map(|segment| self.cost_of_emptying(segment)).collect();
        let (mut cost, mut fixed) = (0, 0);
        let mut best: Option<(u64, u64)> = None;
        for index in 0..costs.len() {
            cost += costs[index].unwrap_or(0);
            fixed += u64::from(costs[index].is_none());
            let Some(begin) = (index + 1).checked_sub(count as usize) else { continue };
            if fixed == 0 {
                let window = (cost, segments.start + begin as u64);
                best = Some(best.map_or(window, |best| best.min(window)));
            }
            cost -= costs[begin].unwrap_or(0);
            fixed -= u64::from(costs[begin].is_none());
        }
        best
    }

    /// Bytes to be moved out of a segment; `None` if it cannot be emptied now.
    fn cost_of_emptying(&self, segment: u64) -> Option<u64> {
        if let Some((first, len)) = self.reserved_run.get()
            && (first..first + len).contains(&segment)
        {
            return None;
        }
        let state = self.state(segment);
        match state.usage.load(Ordering::Acquire) {
            usage::FREE => Some(0),
            usage::LARGE | usage::TAIL => Some(self.segment_bytes()),
            usage::NONE => None,
            _ => {
                let is_handed_out =
                    !matches!(state.status.load(Ordering::SeqCst), status::FULL | status::LISTED);
                let size = self.class_of_segment(segment).and_then(|it| self.classes.size(it))?;
                (!is_handed_out).then(|| state.slots().saturating_sub(state.free()) * size)
            }
        }
    }

    /// Large items of which some segment lies in a window.
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
