//! Items that are larger than a segment. Each has segments of its own, which follow one another.

use super::segments::{Phase, Queue, Use, mark_of};
use super::space::TRIES_MAX;
use super::{Cache, CacheError, Demand, GENERATION_MASK, GENERATION_SHIFT, Link};
use crate::cache::empty::Keep;
use pmem::Medium;
use pmem::arena::{SEGMENT_HEAD_BYTES, item_bytes};
use pmem::sync::{Ordering, pause};
use std::ops::Range;

/// Hits by which a large item stays: it takes the place of thousands of others.
const HITS_TO_STAY: u8 = 3;

impl<M: Medium> Cache<M> {
    pub(super) fn put_large(
        &self,
        key: &[u8],
        value: &[u8],
        hash: u64,
        expires_ms: u64,
        demand: Demand<'_>,
    ) -> Result<bool, CacheError> {
        let bytes = item_bytes(key.len(), value.len());
        let run = (bytes + SEGMENT_HEAD_BYTES).div_ceil(self.arena.segment_bytes()) as u32;
        loop {
            let link = {
                let _growth = self.growth.lock();
                let first = self.take_run(run)?;
                let generation = self.generation.load(Ordering::Acquire);
                let sequence = {
                    let mut lists = self.lists.lock();
                    lists.lengths[Queue::Small as usize] += run;
                    lists.next_sequence()
                };
                let segment = &self.segments[first as usize];
                segment.begin(Queue::Small, sequence, generation, run);
                segment.used.store(SEGMENT_HEAD_BYTES + bytes, Ordering::Relaxed);
                self.clear_hits(first, run);
                for rest in first + 1..first + run {
                    self.segments[rest as usize].set_phase(Phase::Fixed);
                    self.segments[rest as usize].sequence.store(sequence, Ordering::Relaxed);
                    self.segments[rest as usize].set_use(Use::Rest);
                }
                // From here on what the others say of themselves does not count: the item lies over it.
                self.arena.note_time(first, self.now_ms());
                self.set_use(first, Use::Large(Queue::Small, sequence), mark_of(generation, run));
                let at = self.arena.start_of(first).add(SEGMENT_HEAD_BYTES);
                let stamp = expires_ms | (generation & GENERATION_MASK) << GENERATION_SHIFT;
                self.arena.begin_item(at, key, value, stamp);
                self.arena.finish_item(at, key, value);
                self.arena.medium().fence();
                let guard = self.epochs.pin();
                let link = self.link(hash, key, at, bytes, demand, &guard);
                drop(guard);
                if let Link::Done = link {
                    segment.set_phase(Phase::Sealed);
                    self.lists.lock().queues[Queue::Small as usize].push_back((first, sequence));
                    return Ok(true);
                }
                self.give_up(first);
                link
            };
            match link {
                Link::Refused => return Ok(false),
                Link::Crowded => self.relieve(hash),
                Link::Done | Link::Again => {}
            }
        }
    }

    /// Of a large item that is next to be emptied: whether it stays, as the youngest of the main queue. The caller has
    /// taken its segments.
    pub(super) fn keep_large(&self, number: u32, keep: Keep) -> bool {
        let segment = &self.segments[number as usize];
        let at = self.arena.start_of(number).add(SEGMENT_HEAD_BYTES);
        let granule = self.arena.granule_of(at);
        let is_wanted = keep == Keep::All || self.hits.of(granule) >= HITS_TO_STAY;
        let is_there = segment.live.load(Ordering::Relaxed) > 0;
        if !is_wanted || !is_there || !self.is_current(self.arena.stamp(at)) {
            return false;
        }
        self.hits.set(granule, 0);
        self.requeue(number, Queue::Main);
        true
    }

    /// Segments that follow one another, free and taken. The caller has the lock on growth, and is not pinned.
    fn take_run(&self, run: u32) -> Result<u32, CacheError> {
        if let Some(first) = self.take_fresh(run) {
            return Ok(first);
        }
        let wanted = self.window(run);
        if self.clear_range(&wanted) { Ok(wanted.start) } else { Err(CacheError::Held) }
    }

