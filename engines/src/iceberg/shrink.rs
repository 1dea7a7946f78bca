//! Shrinking: each level gets half as many blocks, family by family, while operations run.
//!
//! A shrink empties the upper block of each family into the lower one. Once the geometry says so, a key's level-1 block
//! is the lower one. A writer locks it, and first empties the upper block, under both locks. Queries look into the
//! upper block, and then into the lower one. The extents of the upper blocks stay in the pool, empty, for when the
//! table grows again.
//!
//! Pairs that find no room in the lower block of level 1 go to level 3. Pairs that find no room in the lower block of
//! level 2 go there, too, but later: that takes the lock of the pair's level-1 block, and no scan may be under way,
//! since the pair would leave the order in which scans meet it. If the pool has no room for nodes, pairs stay where
//! they are, and the shrink goes on when there is room. Until then writers look into both blocks. They put no new pair
//! into the lower one, since the pairs left in the upper one take each slot that becomes free.
//!
//! A crash takes a shrink back. The superblock has the old size until the last family is done, so recovery moves pairs
//! to the upper blocks as after an interrupted doubling. They have room there: they came from there, or came when the
//! upper block was empty. A pair that was on its way to level 3 may be in both places; recovery frees the node.

use super::Core;
use super::block::{Locked, lane_to_fill};
use super::hash::spilled_bit;
use super::layout::{Geometry, MOVED_2, ROOT_LEVEL_1, ROOT_LEVEL_2, SPILLED, SPILLED_WORD};
use super::resize::{Move, Moves, Stale};
use index::fingerprint::{EMPTY, lanes};
use index::{Error, Shrunk};
use pmem::sync::{AtomicU64, Ordering, fence};
use pmem::{Medium, Offset, SpaceError};

/// A table shrinks only if it is then at most this full, as a fraction of the load factor at which it grows. A level-1
/// block that takes in another then has room for all but one pair in ten thousand.
const SHRINK_WITHIN: f64 = 0.7;
/// Level 2 must be at most this full: its pairs can go to one block only.
const LEVEL_2_WITHIN: f64 = 0.5;
/// Level-2 blocks that are counted to estimate how full it is.
const BLOCKS_COUNTED: u64 = 1 << 12;

/// Scans under way, which keep a table from shrinking.
#[derive(Debug, Default)]
pub(super) struct Scans(AtomicU64);

/// A scan under way, until dropped.
pub(super) struct OpenScan<'a>(&'a Scans);

impl Drop for OpenScan<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

impl<M: Medium> Core<M> {
    /// Halves the table, unless it has its initial size or is too full.
    #[inline(never)]
    pub(super) fn shrink(&self) -> Result<Shrunk, Error> {
        let mut before;
        loop {
            let is_settled = self.finish_moves();
            before = self.geometry();
            if !is_settled {
                return Ok(Shrunk::Kept);
            }
            // Waits for a helper that records the end of the last resize.
            let _beginning = self.beginning.lock();
            if self.begin_shrink_alone(before)? {
                break;
            }
            if self.geometry() == before {
                return Ok(Shrunk::Kept);
            }
            // Meanwhile a helper has put something in order, or somebody has begun a resize.
        }
        if !self.finish_moves() {
            return Ok(Shrunk::Kept);
        }
        let has_halved = self.capacity(self.geometry()) < self.capacity(before);
        Ok(if has_halved { Shrunk::Halved } else { Shrunk::Kept })
    }

    /// As [`Core::begin_shrink_alone`], unless somebody else is about to begin or to record something.
    pub(super) fn begin_shrink(&self, seen: Geometry) -> Result<bool, SpaceError> {
        match self.beginning.try_lock() {
            Some(_beginning) => self.begin_shrink_alone(seen),
            None => Ok(false),
        }
    }

