//! Resizing (sections 4 and 5.3): each level doubles in place, block by block, while operations run. `shrink` is the
//! reverse.
//!
//! A resize takes an extent for each level, records the new sizes, and publishes a geometry that says so. From then on,
//! a writer that is about to use a block first makes sure that the block's source has been moved, under the source's
//! lock. Queries look at sources and destinations. When no block is left, the geometry says that the resize has ended.
//! Levels 1 and 2 have separate flags, counts and ends. A doubling then brings pairs home: see `tidy`.

use super::block::{Choices, Locked, lane_to_fill};
use super::hash::h0;
use super::layout::{
    Geometry, LEVEL_1, LEVEL_2, MOVED_1, MOVED_2, NO_AIM, ROOT_LEVEL_1, ROOT_LEVEL_2, SPILLED,
    SPILLED_WORD,
};
use super::{Core, INSERTIONS, REMOVALS};
use crate::Settings;
use index::fingerprint::{EMPTY, lanes};
use pmem::slots::Area;
use pmem::sync::{AtomicU64, Ordering, fence, spin, thread_index};
use pmem::{LINE, Medium, Offset, SpaceError};

/// Without a helper, a thread moves one block of each level per this many insertions or removals.
const CHANGES_PER_MOVE: u64 = 8;
/// Blocks that a writer moves at once if the next resize is due before the last has ended.
const OVERDUE_MOVES: u64 = 64;
/// In large tables, a thread looks at the load factor once in 2^this insertions or removals.
const LOOK_LOG2_MAX: u32 = 10;
/// Space is prepared ahead when the load factor is within this of a resize.
const PREPARE_WITHIN: f64 = 0.05;
/// Level 2 alone doubles when level 3 has grown since the last resize by more than one pair in this many slots, and
/// level 2 does not have more blocks than level 1 already. Pairs in level 3 stay there, so their number alone would let
/// level 2 double again and again.
const SLOTS_PER_OVERFLOW: u64 = 1024;
/// If level 3 has grown by fewer pairs than this, level 2 does not double.
const OVERFLOW_MIN: u64 = 64;

/// How often a shrink looks for room in vain before [`Core::finish_moves`] gives up.
const ATTEMPTS: u32 = 3;

/// The geometry changed before anything was written: begin again.
pub(super) struct Stale;

/// How far a resize is. In a separate line: writers change it, and readers read the geometry.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Progress {
    /// Families of blocks of each level that are not yet moved.
    pub(super) unmoved_1: AtomicU64,
    pub(super) unmoved_2: AtomicU64,
    /// Cursors of [`Core::move_next`]: the next family of each level.
    next_1: AtomicU64,
    next_2: AtomicU64,
    /// Pairs in level 3 when the last resize began.
    overflow_before: AtomicU64,
    /// Resizes begun since the pool was opened.
    pub(super) resizes: AtomicU64,
}

/// The bits of a thread's number of insertions, or of removals, that may change without its looking around. `moves`: it
/// looks around also to move a block.
fn look_mask(geometry: Geometry, moves: bool) -> u64 {
    let mask = (1 << geometry.level_1_log2().saturating_sub(4).min(LOOK_LOG2_MAX)) - 1;
    if moves { mask & (CHANGES_PER_MOVE - 1) } else { mask }
}

/// A pair to be moved, with its lanes in source and destination.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) fingerprint: u8,
}

/// The pairs that leave one block. An array, since a writer that moves a block does not wait for an allocator.
pub(super) struct Moves {
    entries: [Move; 64],
    len: usize,
}

impl Moves {
    pub(super) const NONE: Moves =
        Moves { entries: [Move { key: 0, value: 0, from: 0, to: 0, fingerprint: 0 }; 64], len: 0 };

    pub(super) fn push(&mut self, entry: Move) {
        self.entries[self.len] = entry;
        self.len += 1;
    }

    pub(super) fn entries(&self) -> &[Move] {
        &self.entries[..self.len]
    }
}

/// The upper block of a family in which a shrink has left pairs for want of room. It is locked.
pub(super) struct Left<'a> {
    pub(super) block: u64,
    _locked: Locked<'a>,
}

