//! Insertions, queries and deletions, in the paper's order (sections 3.2 and 5.1).
//!
//! What an operation costs in the pool, level 3 aside: insertion, update and removal write one
//! line, with one flush and one fence; a hit reads one line, and one more in a quarter of the
//! cases for a false fingerprint match; a miss reads only such lines.

use super::Core;
use super::layout::{Geometry, LOCK, SLOT_BYTES, SLOTS_PER_LINE_LOG2, SPILLED, lane_from};
use index::fingerprint::{EMPTY, empty_line, empty_word, lanes, match_line, match_word};
use index::hash::{
    LEVEL1_LINE_SHIFT, h0, h1, h2, level1_fingerprint, level2_fingerprint_1, level2_fingerprint_2,
};
use index::{Change, Error};
use pmem::sync::{AtomicU64, Ordering, fence};
use pmem::{Medium, Offset, SpaceError, WORD};

/// A block's lock, held until dropped.
pub(super) type Locked<'a> = crate::lock::Locked<'a, LOCK>;

/// The geometry changed before anything was written: begin again.
pub(super) struct Stale;

/// What a mutation found, and what it made of it.
type Outcome = (Option<u64>, Change<u64>);

/// Why a mutation under the block's lock did not come to its end.
enum Interrupted {
    Stale,
    Full(SpaceError),
}

impl From<Stale> for Interrupted {
    fn from(Stale: Stale) -> Self {
        Interrupted::Stale
    }
}

/// The two blocks of level 2 in which a key may be, with the fingerprint it has in each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices {
    pub(super) blocks: [u64; 2],
    pub(super) fingerprints: [u8; 2],
}

impl Choices {
    /// The choices that differ: both, or only the first if they are one block.
    pub(super) fn distinct(&self) -> impl Iterator<Item = (u64, u8)> + use<> {
        let Choices { blocks, fingerprints } = *self;
        let count = if blocks[0] == blocks[1] { 1 } else { 2 };
        (0..count).map(move |choice| (blocks[choice], fingerprints[choice]))
    }
}

impl<M: Medium> Core<M> {
    /// The word of a level-1 line that has the block's flags.
    #[inline(always)]
    pub(super) fn flags_1(&self, block: u64) -> &AtomicU64 {
        &self.lines.get(block as usize).0[0]
    }

    #[inline(always)]
    pub(super) fn word_2(&self, block: u64) -> &AtomicU64 {
        self.words.get(block as usize)
    }

    #[inline(always)]
    pub(super) fn slot_1(&self, block: u64, lane: usize) -> Offset {
        self.area_1.at(block).add(lane as u64 * SLOT_BYTES)
    }

    #[inline(always)]
    pub(super) fn slot_2(&self, block: u64, lane: usize) -> Offset {
        self.area_2.at(block).add(lane as u64 * SLOT_BYTES)
    }

    /// Lanes of a level-1 block with this fingerprint.
    #[inline(always)]
    pub(super) fn matches_1(&self, block: u64, fingerprint: u8) -> u64 {
        let found = match_line(self.isa, &self.lines.get(block as usize).0, fingerprint);
        // A fingerprint read above vouches for the slot read below.
        fence(Ordering::Acquire);
        found
    }

    fn empty_1(&self, block: u64) -> u64 {
        empty_line(self.isa, &self.lines.get(block as usize).0) & self.lanes_1
    }

    /// Lanes of a level-1 block that hold a pair.
    pub(super) fn taken_1(&self, block: u64) -> u64 {
        !empty_line(self.isa, &self.lines.get(block as usize).0) & self.lanes_1
    }

    pub(super) fn empty_2(&self, block: u64) -> u8 {
        let lanes = ((1u32 << self.shape.level_2_slots) - 1) as u8;
        empty_word(self.word_2(block).load(Ordering::Acquire)) & lanes
    }

    /// Number of pairs in a level-2 block.
    pub(super) fn taken_2(&self, block: u64) -> u32 {
        self.shape.level_2_slots - self.empty_2(block).count_ones()
    }