    /// Takes all segments of a range, whatever is in them. If some cannot be had, it takes none.
    pub(super) fn clear_range(&self, wanted: &Range<u32>) -> bool {
        let mut taken = vec![false; wanted.len()];
        for _ in 0..TRIES_MAX {
            // What is kept of those in the way needs room elsewhere.
            let has_room = self.ensure_room();
            self.take_free(wanted, &mut taken);
            if taken.iter().all(|taken| *taken) {
                return true;
            }
            if has_room.is_ok() {
                // Open segments could be in the way.
                self.seal_all();
                self.clear_away(wanted, &taken);
            }
            self.reclaim();
            self.take_free(wanted, &mut taken);
            if taken.iter().all(|taken| *taken) {
                return true;
            }
            if self.epochs.is_pinned_here() {
                break;
            }
            pause();
        }
        let mut lists = self.lists.lock();
        let number = |place: usize| wanted.start + place as u32;
        let given_back = (0..taken.len()).filter(|place| taken[*place]).map(number);
        lists.free.extend(given_back);
        self.note_room(&lists);
        false
    }

    /// Takes those of a range that are free.
    fn take_free(&self, wanted: &Range<u32>, taken: &mut [bool]) {
        let mut lists = self.lists.lock();
        lists.free.retain(|number| {
            let is_wanted = wanted.contains(number);
            if is_wanted {
                taken[(number - wanted.start) as usize] = true;
            }
            !is_wanted
        });
        self.note_room(&lists);
    }

    /// A run that was never used, if so many are left and some more.
    fn take_fresh(&self, run: u32) -> Option<u32> {
        let mut lists = self.lists.lock();
        let spare = super::space::spare(self.streams[0].len()) as u32;
        if lists.limit.saturating_sub(lists.fresh) < run + spare {
            return None;
        }
        while lists.count < lists.fresh + run {
            match self.arena.grow(lists.limit) {
                Ok(count) if count > lists.count => lists.count = count,
                _ => {
                    lists.limit = lists.count;
                    return None;
                }
            }
        }
        let first = lists.fresh;
        lists.fresh += run;
        self.note_room(&lists);
        Some(first)
    }

    /// Where a run is to be made free: where the oldest segments are, and none of the index.
    fn window(&self, run: u32) -> Range<u32> {
        // A cache that has become smaller never gets what lies beyond its limit.
        let (end, newest) = {
            let lists = self.lists.lock();
            (lists.fresh.min(lists.limit), lists.sequence)
        };
        let cost = |number: u32| {
            let segment = &self.segments[number as usize];
            match self.use_of(number) {
                Use::Index(_) => u128::from(newest) * 4 + 4,
                _ if segment.is_in(Phase::Idle) || segment.is_in(Phase::Retired) => 0,
                _ => u128::from(segment.sequence.load(Ordering::Relaxed)),
            }
        };
        let costs: Vec<u128> = (0..end).map(cost).collect();
        let first = costs
            .windows(run as usize)
            .enumerate()
            .min_by_key(|(_, costs)| costs.iter().sum::<u128>())
            .map_or(0, |(first, _)| first as u32);
        first..first + run
    }

    /// Empties what is in a range, as far as that can be taken.
    fn clear_away(&self, wanted: &Range<u32>, taken: &[bool]) {
        for number in wanted.clone() {
            if taken[(number - wanted.start) as usize] {
                continue;
            }
            let first = match self.use_of(number) {
                Use::Index(_) => {
                    self.move_index(number);
                    continue;
                }
                Use::Rest => self.first_of(number),
                _ => number,
            };
            if self.segments[first as usize].take_sealed() {
                let keep = if first == number { Keep::Popular } else { Keep::Nothing };
                let is_large = self.segments[first as usize].run.load(Ordering::Relaxed) > 1;
                self.empty(first, if is_large { Keep::Nothing } else { keep });
            }
        }
    }

    /// Segments of a run that nobody looks at any more say that they are free. Until the first one does, whatever lies
    /// where the others say so is a part of the item.
    pub(super) fn free_rest(&self, first: u32, run: u32) {
        if run > 1 {
            (first + 1..first + run).for_each(|rest| self.set_use(rest, Use::Free, 0));
            self.set_use(first, Use::Free, 0);
        }
    }

    /// The segment with which a run begins that has this one.
    fn first_of(&self, number: u32) -> u32 {
        let is_rest = |number: &u32| self.use_of(*number) == Use::Rest;
        (0..=number).rev().find(|number| !is_rest(number)).unwrap_or(0)
    }
}
