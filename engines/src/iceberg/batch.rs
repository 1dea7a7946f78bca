//! Batches: cache misses overlapped, one fence for many operations.
//!
//! A batch of mutations takes all locks it can get without waiting, then stores and flushes,
//! then fences once, then shows what it stored and unlocks. A LOCK-prefixed instruction between a
//! flush and the fence would wait for the flush, so none stands there. Whatever does not fit this
//! pattern (a lock held by another thread or by an earlier entry of the batch, a key in level 2 or
//! 3, a full block) is done singly afterwards, in order: while it holds unfenced work a batch
//! never waits, so two batches cannot wait for each other.

use super::Core;
use super::layout::{LOCK, SPILLED};
use super::ops::{Action, Locked};
use index::Error;
use index::fingerprint::{EMPTY, empty_line, lanes, match_line};
use index::hash::{h0, level1_fingerprint};
use pmem::sync::{Ordering, fence};
use pmem::{Medium, Offset};

/// Operations done together: enough to overlap all misses a core can have under way, few enough
/// that their lines stay in its first-level cache.
const BATCH: usize = 32;

/// What a locked entry of a batch shows after the fence.
#[derive(Clone, Copy)]
struct Done {
    found: Option<u64>,
    action: Action,
    /// Lane and its new fingerprint.
    show: Option<(usize, u8)>,
}