    /// Sets the fingerprint of a lane; the block's lock is held.
    #[inline(always)]
    pub(super) fn set_lane_1(&self, block: u64, lane: usize, fingerprint: u8) {
        set_lane_of_line(&self.lines.get(block as usize).0, lane, fingerprint);
    }

    /// Sets the fingerprint of a lane; the block's lock is held.
    pub(super) fn set_lane_2(&self, block: u64, lane: usize, fingerprint: u8) {
        let flag_lanes = index::fingerprint::FLAG_LANES_OF_WORD;
        set_lane(self.word_2(block), lane, lane < flag_lanes, fingerprint);
    }

    pub(super) fn choices(&self, geometry: Geometry, key: u64, first: u64) -> Choices {
        let second = self.hasher.second_u64(key);
        let mask = geometry.blocks_2() - 1;
        Choices {
            blocks: [h1(second) & mask, h2(second) & mask],
            fingerprints: [level2_fingerprint_1(first), level2_fingerprint_2(first)],
        }
    }

    /// The first lane of the line in which a key's slot is in its level-1 block if the line had
    /// room: known without reading anything, so that it can be fetched beside the fingerprints. At
    /// a load factor of 0.85 that holds for five of six pairs that were inserted without removals
    /// in between; replacing pairs again and again makes them fewer.
    #[inline(always)]
    pub(super) fn preferred_1(&self, first: u64) -> usize {
        (first >> (LEVEL1_LINE_SHIFT - SLOTS_PER_LINE_LOG2) & self.line_starts_1) as usize
    }

    /// Where a key is put, of the empty lanes of its level-1 block, of which there are some: the
    /// first from the preferred one on, in a circle.
    #[inline(always)]
    pub(super) fn choose_1(&self, empties: u64, first: u64) -> usize {
        let preferred = self.preferred_1(first);
        lane_from(preferred, empties.rotate_right(preferred as u32))
    }

    // Writing a slot. Each of these is one line, one flush, one fence.

    /// Stores a pair into an empty slot.
    #[inline(always)]
    pub(super) fn fill(&self, slot: Offset, key: u64, value: u64) {
        self.medium().store_pair(slot, key, value);
    }

    #[inline(always)]
    pub(super) fn store_pair(&self, slot: Offset, key: u64, value: u64) {
        self.fill(slot, key, value);
        self.medium().flush(slot);
        self.medium().fence();
    }

    #[inline(always)]
    pub(super) fn store_value(&self, slot: Offset, value: u64) {
        self.medium().store_release(slot.word(1), value);
        self.medium().flush(slot);
        self.medium().fence();
    }

    #[inline(always)]
    pub(super) fn erase(&self, slot: Offset) {
        self.medium().store(slot, 0);
        self.medium().flush(slot);
        self.medium().fence();
    }

    // Insertions, and with them updates and removals: algorithms 1 and 2.

