//! Insertions, and with them updates and deletions, in the paper's order (sections 3.2 and 5.1).
//!
//! Each writes one line of the pool, with one flush and one fence, except in level 3.
//!
//! This is the slow path, which any mutation can take. `fast` does what nearly every mutation needs.

use super::Core;
use super::block::{Done, Locked, lane_to_fill};
use super::hash::h0;
use super::layout::Geometry;
use super::resize::{Left, Stale};
use crate::kit::crowded::{CHAIN_MAX, Room, refuse_crowd};
use arrayvec::ArrayVec;
use index::fingerprint::EMPTY;
use index::{Change, Error};
use pmem::sync::thread_index;
use pmem::{Medium, SpaceError};

/// Why a mutation under the block's lock did not complete.
enum Interrupted {
    Stale,
    Full(SpaceError),
}

impl From<Stale> for Interrupted {
    fn from(Stale: Stale) -> Self {
        Interrupted::Stale
    }
}

/// A key's level-1 block, locked.
pub(super) struct Home<'a> {
    pub(super) block: u64,
    /// The upper block, if a shrink has left pairs in it.
    left: Option<Left<'a>>,
    _locked: Locked<'a>,
}

/// What a mutation makes of the value that it finds.
type Decide<'d> = dyn Fn(Option<u64>) -> Change<u64> + 'd;

impl<M: Medium> Core<M> {
    /// [`Core::mutate_slow`], which is compiled once for all closures. It takes an address of `decide`, so `decide`
    /// goes to memory: here, and not in the fast path.
    #[inline(never)]
    pub(super) fn mutate_otherwise(
        &self,
        key: u64,
        first: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Option<u64>, Error> {
        self.mutate_slow(key, first, &decide)
    }

    /// Algorithm 1, Insert. Replaces the state of `key` by what `decide` makes of it, in one step;
    /// returns the state before. `decide` may be called several times.
    fn mutate_slow(&self, key: u64, first: u64, decide: &Decide<'_>) -> Result<Option<u64>, Error> {
        let done = loop {
            let geometry = self.geometry();
            let Ok(home) = self.lock_home(geometry, first) else { continue };
            match self.mutate_locked(geometry, &home, key, first, decide) {
                Ok(done) => break done,
                Err(Interrupted::Stale) => {}
                Err(Interrupted::Full(error)) => {
                    drop(home);
                    // A resize makes room in the blocks of this key, if one is possible.
                    if let SpaceError::Crowded { pairs, slots } = error {
                        let of_bucket = self.shape.level_1_slots;
                        refuse_crowd(pairs, slots, Room { of_bucket, has_way_out: true })?;
                    }
                    if !self.grow_for_overflow() {
                        return Err(error.into());
                    }
                }
            }
        };
        self.count_done(done);
        Ok(done.found)
    }

    /// Counts what a mutation did to the number of pairs.
    #[inline(always)]
    pub(super) fn count_done(&self, done: Done) {
        if let Some(word) = done.counted_in() {
            self.counted_one(self.counts.add(thread_index(), word, 1));
        }
    }

    /// Line 3: locks the level-1 block of a key. During a resize, the block that it is filled from has then been moved,
    /// except pairs for which a shrink finds no room.
    #[inline(always)]
    pub(super) fn lock_home(&self, geometry: Geometry, first: u64) -> Result<Home<'_>, Stale> {
        let block = geometry.home(h0(first));
        if geometry.is_building() {
            self.build_1(geometry, block);
        } else if geometry.resizing_1() && geometry.family_1(block) != block {
            self.ensure_moved_1(geometry, geometry.family_1(block))?;
        }
        let locked = Locked::wait(self.flags_1(block));
        // A thread that published a newer geometry before this lock was taken may have moved the block. One that
        // publishes later has to wait for the lock before it moves the block.
        if self.geometry() != geometry {
            return Err(Stale);
        }
        let left =
            if geometry.resizing_1() { self.move_if_unmoved_1(geometry, block) } else { None };
        Ok(Home { block, left, _locked: locked })
    }

    /// Lines 4 to 17.
    #[inline(always)]
    fn mutate_locked(
        &self,
        geometry: Geometry,
        home: &Home<'_>,
        key: u64,
        first: u64,
        decide: &Decide<'_>,
    ) -> Result<Done, Interrupted> {
        if let Some(done) = self.replace_existing(geometry, home, key, first, decide)? {
            return Ok(done);
        }
        let change = decide(None);
        if let Change::Put(value) = change
            && !self.insert_lv1(home.block, key, value, first)
        {
            self.insert_lv2(geometry, home.block, key, value, first)?;
        }
        Ok(Done { found: None, change })
    }

    /// Line 4, ReplaceExisting: changes a key that is present; `None` if it is in no level.
    #[inline(always)]
    fn replace_existing(
        &self,
        geometry: Geometry,
        home: &Home<'_>,
        key: u64,
        first: u64,
        decide: &Decide<'_>,
    ) -> Result<Option<Done>, Interrupted> {
        for block in home.left.iter().map(|left| left.block).chain([home.block]) {
            let Some((lane, value)) = self.find_1(block, key, first) else { continue };
            let change = decide(Some(value));
            let hide = || self.set_lane_1(block, lane, EMPTY);
            self.change_slot(self.slot_1(block, lane), change, hide);
            return Ok(Some(Done { found: Some(value), change }));
        }
        if !self.may_have_spilled([home.block; 2], first) {
            return Ok(None);
        }
        self.replace_spilled(geometry, home.block, key, first, decide)
    }