impl<M: Medium> Core<M> {
    pub(super) fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            if !self.get_batch(keys, out) {
                keys.iter().zip(out).for_each(|(&key, out)| *out = self.get(key));
            }
        }
    }

    /// `false` if a resize is under way or began meanwhile; then nothing in `out` counts.
    fn get_batch(&self, keys: &[u64], out: &mut [Option<u64>]) -> bool {
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return false;
        }
        let mut firsts = [0; BATCH];
        let mut matches = [0; BATCH];
        for (&key, first) in keys.iter().zip(&mut firsts) {
            *first = self.hasher.first_u64(key);
            self.lines.prefetch(geometry.home(h0(*first)) as usize);
        }
        for (&first, matches) in firsts.iter().zip(&mut matches).take(keys.len()) {
            let home = geometry.home(h0(first));
            let line = &self.lines.get(home as usize).0;
            *matches = match_line(self.isa, line, level1_fingerprint(first));
            if *matches != 0 {
                self.medium().prefetch(self.slot_1(home, matches.trailing_zeros() as usize));
            }
        }
        fence(Ordering::Acquire);
        for (index, &key) in keys.iter().enumerate() {
            let (first, matches) = (firsts[index], matches[index]);
            let home = geometry.home(h0(first));
            let candidates = if key == 0 { 0 } else { matches };
            out[index] = lanes(candidates)
                .find_map(|lane| self.read(self.slot_1(home, lane), key, [home, home]))
                .or_else(|| {
                    let spilled = self.flags_1(home).load(Ordering::Acquire) & SPILLED != 0;
                    spilled.then(|| self.search_spilled(geometry, key, first, [home, home]))?
                });
        }
        fence(Ordering::Acquire);
        self.geometry() == geometry
    }

    /// Does a mutation for each item in order; `out[i]` is the state that item `i` found.
    pub(super) fn mutate_many<T>(
        &self,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: impl Fn(&T) -> u64,
        decide: impl Fn(&T, Option<u64>) -> Action,
    ) -> Result<(), Error> {
        for (items, out) in items.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let done = self.mutate_batch(items, out, &key_of, &decide);
            for (index, item) in items.iter().enumerate() {
                if done & 1 << index == 0 {
                    out[index] = self.mutate(key_of(item), |found| decide(item, found))?;
                }
            }
        }
        Ok(())
    }

    /// Does what can be done without waiting and with one fence; returns which items that were.
    fn mutate_batch<T>(
        &self,
        items: &[T],
        out: &mut [Option<u64>],
        key_of: &impl Fn(&T) -> u64,
        decide: &impl Fn(&T, Option<u64>) -> Action,
    ) -> u32 {
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return 0;
        }
        let mut firsts = [0; BATCH];
        for (item, first) in items.iter().zip(&mut firsts) {
            *first = self.hasher.first_u64(key_of(item));
            self.lines.prefetch(geometry.home(h0(*first)) as usize);
        }
        let home_of = |index: usize| geometry.home(h0(firsts[index]));
        // Two entries of one block: the first gets the lock, the second does not. Entries of a
        // block held by another thread are put off together, so that their order is kept.
        let mut locks = [const { None }; BATCH];
        let mut refused = [u64::MAX; BATCH];
        let mut refusals = 0;
        for (index, lock) in locks.iter_mut().enumerate().take(items.len()) {
            let home = home_of(index);
            if !refused[..refusals].contains(&home) {
                *lock = Locked::attempt(self.flags_1(home));
            }
            if lock.is_none() {
                refused[refusals] = home;
                refusals += 1;
            }
        }
        if self.geometry() != geometry {
            return 0;
        }
        for index in (0..items.len()).filter(|&index| locks[index].is_some()) {
            self.prefetch_target(home_of(index), firsts[index]);
        }
        let mut done = [None; BATCH];
        let mut stored = false;
        for (index, item) in items.iter().enumerate().filter(|&(index, _)| locks[index].is_some()) {
            let entry = self.store_unfenced(home_of(index), key_of(item), firsts[index], |found| {
                decide(item, found)
            });
            stored |= entry.is_some_and(|entry| entry.action != Action::Keep);
            done[index] = entry;
        }
        if stored {
            self.medium().fence();
        }
        let mut finished = 0;
        for (index, entry) in done.into_iter().enumerate() {
            let Some(entry) = entry else { continue };
            if let Some((lane, fingerprint)) = entry.show {
                self.set_lane_1(home_of(index), lane, fingerprint);
            }
            out[index] = entry.found;
            finished |= 1 << index;
        }
        drop(locks);
        for entry in done.into_iter().flatten() {
            match (entry.found, entry.action) {
                (None, Action::Put(_)) => self.count_insertion(),
                (Some(_), Action::Remove) => drop(self.count(-1)),
                _ => {}
            }
        }
        finished
    }

    /// Prefetches the slot that a mutation of a key will most probably read or write.
    #[inline(always)]
    fn prefetch_target(&self, home: u64, first: u64) {
        let line = &self.lines.get(home as usize).0;
        let mut candidates = match_line(self.isa, line, level1_fingerprint(first));
        if candidates == 0 {
            candidates = empty_line(self.isa, line) & self.lanes_1;
        }
        if candidates != 0 {
            let slot = self.slot_1(home, candidates.trailing_zeros() as usize);
            self.medium().prefetch_write(slot);
        }
    }

    /// Does a mutation in level 1, whose block is locked, up to the flush. `None`, and nothing
    /// done, if level 1 does not suffice.
    #[inline(always)]
    fn store_unfenced(
        &self,
        home: u64,
        key: u64,
        first: u64,
        decide: impl Fn(Option<u64>) -> Action,
    ) -> Option<Done> {
        debug_assert_ne!(self.flags_1(home).load(Ordering::Relaxed) & LOCK, 0);
        if key == 0 {
            return None;
        }
        let medium = self.medium();
        let flush = |slot: Offset| medium.flush(slot);
        if let Some((lane, value)) = self.find_1(home, key, first) {
            let slot = self.slot_1(home, lane);
            let action = decide(Some(value));
            let show = match action {
                Action::Keep => None,
                Action::Put(new) => {
                    medium.store_release(slot.word(1), new);
                    flush(slot);
                    None
                }
                Action::Remove => {
                    medium.store(slot, 0);
                    flush(slot);
                    Some((lane, EMPTY))
                }
            };
            return Some(Done { found: Some(value), action, show });
        }
        if self.flags_1(home).load(Ordering::Relaxed) & SPILLED != 0
            && !self.is_absent_beyond_level_1(home, key, first)
        {
            return None;
        }
        let action = decide(None);
        let show = match action {
            Action::Keep | Action::Remove => None,
            Action::Put(value) => {
                let empty = empty_line(self.isa, &self.lines.get(home as usize).0) & self.lanes_1;
                if empty == 0 {
                    return None;
                }
                let lane = empty.trailing_zeros() as usize;
                let slot = self.slot_1(home, lane);
                self.fill(slot, key, value);
                flush(slot);
                Some((lane, level1_fingerprint(first)))
            }
        };
        Some(Done { found: None, action, show })
    }

    /// Whether a key, whose level-1 lock is held, is certainly in neither level 2 nor 3.
    fn is_absent_beyond_level_1(&self, home: u64, key: u64, first: u64) -> bool {
        let geometry = self.geometry();
        !geometry.is_resizing()
            && matches!(self.may_be_in_level_2(geometry, key, first), Ok(false))
            && self.level_3.find_locked(self.medium(), home, key).is_none()
    }
}