impl<M: Medium> Core<M> {
    /// Counts insertions and removals of the calling thread, and now and then checks whether a resize is due.
    #[inline(always)]
    pub(super) fn count_changes(&self, inserted: u64, removed: u64) {
        if removed != 0 {
            self.count(REMOVALS, removed);
        }
        if inserted != 0 {
            self.count(INSERTIONS, inserted);
        }
    }

    /// What [`Core::count`] does after a count has grown by one to `sum`, in fewer instructions: so it passes a
    /// multiple of the interval only by reaching it.
    #[inline(always)]
    pub(super) fn counted_one(&self, sum: u64) {
        if sum & self.published.look_mask.load(Ordering::Relaxed) == 0 {
            self.look_around(sum.wrapping_sub(1), sum);
        }
    }

    #[inline(always)]
    pub(super) fn count(&self, word: usize, changes: u64) {
        let sum = self.counts.add(thread_index(), word, changes);
        let before = sum.wrapping_sub(changes);
        if (sum ^ before) & !self.published.look_mask.load(Ordering::Relaxed) != 0 {
            self.look_around(before, sum);
        }
    }

    /// The extra work that an insertion or a removal does now and then.
    #[cold]
    #[inline(never)]
    fn look_around(&self, before: u64, sum: u64) {
        let geometry = self.geometry();
        if (sum ^ before) & !look_mask(geometry, false) != 0 {
            // The thread that last published a mask may have been held up since before the last resize.
            self.publish_look_mask(geometry);
            self.consider_resize(geometry);
        }
        if geometry.is_resizing() && !self.signal.has_helper() {
            self.move_next(1);
        }
    }

    /// Publishes how often an insertion looks around under a geometry.
    pub(super) fn publish_look_mask(&self, geometry: Geometry) {
        let moves = geometry.is_resizing() && !self.signal.has_helper();
        self.published.look_mask.store(look_mask(geometry, moves), Ordering::Relaxed);
    }

    #[cold]
    fn consider_resize(&self, geometry: Geometry) {
        if geometry.is_building() {
            // Its pairs may not be counted. Who finds no room completes the building.
            return;
        }
        let load_factor = self.len() as f64 / self.capacity(geometry) as f64;
        let Settings { resize_at, shrink_at, .. } = self.settings;
        // The table keeps its size if it would be too full, or if the shrink cannot be recorded.
        if load_factor < shrink_at && matches!(self.begin_shrink(geometry), Ok(true)) {
            return;
        }
        if resize_at > 1.0 {
            return;
        }
        if load_factor >= resize_at {
            // While others write, a sum of counts may be too large by the pairs that were inserted and removed while it
            // was taken, if its thread was held up. Twice in a row that is unlikely.
            if (self.len() as f64) < resize_at * self.capacity(geometry) as f64 {
                return;
            }
            // If there is no space, the table fills up, and a writer that finds no room reports it.
            let _ = self.begin_resize(geometry, true);
        } else if !geometry.is_resizing() {
            if self.signal.has_helper() && load_factor >= resize_at - PREPARE_WITHIN {
                self.ask_to_prepare(geometry);
            }
            let overflow_max = (self.capacity(geometry) / SLOTS_PER_OVERFLOW).max(OVERFLOW_MIN);
            let overflow_before = self.progress.overflow_before.load(Ordering::Relaxed);
            if self.level_3.len() > overflow_before + overflow_max
                && geometry.blocks_2() <= geometry.blocks_1()
            {
                let _ = self.begin_resize(geometry, false);
            }
        }
    }

    fn ask_to_prepare(&self, geometry: Geometry) {
        let log2 = u64::from(geometry.level_1_log2()) + 1;
        if self.prepared_log2.swap(log2, Ordering::Relaxed) != log2 {
            self.signal.ask_to_prepare();
        }
    }

    /// Allocates and touches what the next resize will take. The helper calls it.
    pub(super) fn prepare(&self) {
        let geometry = self.geometry();
        let next = geometry.begin(true, geometry.blocks_2() <= geometry.blocks_1());
        let bytes_missing = |owner, area: &Area, log2| {
            let index = area.extents_for(log2) - 1;
            if self.has_extent(owner, index) { 0 } else { area.extent_bytes(index) }
        };
        let bytes = bytes_missing(LEVEL_1, self.blocks_1.area(), next.level_1_log2())
            + bytes_missing(LEVEL_2, &self.area_2, next.level_2_log2());
        // If this is refused, the resize asks again when it is due, and reports it.
        let _ = self.pool.prepare(bytes);
        self.blocks_1.advise_lines(geometry.blocks_1()..next.blocks_1(), true);
        self.words.advise(geometry.blocks_2() as usize..next.blocks_2() as usize, true);
    }