    /// Begins to halve each level that does not have its initial size, unless the table is too full, is being scanned,
    /// or is being resized. Returns whether it has begun. The caller is the only one who begins anything.
    fn begin_shrink_alone(&self, seen: Geometry) -> Result<bool, SpaceError> {
        let (log2_1, log2_2) = (seen.level_1_log2(), seen.level_2_log2());
        let [level_1, level_2] = [log2_1, log2_2].map(|log2| log2 > self.shape.initial_log2);
        if seen.is_resizing() || !(level_1 || level_2) {
            return Ok(false);
        }
        let next = seen.begin_shrink(level_1, level_2);
        // Otherwise the table would grow again at once.
        let fill = self.len() as f64 / self.capacity(next) as f64;
        if fill >= self.settings.resize_at.min(1.0) * SHRINK_WITHIN || self.is_full_2(next) {
            return Ok(false);
        }
        if self.geometry() != seen || self.is_scanned() {
            return Ok(false);
        }
        self.pool.extend(|draft| {
            draft.set_at_rest(false);
            // Recovery can take back only one halving: record the last one first.
            draft.engine_roots()[ROOT_LEVEL_1] = log2_1.into();
            draft.engine_roots()[ROOT_LEVEL_2] = log2_2.into();
            Ok(())
        })?;
        self.publish_resize(next);
        Ok(true)
    }

    /// Whether level 2 is too full for half as many blocks, judged by its first blocks.
    fn is_full_2(&self, next: Geometry) -> bool {
        let counted = next.span_2().min(BLOCKS_COUNTED);
        let pairs: u64 = (0..counted).map(|block| u64::from(self.taken_2(block))).sum();
        let blocks = counted * next.blocks_2() / next.span_2();
        pairs as f64 > LEVEL_2_WITHIN * (blocks * u64::from(self.shape.level_2_slots)) as f64
    }

    /// Records the size that a shrink has led to. If that fails, the next opening finds empty blocks.
    pub(super) fn record_size(&self, root: usize, log2: u32) {
        let _ = self.pool.extend(|draft| {
            draft.engine_roots()[root] = log2.into();
            Ok(())
        });
    }

    /// Whether a scan is under way.
    pub(super) fn is_scanned(&self) -> bool {
        self.scans.0.load(Ordering::Acquire) != 0
    }

