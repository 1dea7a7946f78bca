//! The usual cases of `ops`, in as few instructions as they need.
//!
//! A processor overlaps the cache misses of operations that follow each other as far as they fit
//! its reorder window together, some hundred instructions. So what nearly every operation does
//! is written down here once more, without the rest: no resize is under way, the key is not 0, its
//! block's lock is free, level 1 suffices, and matching a line takes a few instructions. In every
//! other case nothing has been done, and `ops` begins again.

use super::Core;
use super::layout::{LOCK, SPILLED, lane_from, slot_of};
use super::ops::{Locked, set_lane_of_line};
use index::fingerprint::{EMPTY, match_line_fast, scan_line_fast};
use index::hash::level1_fingerprint;
use index::{Change, Error, Exchange, is_same_state};
use pmem::Medium;
use pmem::sync::{Ordering, fence};

impl<M: Medium> Core<M> {
    /// As [`Core::get_anyhow`].
    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> Option<u64> {
        let first = self.hasher.first_u64(key);
        let geometry = self.geometry();
        if geometry.is_resizing() {
            return self.get_anyhow(key, first);
        }
        let home = geometry.home(first);
        let block = self.area_1.at(home);
        let preferred = self.preferred_1(first);
        // Two misses at once, if the guess is good, instead of one after the other.
        self.medium().prefetch(slot_of(block, preferred));
        let line = &self.lines.get(home as usize).0;
        let Some(matches) = match_line_fast(self.isa, line, level1_fingerprint(first)) else {
            return self.get_anyhow(key, first);
        };
        // From the preferred lane on: the first is then nearly always the right one.
        let mut candidates = matches.rotate_right(preferred as u32);
        // A fingerprint read above vouches for the slot read below.
        fence(Ordering::Acquire);
        while candidates != 0 {
            let slot = slot_of(block, lane_from(preferred, candidates));
            let (found, value) = self.medium().load_pair(slot);
            if found == 0 {
                // A removal that may not be durable yet; or this is key 0, which is not here.
                return self.get_anyhow(key, first);
            }
            if found == key {
                // A pair under the lock may not be durable yet.
                let is_locked = line[0].load(Ordering::Acquire) & LOCK != 0;
                return match is_locked || self.geometry() != geometry {
                    false => Some(value),
                    true => self.get_anyhow(key, first),
                };
            }
            candidates &= candidates - 1;
        }
        if line[0].load(Ordering::Acquire) & SPILLED != 0 {
            let found = self.search_spilled(geometry, key, first, [home; 2]);
            fence(Ordering::Acquire);
            return match self.geometry() == geometry {
                true => found,
                false => self.get_anyhow(key, first),
            };
        }
        match self.geometry() == geometry {
            true => None,
            false => self.get_anyhow(key, first),
        }
    }

    /// As [`Core::mutate_anyhow`].
    #[inline(always)]
    pub(super) fn mutate(
        &self,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Option<u64>, Error> {
        let first = self.hasher.first_u64(key);
        match self.mutate_usually(key, first, &decide) {
            Some((found, action)) => {
                self.count_change(found, action);
                Ok(found)
            }
            None => self.mutate_anyhow(key, first, decide),
        }
    }

    /// What was found and done, if this is a usual case.
    #[inline(always)]
    fn mutate_usually(
        &self,
        key: u64,
        first: u64,
        decide: &impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<(Option<u64>, Change<u64>)> {
        let geometry = self.geometry();
        if geometry.is_resizing() || key == 0 {
            return None;
        }
        let home = geometry.home(first);
        let block = self.area_1.at(home);
        let fingerprint = level1_fingerprint(first);
        let preferred = self.preferred_1(first);
        self.medium().prefetch_write(slot_of(block, preferred));
        let line = &self.lines.get(home as usize).0;
        // Before the lock, whose instruction waits for all earlier stores: so these misses
        // overlap with the stores, or the fence, of the operation before.
        let (matches, empties) = scan_line_fast(self.isa, line, fingerprint)?;
        let mut candidates = matches.rotate_right(preferred as u32);
        let room = self.choose_1(empties, first);
        let likely = if candidates != 0 { lane_from(preferred, candidates) } else { room };
        self.medium().prefetch_write(slot_of(block, likely));
        let locked = Locked::attempt(&line[0])?;
        if self.geometry() != geometry {
            return None;
        }
        // What was seen before the lock tells where to look: a slot of this block that holds the
        // key now holds it until the lock is given back, whatever happened in between.
        while candidates != 0 {
            let lane = lane_from(preferred, candidates);
            let slot = slot_of(block, lane);
            let (found, value) = self.medium().load_pair(slot);
            if found == key {
                let action = decide(Some(value));
                match action {
                    Change::Keep => {}
                    Change::Put(new) => self.store_value(slot, new),
                    Change::Remove => {
                        self.erase(slot);
                        set_lane_of_line(line, lane, EMPTY);
                    }
                }
                drop(locked);
                return Some((Some(value), action));
            }
            candidates &= candidates - 1;
        }
        // That it is absent, only what is seen under the lock tells.
        let (matches_now, empties) = scan_line_fast(self.isa, line, fingerprint)?;
        if matches_now != matches {
            return None;
        }
        if line[0].load(Ordering::Relaxed) & SPILLED != 0 {
            return None;
        }
        let action = decide(None);
        if let Change::Put(value) = action {
            let empties = empties & self.lanes_1;
            if empties == 0 {
                return None;
            }
            let lane = self.choose_1(empties, first);
            self.store_pair(slot_of(block, lane), key, value);
            // After the fence: a reader trusts what it finds under a fingerprint to be durable.
            set_lane_of_line(line, lane, fingerprint);
        }
        drop(locked);
        Some((None, action))
    }

    #[inline(always)]
    pub(super) fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |found| Change::if_absent(found, value))
    }

    #[inline(always)]
    pub(super) fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |found| Change::if_present(found, value))
    }

    #[inline(always)]
    pub(super) fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |_| Change::Put(value))
    }

    #[inline(always)]
    pub(super) fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |_| Change::Remove)
    }

    #[inline(always)]
    pub(super) fn compare_exchange(
        &self,
        key: u64,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<Exchange<u64>, Error> {
        let found =
            self.mutate(key, |found| Change::if_expected(is_same_state(found, expected), new))?;
        Ok(if is_same_state(found, expected) { Ok(()) } else { Err(found) })
    }
}