    /// Replaces the state of `key` by what `decide` makes of it, in one step; returns the state
    /// before. `decide` may be called several times.
    #[inline(never)]
    pub(super) fn mutate_anyhow(
        &self,
        key: u64,
        first: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Option<u64>, Error> {
        let (found, action) = loop {
            let geometry = self.geometry();
            let Ok((home, locked)) = self.lock_home(geometry, first) else { continue };
            match self.mutate_locked(geometry, home, key, first, &decide) {
                Ok(done) => break done,
                Err(Interrupted::Stale) => {}
                Err(Interrupted::Full(error)) => {
                    drop(locked);
                    // Room in the blocks of this key comes with a resize, if that can be had.
                    if !self.grow_for_overflow() {
                        return Err(error);
                    }
                }
            }
        };
        self.count_change(found, action);
        Ok(found)
    }

    /// Counts what a mutation did to the number of pairs.
    #[inline(always)]
    pub(super) fn count_change(&self, found: Option<u64>, action: Change<u64>) {
        match (found, action) {
            (None, Change::Put(_)) => self.count_changes(1, 0),
            (Some(_), Change::Remove) => self.count_changes(0, 1),
            _ => {}
        }
    }

    /// Locks the level-1 block of a key. During a resize the block that it is filled from has
    /// then been moved.
    #[inline(always)]
    pub(super) fn lock_home(
        &self,
        geometry: Geometry,
        first: u64,
    ) -> Result<(u64, Locked<'_>), Stale> {
        let home = geometry.home(h0(first));
        if geometry.resizing_1() && geometry.source_1(home) != home {
            self.ensure_moved_1(geometry, geometry.source_1(home))?;
        }
        let locked = Locked::wait(self.flags_1(home));
        // Whoever published a newer geometry before this lock was taken may have moved the block;
        // whoever publishes one later has to wait for the lock before it moves.
        if self.geometry() != geometry {
            return Err(Stale);
        }
        if geometry.resizing_1() {
            self.move_if_unmoved_1(geometry, home);
        }
        Ok((home, locked))
    }

    #[inline(always)]
    fn mutate_locked(
        &self,
        geometry: Geometry,
        home: u64,
        key: u64,
        first: u64,
        decide: &impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Outcome, Interrupted> {
        if let Some((lane, value)) = self.find_1(home, key, first) {
            let action = decide(Some(value));
            let slot = self.slot_1(home, lane);
            match action {
                Change::Keep => {}
                Change::Put(new) => self.store_value(slot, new),
                Change::Remove => {
                    self.erase(slot);
                    self.set_lane_1(home, lane, EMPTY);
                }
            }
            return Ok((Some(value), action));
        }
        let spilled = self.flags_1(home).load(Ordering::Relaxed) & SPILLED != 0;
        if spilled && let Some(done) = self.mutate_spilled(geometry, home, key, first, decide)? {
            return Ok(done);
        }
        let action = decide(None);
        if let Change::Put(value) = action
            && !self.insert_level_1(home, key, value, first)
        {
            self.insert_level_2(geometry, home, key, value, first)?;
        }
        Ok((None, action))
    }

    /// The lane and value of a key in its level-1 block; the block's lock is held.
    #[inline(always)]
    pub(super) fn find_1(&self, home: u64, key: u64, first: u64) -> Option<(usize, u64)> {
        if key == 0 {
            return None;
        }
        lanes(self.matches_1(home, level1_fingerprint(first)))
            .find_map(|lane| self.value_at(self.slot_1(home, lane), key).map(|value| (lane, value)))
    }

    /// The value in a slot, if it holds `key`, read by someone who keeps it from changing.
    #[inline(always)]
    fn value_at(&self, slot: Offset, key: u64) -> Option<u64> {
        let (found, value) = self.medium().load_pair(slot);
        (found == key).then_some(value)
    }

    /// Acts on a key that is in level 2 or 3; `None` if it is in neither.
    fn mutate_spilled(
        &self,
        geometry: Geometry,
        home: u64,
        key: u64,
        first: u64,
        decide: &impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Option<Outcome>, Interrupted> {
        if key != 0 && self.may_be_in_level_2(geometry, key, first)? {
            let choices = self.choices(geometry, key, first);
            let _locks = self.lock_choices(geometry, &choices)?;
            for (block, fingerprint) in choices.distinct() {
                let Some((lane, value)) = self.find_2(block, fingerprint, key) else { continue };
                let action = decide(Some(value));
                let slot = self.slot_2(block, lane);
                match action {
                    Change::Keep => {}
                    Change::Put(new) => self.store_value(slot, new),
                    Change::Remove => {
                        self.erase(slot);
                        self.set_lane_2(block, lane, EMPTY);
                    }
                }
                return Ok(Some((Some(value), action)));
            }
        }
        let Some((cell, value)) = self.level_3.find_locked(self.medium(), home, key) else {
            return Ok(None);
        };
        let action = decide(Some(value));
        match action {
            Change::Keep => {}
            Change::Put(new) => self.level_3.update(self.medium(), cell, new),
            Change::Remove => self.level_3.remove(self.medium(), home, cell),
        }
        Ok(Some((Some(value), action)))
    }

    /// Looks without locks whether a key, whose level-1 lock is held, is in level 2. Nobody else
    /// can bring it there; if the geometry is still the same afterwards, nobody has moved it away
    /// from where it was looked for.
    pub(super) fn may_be_in_level_2(
        &self,
        geometry: Geometry,
        key: u64,
        first: u64,
    ) -> Result<bool, Stale> {
        let choices = self.choices(geometry, key, first);
        if geometry.resizing_2() {
            for (block, _) in choices.distinct() {
                self.ensure_moved_2(geometry, geometry.source_2(block))?;
            }
        }
        let found = choices
            .distinct()
            .any(|(block, fingerprint)| self.find_2(block, fingerprint, key).is_some());
        fence(Ordering::Acquire);
        match found || self.geometry() == geometry {
            true => Ok(found),
            false => Err(Stale),
        }
    }

    #[inline(always)]
    pub(super) fn find_2(&self, block: u64, fingerprint: u8, key: u64) -> Option<(usize, u64)> {
        let word = self.word_2(block).load(Ordering::Acquire);
        lanes(match_word(word, fingerprint).into()).find_map(|lane| {
            self.value_at(self.slot_2(block, lane), key).map(|value| (lane, value))
        })
    }

    /// Locks a key's level-2 blocks, in the order of their indices.
    fn lock_choices(
        &self,
        geometry: Geometry,
        choices: &Choices,
    ) -> Result<(Locked<'_>, Option<Locked<'_>>), Stale> {
        let [a, b] = choices.blocks;
        if geometry.resizing_2() {
            self.ensure_moved_2(geometry, geometry.source_2(a))?;
            self.ensure_moved_2(geometry, geometry.source_2(b))?;
        }
        let lower = Locked::wait(self.word_2(a.min(b)));
        let upper = (a != b).then(|| Locked::wait(self.word_2(a.max(b))));
        match self.geometry() == geometry {
            true => Ok((lower, upper)),
            false => Err(Stale),
        }
    }

    /// Algorithm 1 from line 8 on: into an empty slot of the level-1 block, if it has one.
    #[inline(always)]
    fn insert_level_1(&self, home: u64, key: u64, value: u64, first: u64) -> bool {
        if key == 0 {
            return false;
        }
        let empty = self.empty_1(home);
        if empty == 0 {
            return false;
        }
        let lane = self.choose_1(empty, first);
        self.store_pair(self.slot_1(home, lane), key, value);
        // After the fence: a reader trusts what it finds under a fingerprint to be durable.
        self.set_lane_1(home, lane, level1_fingerprint(first));
        true
    }

    /// Algorithm 2: into the emptier of the two level-2 blocks, or else into level 3.
    fn insert_level_2(
        &self,
        geometry: Geometry,
        home: u64,
        key: u64,
        value: u64,
        first: u64,
    ) -> Result<(), Interrupted> {
        let flags = self.flags_1(home);
        if key != 0 {
            let choices = self.choices(geometry, key, first);
            let _locks = self.lock_choices(geometry, &choices)?;
            let [a, b] = choices.blocks.map(|block| self.empty_2(block));
            let choice = usize::from(b.count_ones() > a.count_ones());
            let empty = [a, b][choice];
            if empty != 0 {
                let (block, lane) = (choices.blocks[choice], empty.trailing_zeros() as usize);
                // Before the fingerprint shows the key: a search goes on to level 2 only if set.
                flags.store(flags.load(Ordering::Relaxed) | SPILLED, Ordering::Release);
                self.store_pair(self.slot_2(block, lane), key, value);
                self.set_lane_2(block, lane, choices.fingerprints[choice]);
                return Ok(());
            }
        }
        flags.store(flags.load(Ordering::Relaxed) | SPILLED, Ordering::Release);
        self.level_3.insert(&self.pool, home, key, value).map_err(Interrupted::Full)
    }

    // Queries.

    /// The value of `key`. Takes no lock, and is redone only if a resize began or ended meanwhile
    /// or level-3 neighbours changed.
    pub(super) fn get_anyhow(&self, key: u64, first: u64) -> Option<u64> {
        loop {
            let geometry = self.geometry();
            let found = self.search(geometry, key, first);
            fence(Ordering::Acquire);
            // On a hit too: where the lock of the key's block is depends on the geometry.
            if self.geometry() == geometry {
                return found;
            }
        }
    }

    #[inline(always)]
    pub(super) fn search(&self, geometry: Geometry, key: u64, first: u64) -> Option<u64> {
        let home = geometry.home(h0(first));
        // Outside of a resize the block is its own source.
        let source = match geometry.resizing_1() {
            true => geometry.source_1(home),
            false => home,
        };
        if key != 0 {
            let fingerprint = level1_fingerprint(first);
            if source != home
                && let Some(value) = self.search_1(source, fingerprint, key, [source, home])
            {
                return Some(value);
            }
            if let Some(value) = self.search_1(home, fingerprint, key, [source, home]) {
                return Some(value);
            }
        }
        let flags = self.flags_1(home).load(Ordering::Acquire)
            | self.flags_1(source).load(Ordering::Acquire);
        if flags & SPILLED == 0 {
            return None;
        }
        self.search_spilled(geometry, key, first, [source, home])
    }

    #[inline(always)]
    fn search_1(&self, block: u64, fingerprint: u8, key: u64, homes: [u64; 2]) -> Option<u64> {
        lanes(self.matches_1(block, fingerprint))
            .find_map(|lane| self.read(self.slot_1(block, lane), key, homes))
    }

    /// The value in a slot under a matching fingerprint, if it holds `key`; durable.
    #[inline(always)]
    pub(super) fn read(&self, slot: Offset, key: u64, homes: [u64; 2]) -> Option<u64> {
        let (found, value) = self.medium().load_pair(slot);
        if found == key {
            self.help(slot, homes);
            return Some(value);
        }
        if found == 0 {
            // A removal that has not passed its fence, perhaps of this very key: an absence that
            // was reported must not end with a crash.
            self.medium().persist(slot);
        }
        None
    }

    /// Makes a pair just read durable if its writer may not have got to that yet: the writer
    /// holds the lock of the key's block from before its store until after its fence. During a
    /// resize that is the lock of the source or of the destination.
    #[inline(always)]
    fn help(&self, at: Offset, homes: [u64; 2]) {
        if homes.iter().any(|&home| self.flags_1(home).load(Ordering::Acquire) & LOCK != 0) {
            self.medium().persist(at);
        }
    }

    pub(super) fn search_spilled(
        &self,
        geometry: Geometry,
        key: u64,
        first: u64,
        homes: [u64; 2],
    ) -> Option<u64> {
        if key != 0 {
            let choices = self.choices(geometry, key, first);
            // Moves go from a source to a destination: all sources come first.
            let sources = geometry.resizing_2().then(|| Choices {
                blocks: choices.blocks.map(|block| geometry.source_2(block)),
                ..choices
            });
            for choices in sources.iter().chain([&choices]) {
                for (block, fingerprint) in choices.blocks.into_iter().zip(choices.fingerprints) {
                    let word = self.word_2(block).load(Ordering::Acquire);
                    let found = lanes(match_word(word, fingerprint).into())
                        .find_map(|lane| self.read(self.slot_2(block, lane), key, homes));
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        let [source, home] = homes;
        let found = match source != home {
            true => self.level_3.find(self.medium(), source, key),
            false => None,
        };
        let (at, value) = found.or_else(|| self.level_3.find(self.medium(), home, key))?;
        self.help(at, homes);
        Some(value)
    }
}

/// Sets the fingerprint of a lane of a level-1 line; the block's lock is held.
#[inline(always)]
pub(super) fn set_lane_of_line(line: &[AtomicU64; 8], lane: usize, fingerprint: u8) {
    let has_flag = lane < index::fingerprint::FLAG_LANES_OF_LINE;
    set_lane(&line[(lane / 8) % 8], lane % 8, has_flag, fingerprint);
}

/// Sets the byte of a lane, but for its flag.
#[inline(always)]
fn set_lane(word: &AtomicU64, lane: usize, has_flag: bool, fingerprint: u8) {
    let bits = if has_flag { 0x7f } else { 0xff };
    let shift = lane as u64 * WORD;
    let others = word.load(Ordering::Relaxed) & !(bits << shift);
    word.store(others | (u64::from(fingerprint) & bits) << shift, Ordering::Release);
}