    /// [`Core::replace_existing`] in levels 2 and 3.
    fn replace_spilled(
        &self,
        geometry: Geometry,
        home: u64,
        key: u64,
        first: u64,
        decide: &Decide<'_>,
    ) -> Result<Option<Done>, Interrupted> {
        if key != 0 && self.may_be_in_level_2(geometry, key, first)? {
            let choices = self.choices(geometry, key, first);
            let _locks = self.lock_choices(geometry, choices.blocks)?;
            for (block, fingerprint) in self.places_2(geometry, key, first) {
                let Some((lane, value)) = self.find_2(block, fingerprint, key) else { continue };
                let change = decide(Some(value));
                let hide = || self.set_lane_2(block, lane, EMPTY);
                self.change_slot(self.slot_2(block, lane), change, hide);
                return Ok(Some(Done { found: Some(value), change }));
            }
        }
        let Some((cell, value)) = self.level_3.find_locked(self.medium(), home, key) else {
            return Ok(None);
        };
        let change = decide(Some(value));
        match change {
            Change::Keep => {}
            Change::Put(new) => self.level_3.update(self.medium(), cell, new),
            Change::Remove => self.level_3.remove(self.medium(), home, cell),
        }
        Ok(Some(Done { found: Some(value), change }))
    }

    /// Lines 8 to 14: inserts into an empty slot of the level-1 block. Returns whether there was one.
    #[inline(always)]
    fn insert_lv1(&self, home: u64, key: u64, value: u64, first: u64) -> bool {
        if key == 0 {
            return false;
        }
        // There is none if a shrink has left pairs in the upper block: they have taken every slot here. So a crash that
        // takes the shrink back finds no new pair in the way.
        let empties = self.empty_1(home);
        if empties == 0 {
            return false;
        }
        let lane = lane_to_fill(empties, self.preferred_1(first));
        let show = || self.set_lane_1(home, lane, self.sought_1(first).fingerprint_in(lane));
        self.fill_slot(self.slot_1(home, lane), key, value, show);
        true
    }

    /// Algorithm 2, Insert_Lv2: inserts into the emptier of the two level-2 blocks, or else into level 3.
    fn insert_lv2(
        &self,
        geometry: Geometry,
        home: u64,
        key: u64,
        value: u64,
        first: u64,
    ) -> Result<(), Interrupted> {
        if key != 0 {
            let choices = self.choices(geometry, key, first);
            let _locks = self.lock_choices(geometry, choices.blocks)?;
            // As in level 1, no new pair goes where a shrink has left pairs in the upper block. This lower block may
            // have an empty slot: it may have become free between the shrink's look for room and these locks.
            let room_in =
                |block| if self.has_left_2(geometry, block) { 0 } else { self.empty_2(block) };
            let [a, b] = choices.blocks.map(room_in);
            let choice = usize::from(b.count_ones() > a.count_ones());
            let empties = [a, b][choice];
            if empties != 0 {
                let (block, lane) = (choices.blocks[choice], empties.trailing_zeros() as usize);
                // Before the fingerprint shows the key: a search goes on to level 2 only if the bit is set.
                self.mark_spilling(geometry, home, first);
                let show = || self.set_lane_2(block, lane, choices.fingerprints[choice]);
                self.fill_slot(self.slot_2(block, lane), key, value, show);
                return Ok(());
            }
        }
        // A table that may not grow has no limit on its chains.
        if self.settings.resize_at <= 1.0 && self.level_3.chain(home).nth(CHAIN_MAX - 1).is_some() {
            let (pairs, slots) = (self.len(), self.capacity(geometry));
            return Err(Interrupted::Full(SpaceError::Crowded { pairs, slots }));
        }
        self.mark_spilling(geometry, home, first);
        self.level_3.insert(&self.pool, home, key, value).map_err(Interrupted::Full)
    }

    /// Does what a writer has to do before it looks into a level-2 block, or locks it: builds it after an opening,
    /// moves its family in a resize.
    pub(super) fn make_ready_2(&self, geometry: Geometry, block: u64) -> Result<(), Stale> {
        if geometry.is_building() {
            self.build_2(geometry, block);
        } else if geometry.resizing_2() {
            self.ensure_moved_2(geometry, geometry.family_2(block))?;
        }
        Ok(())
    }

    /// Locks a key's level-2 blocks in the order of their indices, then the upper blocks in which a shrink has left
    /// pairs.
    fn lock_choices(
        &self,
        geometry: Geometry,
        [a, b]: [u64; 2],
    ) -> Result<(Locked<'_>, Option<Locked<'_>>, ArrayVec<Locked<'_>, 2>), Stale> {
        if geometry.is_resizing() {
            self.make_ready_2(geometry, a)?;
            self.make_ready_2(geometry, b)?;
        }
        let [a, b] = [a.min(b), a.max(b)];
        let first = Locked::wait(self.word_2(a));
        let second = (a != b).then(|| Locked::wait(self.word_2(b)));
        if self.geometry() != geometry {
            return Err(Stale);
        }
        let mut left = ArrayVec::new();
        if geometry.shrinking_2() {
            let blocks = [a, b].into_iter().take(if a == b { 1 } else { 2 });
            let blocks = blocks.filter(|&block| self.has_left_2(geometry, block));
            left.extend(blocks.map(|block| Locked::wait(self.word_2(block + geometry.blocks_2()))));
        }
        Ok((first, second, left))
    }
}