    /// Called when a key found no room at all. Returns whether a resize has begun, so that another try makes sense.
    #[cold]
    #[inline(never)]
    pub(super) fn grow_for_overflow(&self) -> bool {
        if self.settings.resize_at > 1.0 {
            return false;
        }
        let geometry = self.geometry();
        self.finish_moves() && self.begin_resize(geometry, true).is_ok()
    }

    /// Whether the pool has this extent, possibly left by a shrink.
    fn has_extent(&self, owner: u8, index: u32) -> bool {
        self.pool.extents_of(owner).len() > index as usize
    }

    /// Begins to double level 1, if `level_1`, and level 2, unless it is ahead of level 1. Also `Ok` if another thread
    /// is doing so, or has doubled the table since the caller looked at it under `seen`. If the last resize has not
    /// ended yet, helps that one instead.
    #[inline(never)]
    pub(super) fn begin_resize(&self, seen: Geometry, level_1: bool) -> Result<(), SpaceError> {
        let Some(_beginning) = self.beginning.try_lock() else { return Ok(()) };
        if self.geometry().is_resizing() {
            self.move_next(OVERDUE_MOVES);
        }
        let geometry = self.geometry();
        // A caller that was held up over a whole resize would double a half-empty table.
        let sizes = |geometry: Geometry| (geometry.blocks_1(), geometry.blocks_2());
        if geometry.is_resizing() || sizes(geometry) != sizes(seen) {
            return Ok(());
        }
        let level_2 = geometry.blocks_2() <= geometry.blocks_1();
        if !(level_1 || level_2) {
            return Ok(());
        }
        let next = geometry.begin(level_1, level_2);
        let blocks_max = self.blocks_1.blocks_max().min(self.level_3.chains_max());
        let blocks_max = blocks_max.min(self.tidying.blocks_max());
        if next.blocks_1() > blocks_max || next.blocks_2() > self.words.len() as u64 {
            // About where the new extent would end.
            let needed_bytes = self.pool.superblock().end.saturating_add(next.blocks_1() * 1024);
            return Err(self.pool.no_room_for("a larger table", needed_bytes));
        }
        let (log2_1, log2_2) = (next.level_1_log2(), next.level_2_log2());
        let area_1 = self.blocks_1.area();
        let index_1 = area_1.extents_for(log2_1) - 1;
        let index_2 = self.area_2.extents_for(log2_2) - 1;
        let is_there = [self.has_extent(LEVEL_1, index_1), self.has_extent(LEVEL_2, index_2)];
        let (extent_1, extent_2) = self.pool.extend(|draft| {
            draft.set_at_rest(false);
            draft.engine_roots()[ROOT_LEVEL_1] = log2_1.into();
            draft.engine_roots()[ROOT_LEVEL_2] = log2_2.into();
            // An extent that a shrink has left is still there, and empty.
            let mut take = |is_wanted: bool, owner, area: &Area, index| {
                (is_wanted && !is_there[usize::from(owner == LEVEL_2)])
                    .then(|| draft.take_extent(owner, index as u8, area.extent_bytes(index)))
                    .transpose()
            };
            let extent_1 = take(level_1, LEVEL_1, area_1, index_1)?;
            Ok((extent_1, take(level_2, LEVEL_2, &self.area_2, index_2)?))
        })?;
        if let Some(extent) = extent_1 {
            let added = self.blocks_1.add_extent(index_1, extent.start);
            added.expect(
                "an extent just taken lies within the pool, and there are lines for its blocks",
            );
            self.blocks_1.advise_lines(geometry.blocks_1()..next.blocks_1(), false);
        }
        if let Some(extent) = extent_2 {
            self.area_2.add_extent(index_2, extent.start);
            self.words.advise(geometry.blocks_2() as usize..next.blocks_2() as usize, false);
        }
        self.publish_resize(next);
        Ok(())
    }

