//! Batches: cache misses overlapped, one fence for many operations.
//!
//! A batch of mutations takes all locks it can get without waiting, then stores and flushes,
//! then fences once, then shows what it stored and unlocks. A LOCK-prefixed instruction between a
//! flush and the fence would wait for the flush, so none stands there. Whatever does not fit this
//! pattern (a lock held by another thread or by an earlier entry of the batch, a key in level 2 or
//! 3, a full block) is done singly afterwards, in order: while it holds unfenced work a batch
//! never waits, so two batches cannot wait for each other.

use super::Core;
use super::layout::{Geometry, LOCK, SPILLED, lane_from, slot_of};
use super::ops::{Locked, set_lane_of_line};
use index::fingerprint::{EMPTY, Isa, Work, match_line, scan_line};
use index::hash::level1_fingerprint;
use index::{Change, Error};
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

/// Look-ups done together: enough to overlap all misses a core can have under way, few enough
/// that their lines stay in its first-level cache.
const LOOKUPS: usize = 64;
/// Mutations done together; more would hold more locks at once for little.
const MUTATIONS: usize = 32;

/// A look-up on its way.
#[derive(Clone, Copy)]
struct Lookup {
    first: u64,
    home: u64,
    /// Where its level-1 block begins.
    block: Offset,
    /// Lanes of the block with its fingerprint, counted from the preferred one on.
    candidates: u64,
}

/// Look-ups to be done for whatever instruction set.
struct Lookups<'a, M: Medium> {
    core: &'a Core<M>,
    keys: &'a [u64],
    out: &'a mut [Option<u64>],
}

impl<M: Medium> Work for Lookups<'_, M> {
    type Output = bool;

    #[inline(always)]
    fn run(self, isa: Isa) -> bool {
        self.core.get_batch(isa, self.keys, self.out)
    }
}

/// Mutations to be done for whatever instruction set.
struct Mutations<'a, M: Medium, T, K, D> {
    core: &'a Core<M>,
    items: &'a [T],
    out: &'a mut [Option<u64>],
    key_of: &'a K,
    decide: &'a D,
}

impl<M, T, K, D> Work for Mutations<'_, M, T, K, D>
where
    M: Medium,
    K: Fn(&T) -> u64,
    D: Fn(&T, Option<u64>) -> Change<u64>,
{
    type Output = u32;

    #[inline(always)]
    fn run(self, isa: Isa) -> u32 {
        self.core.mutate_batch(isa, self.items, self.out, self.key_of, self.decide)
    }
}

/// A mutation on its way.
struct Entry<'a> {
    first: u64,
    home: u64,
    block: Offset,
    /// The block's lock, if it could be had.
    lock: Option<Locked<'a>>,
    /// What was seen under the lock: lanes of the block with the key's fingerprint, counted from
    /// the preferred one on, and empty ones.
    candidates: u64,
    empties: u64,
    /// What it did, if level 1 sufficed.
    done: Option<Done>,
}

/// What an entry of a batch did, to be shown after the fence.
#[derive(Clone, Copy)]
struct Done {
    found: Option<u64>,
    action: Change<u64>,
    /// Lane and its new fingerprint.
    show: Option<(usize, u8)>,
}