    /// Announces a scan. Meanwhile no shrink begins, and no pair is moved out of level 2.
    pub(super) fn open_scan(&self) -> OpenScan<'_> {
        let _beginning = self.beginning.lock();
        self.scans.0.fetch_add(1, Ordering::Relaxed);
        OpenScan(&self.scans)
    }

    /// Moves all pairs of an upper level-1 block to the lower one, or to level 3; both are locked. Returns `false` if
    /// the pool has no room for some.
    pub(super) fn merge_1(&self, lower: u64, upper: u64) -> bool {
        let medium = self.medium();
        let spilled = &self.line_1(upper)[SPILLED_WORD];
        // Before anything moves: a query looks at the bits of the lower block last.
        self.mark_spilled(lower, spilled.load(Ordering::Relaxed) & SPILLED);
        self.level_3.split(upper, lower, |_| true);
        let mut moves = Moves::NONE;
        let mut empties = self.empty_1(lower);
        for from in lanes(self.taken_1(upper)) {
            if empties == 0 {
                break;
            }
            let (key, value) = medium.load_pair(self.slot_1(upper, from));
            let first = self.hasher.first_u64(key);
            let to = lane_to_fill(empties, self.preferred_1(first));
            empties &= !(1 << to);
            let fingerprint = self.sought_1(first).fingerprint_in(to);
            moves.push(Move { key, value, from, to, fingerprint });
        }
        let moves = moves.entries();
        self.carry_out(
            moves,
            |lane| self.slot_1(lower, lane),
            |lane| self.slot_1(upper, lane),
            |lane, fingerprint| self.set_lane_1(lower, lane, fingerprint),
        );
        moves.iter().for_each(|entry| self.set_lane_1(upper, entry.from, EMPTY));
        for lane in lanes(self.taken_1(upper)) {
            let hide = || self.set_lane_1(upper, lane, EMPTY);
            if !self.move_to_level_3(lower, self.slot_1(upper, lane), hide) {
                return false;
            }
        }
        spilled.store(spilled.load(Ordering::Relaxed) & !SPILLED, Ordering::Release);
        true
    }

    /// Moves the pair in a slot of a locked block to the chain of a locked level-1 block; `hide` clears its
    /// fingerprint. Returns `false`, with the pair still there, if the pool has no room for a node.
    fn move_to_level_3(&self, home: u64, slot: Offset, hide: impl FnOnce()) -> bool {
        let medium = self.medium();
        let (key, value) = medium.load_pair(slot);
        self.mark_spilled(home, spilled_bit(self.hasher.first_u64(key)));
        if self.level_3.insert(&self.pool, home, key, value).is_err() {
            return false;
        }
        // A look-up that no longer sees the pair here must see the node's link.
        fence(Ordering::Release);
        medium.store(slot, 0);
        medium.persist(slot);
        hide();
        true
    }

    /// Moves pairs of an upper level-2 block to the lower one until that is full; both are locked. Returns whether none
    /// is left.
    pub(super) fn merge_2(&self, geometry: Geometry, lower: u64, upper: u64) -> bool {
        let fingerprint_of = |key| {
            let choices = self.choices(geometry, key, self.hasher.first_u64(key));
            choices.fingerprints[usize::from(choices.blocks[0] != lower)]
        };
        let mut moves = Moves::NONE;
        let mut empties = self.empty_2(lower);
        for from in self.used_2(upper) {
            if empties == 0 {
                break;
            }
            let (key, value) = self.medium().load_pair(self.slot_2(upper, from));
            let to = empties.trailing_zeros() as usize;
            empties &= empties - 1;
            moves.push(Move { key, value, from, to, fingerprint: fingerprint_of(key) });
        }
        let moves = moves.entries();
        self.carry_out(
            moves,
            |lane| self.slot_2(lower, lane),
            |lane| self.slot_2(upper, lane),
            |lane, fingerprint| self.set_lane_2(lower, lane, fingerprint),
        );
        moves.iter().for_each(|entry| self.set_lane_2(upper, entry.from, EMPTY));
        self.taken_2(upper) == 0
    }

    /// Whether a shrink has left pairs of this family in the upper block. The lower block's lock is held.
    pub(super) fn has_left_2(&self, geometry: Geometry, lower: u64) -> bool {
        geometry.shrinking_2()
            && self.word_2(lower).load(Ordering::Relaxed) & MOVED_2 != geometry.moved_2()
    }

    /// Like [`Core::ensure_moved_2`], for a caller that holds no lock. Pairs for which the lower block has no room go
    /// to level 3.
    pub(super) fn move_family_2(&self, geometry: Geometry, family: u64) -> Result<bool, Stale> {
        if self.ensure_moved_2(geometry, family)? {
            return Ok(true);
        }
        let upper = family + geometry.blocks_2();
        for lane in 0..self.shape.level_2_slots as usize {
            // While this is held, no scan begins.
            let Some(_beginning) = self.beginning.try_lock() else { return Ok(false) };
            if self.is_scanned() {
                return Ok(false);
            }
            let slot = self.slot_2(upper, lane);
            let key = self.medium().load(slot);
            if key == 0 {
                continue;
            }
            let home = self.lock_home(geometry, self.hasher.first_u64(key))?;
            let _locks = [family, upper].map(|block| Locked::wait(self.word_2(block)));
            if self.geometry() != geometry {
                return Err(Stale);
            }
            // Nobody puts pairs here, so either this pair is still here or the slot is empty.
            if self.medium().load(slot) == key {
                let hide = || self.set_lane_2(upper, lane, EMPTY);
                if !self.move_to_level_3(home.block, slot, hide) {
                    return Ok(false);
                }
            }
        }
        self.ensure_moved_2(geometry, family)
    }
}