    /// Publishes a geometry under which blocks are to be moved. Nobody else changes the geometry meanwhile: no resize
    /// is under way, and only the caller may begin one.
    pub(super) fn publish_resize(&self, next: Geometry) {
        let progress = &self.progress;
        progress.unmoved_1.store(next.families_1(), Ordering::Relaxed);
        progress.unmoved_2.store(next.families_2(), Ordering::Relaxed);
        let before = progress.resizes.fetch_add(1, Ordering::Relaxed);
        self.tidying.begin(next, before + 1);
        progress.overflow_before.store(self.level_3.len(), Ordering::Relaxed);
        progress.next_1.store(0, Ordering::Relaxed);
        progress.next_2.store(0, Ordering::Relaxed);
        self.publish_look_mask(next);
        self.hide_while(|| self.published.geometry.store(next.0, Ordering::Release));
        self.publish_aim();
        self.signal.wake();
    }

    /// Visits the next `count` families of each level that is being resized, and moves those that have not been moved.
    /// Returns whether a shrink has found room for all of them.
    ///
    /// The cursors go in circles as long as a resize lasts: a thread that was held up since the last resize may advance
    /// a cursor past a block without looking at it.
    pub(super) fn move_next(&self, count: u64) -> bool {
        let mut is_done = true;
        for _ in 0..count {
            let geometry = self.geometry();
            if !geometry.is_resizing() {
                break;
            }
            let next = |cursor: &AtomicU64, families: u64| {
                cursor.fetch_add(1, Ordering::Relaxed) & (families - 1)
            };
            // `Err(Stale)`: this resize has ended, and nothing is left to do for it.
            if geometry.resizing_1() {
                let family = next(&self.progress.next_1, geometry.families_1());
                is_done &= !matches!(self.ensure_moved_1(geometry, family), Ok(false));
            }
            if geometry.resizing_2() {
                let family = next(&self.progress.next_2, geometry.families_2());
                is_done &= !matches!(self.move_family_2(geometry, family), Ok(false));
            }
            self.tidy_some(geometry);
        }
        is_done
    }

    /// Moves every block that is left. Returns whether no resize is under way then: a shrink ends only if there is
    /// room.
    pub(super) fn finish_moves(&self) -> bool {
        let (mut spins, mut attempts) = (0, 0);
        // Loops if the end of the other level's resize made this one's geometry stale.
        loop {
            let geometry = self.geometry();
            if !geometry.is_resizing() {
                return true;
            }
            let and = |all: bool, moved: bool| Ok(all && moved);
            let mut families_1 = 0..if geometry.resizing_1() { geometry.families_1() } else { 0 };
            let mut families_2 = 0..if geometry.resizing_2() { geometry.families_2() } else { 0 };
            let all_moved = families_1
                .try_fold(true, |all, family| and(all, self.ensure_moved_1(geometry, family)?))
                .and_then(|all| {
                    families_2.try_fold(all, |all, family| {
                        and(all, self.move_family_2(geometry, family)?)
                    })
                });
            while self.tidy_some(geometry) {}
            if self.geometry() != geometry {
                continue;
            }
            match all_moved {
                // The thread that did the last block is about to publish the end.
                Ok(true) => spin(&mut spins),
                Ok(false) if attempts == ATTEMPTS => return false,
                // Another thread may have found room, and not marked its family yet.
                Ok(false) => attempts += 1,
                Err(Stale) => {}
            }
        }
    }

    /// Moves a family of level-1 blocks; the caller has locked neither. Returns whether everything that had to move has
    /// been moved.
    #[inline(never)]
    pub(super) fn ensure_moved_1(&self, geometry: Geometry, family: u64) -> Result<bool, Stale> {
        let flags = self.flags_1(family);
        if flags.load(Ordering::Acquire) & MOVED_1 == geometry.moved_1() {
            return Ok(true);
        }
        let _locked = Locked::wait(flags);
        if self.geometry() != geometry {
            return Err(Stale);
        }
        Ok(self.move_if_unmoved_1(geometry, family).is_none())
    }