impl<M: Medium> Core<M> {
    pub(super) fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        for (keys, out) in keys.chunks(LOOKUPS).zip(out.chunks_mut(LOOKUPS)) {
            let is_done = self.isa.run(Lookups { core: self, keys, out });
            if !is_done {
                keys.iter().zip(out).for_each(|(&key, out)| *out = self.get(key));
            }
        }
    }

    /// `false` if a resize is under way or began meanwhile; then nothing in `out` counts.
    #[inline(always)]
    fn get_batch(&self, isa: Isa, keys: &[u64], out: &mut [Option<u64>]) -> bool {
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return false;
        }
        let mut lookups = [Lookup { first: 0, home: 0, block: Offset(0), candidates: 0 }; LOOKUPS];
        let lookups = &mut lookups[..keys.len()];
        for (&key, lookup) in keys.iter().zip(&mut *lookups) {
            lookup.first = self.hasher.first_u64(key);
            lookup.home = geometry.home(lookup.first);
            lookup.block = self.area_1.at(lookup.home);
            self.lines.prefetch(lookup.home as usize);
        }
        // Those whose fingerprints do not settle them. Gathered without a branch: which they are,
        // nobody can predict, and a misprediction costs more than all the rest.
        let mut unsettled = [0; LOOKUPS];
        let mut unsettled_len = 0;
        for (index, lookup) in lookups.iter_mut().enumerate() {
            let line = &self.lines.get(lookup.home as usize).0;
            let preferred = self.preferred_1(lookup.first);
            let matches = match_line(isa, line, level1_fingerprint(lookup.first));
            lookup.candidates = matches.rotate_right(preferred as u32);
            fence(Ordering::Acquire);
            let spilled = line[0].load(Ordering::Acquire) & SPILLED;
            unsettled[unsettled_len & (LOOKUPS - 1)] = index as u8;
            unsettled_len += usize::from(lookup.candidates | spilled != 0);
        }
        let unsettled = &unsettled[..unsettled_len];
        for index in unsettled.iter().map(|&index| usize::from(index)) {
            let lookup = &lookups[index];
            if lookup.candidates != 0 {
                let preferred = self.preferred_1(lookup.first);
                let likely = slot_of(lookup.block, lane_from(preferred, lookup.candidates));
                self.medium().prefetch(likely);
            } else {
                self.prefetch_2(geometry, keys[index], lookup.first);
            }
        }
        out.fill(None);
        for index in unsettled.iter().map(|&index| usize::from(index)) {
            out[index] = self.get_looked_up(geometry, keys[index], &lookups[index]);
        }
        fence(Ordering::Acquire);
        self.geometry() == geometry
    }

    /// Prefetches the fingerprints of a key's level-2 blocks.
    #[inline(always)]
    fn prefetch_2(&self, geometry: Geometry, key: u64, first: u64) {
        for block in self.choices(geometry, key, first).blocks {
            self.words.prefetch(block as usize);
        }
    }

    #[inline(always)]
    fn get_looked_up(&self, geometry: Geometry, key: u64, lookup: &Lookup) -> Option<u64> {
        let line = &self.lines.get(lookup.home as usize).0;
        let preferred = self.preferred_1(lookup.first);
        let mut candidates = lookup.candidates;
        while candidates != 0 {
            let slot = slot_of(lookup.block, lane_from(preferred, candidates));
            let (found, value) = self.medium().load_pair(slot);
            if found == 0 {
                return self.get_anyhow(key, lookup.first);
            }
            if found == key {
                let is_locked = line[0].load(Ordering::Acquire) & LOCK != 0;
                return if is_locked { self.get_anyhow(key, lookup.first) } else { Some(value) };
            }
            candidates &= candidates - 1;
        }
        let has_spilled = line[0].load(Ordering::Acquire) & SPILLED != 0;
        if !has_spilled {
            return None;
        }
        self.search_spilled(geometry, key, lookup.first, [lookup.home; 2])
    }

    /// Does a mutation for each item in order; `out[i]` is the state that item `i` found.
    pub(super) fn mutate_many<T>(
        &self,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: impl Fn(&T) -> u64,
        decide: impl Fn(&T, Option<u64>) -> Change<u64>,
    ) -> Result<(), Error> {
        for (items, out) in items.chunks(MUTATIONS).zip(out.chunks_mut(MUTATIONS)) {
            let (key_of, decide) = (&key_of, &decide);
            let done = self.isa.run(Mutations { core: self, items, out, key_of, decide });
            if done.count_ones() as usize == items.len() {
                continue;
            }
            for (index, item) in items.iter().enumerate() {
                if done & 1 << index == 0 {
                    out[index] = self.mutate(key_of(item), |found| decide(item, found))?;
                }
            }
        }
        Ok(())
    }

    /// Does what can be done without waiting and with one fence; returns which items that were.
    #[inline(always)]
    fn mutate_batch<T>(
        &self,
        isa: Isa,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: &impl Fn(&T) -> u64,
        decide: &impl Fn(&T, Option<u64>) -> Change<u64>,
    ) -> u32 {
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return 0;
        }
        let medium = self.medium();
        let mut entries = [const {
            Entry {
                first: 0,
                home: 0,
                block: Offset(0),
                lock: None,
                candidates: 0,
                empties: 0,
                done: None,
            }
        }; MUTATIONS];
        let entries = &mut entries[..items.len()];
        for (item, entry) in items.iter().zip(&mut *entries) {
            entry.first = self.hasher.first_u64(key_of(item));
            entry.home = geometry.home(entry.first);
            entry.block = self.area_1.at(entry.home);
            self.lines.prefetch_write(entry.home as usize);
            medium.prefetch_write(slot_of(entry.block, self.preferred_1(entry.first)));
        }
        // Two entries of one block: the first gets the lock, the second does not. Entries of a
        // block held by another thread are put off together, so that their order is kept.
        let mut refused = [u64::MAX; MUTATIONS];
        let mut refusals = 0;
        for entry in &mut *entries {
            let line = &self.lines.get(entry.home as usize).0;
            if refusals == 0 || !refused[..refusals].contains(&entry.home) {
                entry.lock = Locked::attempt(&line[0]);
            }
            if entry.lock.is_none() {
                refused[refusals] = entry.home;
                refusals += 1;
                continue;
            }
            let (matches, empties) = scan_line(isa, line, level1_fingerprint(entry.first));
            entry.candidates = matches.rotate_right(self.preferred_1(entry.first) as u32);
            entry.empties = empties & self.lanes_1;
            let preferred = self.preferred_1(entry.first);
            let room = self.choose_1(empties, entry.first);
            let likely = if matches != 0 { lane_from(preferred, entry.candidates) } else { room };
            medium.prefetch_write(slot_of(entry.block, likely));
        }
        if self.geometry() != geometry {
            return 0;
        }
        let mut stored = false;
        for (item, entry) in items.iter().zip(&mut *entries) {
            if entry.lock.is_some() {
                entry.done = self.store_unfenced(entry, key_of(item), |found| decide(item, found));
                stored |= entry.done.is_some_and(|done| done.action != Change::Keep);
            }
        }
        if stored {
            medium.fence();
        }
        let (mut finished, mut inserted, mut removed) = (0, 0, 0);
        for (index, (entry, out)) in entries.iter_mut().zip(out).enumerate() {
            if let Some(done) = entry.done {
                if let Some((lane, fingerprint)) = done.show {
                    let line = &self.lines.get(entry.home as usize).0;
                    set_lane_of_line(line, lane, fingerprint);
                }
                *out = done.found;
                finished |= 1 << index;
                match (done.found, done.action) {
                    (None, Change::Put(_)) => inserted += 1,
                    (Some(_), Change::Remove) => removed += 1,
                    _ => {}
                }
            }
            entry.lock = None;
        }
        self.count_changes(inserted, removed);
        finished
    }

    /// Does a mutation in level 1, whose block is locked, up to the flush. `None`, and nothing
    /// done, if level 1 does not suffice.
    #[inline(always)]
    fn store_unfenced(
        &self,
        entry: &Entry<'_>,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Done> {
        if key == 0 {
            return None;
        }
        let medium = self.medium();
        let line = &self.lines.get(entry.home as usize).0;
        let preferred = self.preferred_1(entry.first);
        let mut candidates = entry.candidates;
        while candidates != 0 {
            let lane = lane_from(preferred, candidates);
            let slot = slot_of(entry.block, lane);
            let (found, value) = medium.load_pair(slot);
            if found == key {
                let action = decide(Some(value));
                let show = match action {
                    Change::Keep => None,
                    Change::Put(new) => {
                        medium.store_release(slot.word(1), new);
                        medium.flush(slot);
                        None
                    }
                    Change::Remove => {
                        medium.store(slot, 0);
                        medium.flush(slot);
                        Some((lane, EMPTY))
                    }
                };
                return Some(Done { found: Some(value), action, show });
            }
            candidates &= candidates - 1;
        }
        if line[0].load(Ordering::Relaxed) & SPILLED != 0
            && !self.is_absent_beyond_level_1(entry.home, key, entry.first)
        {
            return None;
        }
        let action = decide(None);
        let show = match action {
            Change::Keep | Change::Remove => None,
            Change::Put(value) => {
                if entry.empties == 0 {
                    return None;
                }
                let lane = self.choose_1(entry.empties, entry.first);
                let slot = slot_of(entry.block, lane);
                self.fill(slot, key, value);
                medium.flush(slot);
                Some((lane, level1_fingerprint(entry.first)))
            }
        };
        Some(Done { found: None, action, show })
    }

    /// Whether a key, whose level-1 lock is held, is certainly in neither level 2 nor 3.
    #[inline(never)]
    fn is_absent_beyond_level_1(&self, home: u64, key: u64, first: u64) -> bool {
        let geometry = self.geometry();
        !geometry.is_resizing()
            && matches!(self.may_be_in_level_2(geometry, key, first), Ok(false))
            && self.level_3.find_locked(self.medium(), home, key).is_none()
    }
}