    /// Moves the family of a level-1 block if that is still to be done. The block's lock is held under this geometry.
    /// Returns the upper block if a shrink had to leave pairs in it.
    pub(super) fn move_if_unmoved_1(&self, geometry: Geometry, block: u64) -> Option<Left<'_>> {
        let flags = self.flags_1(block);
        if flags.load(Ordering::Relaxed) & MOVED_1 == geometry.moved_1() {
            return None;
        }
        if geometry.shrinking_1() {
            let upper = block + geometry.blocks_1();
            let locked = Locked::wait(self.flags_1(upper));
            if !self.merge_1(block, upper) {
                return Some(Left { block: upper, _locked: locked });
            }
        } else {
            self.move_block_1(geometry, block);
        }
        let others = flags.load(Ordering::Relaxed) & !MOVED_1;
        flags.store(others | geometry.moved_1(), Ordering::Release);
        if self.progress.unmoved_1.fetch_sub(1, Ordering::AcqRel) == 1 {
            if geometry.shrinking_1() {
                self.record_size(ROOT_LEVEL_1, geometry.level_1_log2());
            }
            self.end(Geometry::end_1);
        }
        None
    }

    /// Ends a part of a resize, with the right to write.
    pub(super) fn end(&self, end: impl Fn(Geometry) -> Geometry) {
        self.publish_end(end);
        self.record_rest();
    }

    pub(super) fn publish_end(&self, end: impl Fn(Geometry) -> Geometry) {
        // Both levels may end at once.
        let end = |geometry| Some(end(Geometry(geometry)).0);
        let _ = self.published.geometry.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end);
        self.publish_look_mask(self.geometry());
        self.publish_aim();
    }

    /// Gives the fast path the geometry, if it is at rest. It comes later than the geometry itself: whoever goes by an
    /// aim finds that geometry, or a newer one.
    pub(super) fn publish_aim(&self) {
        loop {
            let geometry = self.geometry();
            fence(Ordering::SeqCst);
            self.blocks_1.set_aim(if geometry.is_resizing() { NO_AIM } else { geometry.0 });
            // A thread that is held up before this store may make a newer aim an old one, which nobody would go by.
            fence(Ordering::SeqCst);
            if self.geometry() == geometry {
                return self.show();
            }
        }
    }

    /// Section 4: writes each pair that now belongs to the destination there, then erases it here.
    fn move_block_1(&self, geometry: Geometry, source: u64) {
        let destination = source + geometry.blocks_1() / 2;
        let _locked = lock_destination(self.flags_1(destination));
        let mut moves = Moves::NONE;
        let mut empties = self.lanes_1;
        for lane in lanes(self.taken_1(source)) {
            let (key, value) = self.medium().load_pair(self.slot_1(source, lane));
            let first = self.hasher.first_u64(key);
            if geometry.home(h0(first)) == destination {
                let to = lane_to_fill(empties, self.preferred_1(first));
                empties &= !(1 << to);
                let fingerprint = self.sought_1(first).fingerprint_in(to);
                moves.push(Move { key, value, from: lane, to, fingerprint });
            }
        }
        let moves = moves.entries();
        self.carry_out(
            moves,
            |lane| self.slot_1(destination, lane),
            |lane| self.slot_1(source, lane),
            |lane, fingerprint| self.set_lane_1(destination, lane, fingerprint),
        );
        moves.iter().for_each(|entry| self.set_lane_1(source, entry.from, EMPTY));
        // Keys that go to the destination may have spilled from here.
        let spilled = self.line_1(source)[SPILLED_WORD].load(Ordering::Relaxed) & SPILLED;
        self.mark_spilled(destination, spilled);
        let flags = self.flags_1(destination);
        let kept = flags.load(Ordering::Relaxed) & !MOVED_1;
        flags.store(kept | geometry.moved_1(), Ordering::Release);
        self.level_3.split(source, destination, |node| {
            let first = self.hasher.first_u64(self.medium().load(node));
            geometry.home(h0(first)) == destination
        });
    }

    /// Copies pairs to empty lanes; after a fence, shows them there and erases them here. If an erasure became durable
    /// before the copy, a crash would lose the pair. If a fingerprint was shown before the copy is durable, a reader
    /// could report what a crash takes back.
    pub(super) fn carry_out(
        &self,
        moves: &[Move],
        destination: impl Fn(usize) -> Offset,
        source: impl Fn(usize) -> Offset,
        show: impl Fn(usize, u8),
    ) {
        if moves.is_empty() {
            return;
        }
        let medium = self.medium();
        for entry in moves {
            self.fill(destination(entry.to), entry.key, entry.value);
        }
        self.flush_lanes(moves.iter().map(|entry| entry.to), &destination);
        medium.fence();
        moves.iter().for_each(|entry| show(entry.to, entry.fingerprint));
        for entry in moves {
            medium.store_release(source(entry.from), 0);
        }
        self.flush_lanes(moves.iter().map(|entry| entry.from), &source);
        medium.fence();
    }

    /// Flushes the lines of these lanes of a block, each line once.
    fn flush_lanes(&self, lanes: impl Iterator<Item = usize>, slot: impl Fn(usize) -> Offset) {
        // A block need not begin where a line does.
        let first = slot(0).line();
        let lines = lanes.fold(0u64, |lines, lane| lines | 1 << (slot(lane).line() - first));
        for line in index::fingerprint::lanes(lines) {
            self.medium().flush(Offset((first + line as u64) * LINE));
        }
    }

    /// Moves a family of level-2 blocks. The caller has locked neither; it may hold the lock of a level-1 block.
    /// Returns whether everything that had to move has been moved.
    #[inline(never)]
    pub(super) fn ensure_moved_2(&self, geometry: Geometry, family: u64) -> Result<bool, Stale> {
        let word = self.word_2(family);
        if word.load(Ordering::Acquire) & MOVED_2 == geometry.moved_2() {
            return Ok(true);
        }
        let _locked = Locked::wait(word);
        if self.geometry() != geometry {
            return Err(Stale);
        }
        if word.load(Ordering::Relaxed) & MOVED_2 == geometry.moved_2() {
            return Ok(true);
        }
        if geometry.shrinking_2() {
            let upper = family + geometry.blocks_2();
            let _locked = Locked::wait(self.word_2(upper));
            if !self.merge_2(geometry, family, upper) {
                return Ok(false);
            }
        } else {
            self.move_block_2(geometry, family);
        }
        mark_moved_2(word, geometry);
        if self.progress.unmoved_2.fetch_sub(1, Ordering::AcqRel) == 1 {
            if geometry.shrinking_2() {
                self.record_size(ROOT_LEVEL_2, geometry.level_2_log2());
            }
            self.end(Geometry::end_2);
        }
        Ok(true)
    }

    /// Like [`Core::move_block_1`]. Takes no level-1 lock: a writer of a key in this block holds this block's lock as
    /// well.
    fn move_block_2(&self, geometry: Geometry, source: u64) {
        let destination = source + geometry.blocks_2() / 2;
        let _locked = lock_destination(self.word_2(destination));
        let mut moves = Moves::NONE;
        for lane in self.used_2(source) {
            let (key, value) = self.medium().load_pair(self.slot_2(source, lane));
            let first = self.hasher.first_u64(key);
            let choices = self.choices(geometry, key, first);
            let choice = choice_from(geometry, &choices, source);
            if choices.blocks[choice] == destination {
                let fingerprint = choices.fingerprints[choice];
                moves.push(Move { key, value, from: lane, to: lane, fingerprint });
            }
        }
        let moves = moves.entries();
        self.carry_out(
            moves,
            |lane| self.slot_2(destination, lane),
            |lane| self.slot_2(source, lane),
            |lane, fingerprint| self.set_lane_2(destination, lane, fingerprint),
        );
        moves.iter().for_each(|entry| self.set_lane_2(source, entry.from, EMPTY));
        mark_moved_2(self.word_2(destination), geometry);
    }
}

/// Locks the block that a move leads to. Nobody uses that before the source is marked as moved. But a thread may have
/// been held up with a geometry of a former table of that size: it takes the lock, finds the geometry changed, and
/// stores the word of the lock as it was when it released it. Sources come before destinations, as in all orders of
/// locks.
fn lock_destination(word: &AtomicU64) -> Locked<'_> {
    Locked::wait(word)
}

/// The choice by which a key came to the level-2 block `source` before the resize. The first one, if both lead there,
/// since an insertion then takes the first.
pub(super) fn choice_from(geometry: Geometry, choices: &Choices, source: u64) -> usize {
    usize::from(geometry.lower_2(choices.blocks[0]) != source)
}

fn mark_moved_2(word: &AtomicU64, geometry: Geometry) {
    let others = word.load(Ordering::Relaxed) & !MOVED_2;
    word.store(others | geometry.moved_2(), Ordering::Release);
}
