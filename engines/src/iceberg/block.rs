//! One block: its slots, its fingerprints and its lock, and what a mutation does to one slot.
//!
//! Every mutation of a slot has the same steps: store and flush, fence, show the fingerprint. The
//! stores are written here once. Single operations fence at once, a batch fences once for many.

use super::Core;
use super::hash::{
    LEVEL1_LINE_SHIFT, level1_fingerprint, level2_fingerprint_1, level2_fingerprint_2,
};
use super::layout::{
    FLAG_LANES_OF_WORD, FLAGS_WORD, Geometry, LOCK, SLOTS_PER_LINE_LOG2, VALUE_WORD, lane_from,
    slot_of,
};
use index::Change;
use index::fingerprint::{
    EMPTY, FLAG, FLAG_LANES_OF_LINE, empty_line, empty_word, match_line, match_word,
};
use index::hash::{h1, h2};
use pmem::line_log::Sequence;
use pmem::sync::{AtomicU64, Ordering, fence};
use pmem::{Medium, Offset, WORD};

/// A block's lock, held until dropped.
pub(super) type Locked<'a> = crate::lock::Locked<'a, LOCK>;

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

/// What a mutation found, and what it made of that.
#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) found: Option<u64>,
    pub(super) change: Change<u64>,
}

/// A mutation in level 1 up to its stores. What was stored is to be flushed; then a fence is due, and after it the
/// new fingerprint of a lane.
#[derive(Clone, Copy)]
pub(super) struct Unfenced {
    pub(super) done: Done,
    /// The slot, if anything was stored.
    pub(super) stored: Option<Offset>,
    show: Option<(usize, u8)>,
}

impl Unfenced {
    /// After the fence: a reader trusts what it finds under a fingerprint to be durable.
    #[inline(always)]
    pub(super) fn show(&self, line: &[AtomicU64; 8]) {
        if let Some((lane, fingerprint)) = self.show {
            set_lane_of_line(line, lane, fingerprint);
        }
    }
}

/// Where an operation looks for a key in level 1. Half a line, so that a batch has little to clear.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    /// First output of the key's hash.
    pub(super) first: u64,
    /// The key's level-1 block, and where that begins.
    home: u32,
    pub(super) block: Offset,
    /// [`Core::preferred_1`].
    preferred: u32,
    /// Lanes of the block with the key's fingerprint, counted from the preferred one on: the first
    /// is then nearly always the right one.
    pub(super) candidates: u64,
}

impl Probe {
    pub(super) const NONE: Probe =
        Probe { first: 0, home: 0, block: Offset(0), preferred: 0, candidates: 0 };

    #[inline(always)]
    pub(super) fn home(&self) -> u64 {
        self.home.into()
    }

    #[inline(always)]
    pub(super) fn preferred(&self) -> usize {
        self.preferred as usize
    }
}

impl<M: Medium> Core<M> {
    /// Points a probe at the block of a key with this hash, whose fingerprints are not read yet.
    #[inline(always)]
    pub(super) fn aim(&self, probe: &mut Probe, geometry: Geometry, first: u64) {
        probe.first = first;
        let home = geometry.home(first);
        probe.home = home as u32;
        probe.block = self.area_1.at(home);
        probe.preferred = self.preferred_1(first) as u32;
    }

    /// Fingerprints and flags of a level-1 block.
    #[inline(always)]
    pub(super) fn line_1(&self, block: u64) -> &[AtomicU64; 8] {
        &self.lines.get(block as usize).0
    }

    /// The word of a level-1 line that has the block's flags.
    #[inline(always)]
    pub(super) fn flags_1(&self, block: u64) -> &AtomicU64 {
        &self.line_1(block)[FLAGS_WORD]
    }

    /// Fingerprints and flags of a level-2 block.
    #[inline(always)]
    pub(super) fn word_2(&self, block: u64) -> &AtomicU64 {
        self.words.get(block as usize)
    }

    #[inline(always)]
    pub(super) fn slot_1(&self, block: u64, lane: usize) -> Offset {
        slot_of(self.area_1.at(block), lane)
    }

    #[inline(always)]
    pub(super) fn slot_2(&self, block: u64, lane: usize) -> Offset {
        slot_of(self.area_2.at(block), lane)
    }

    /// Lanes of a level-1 block with this fingerprint.
    #[inline(always)]
    pub(super) fn matches_1(&self, block: u64, fingerprint: u8) -> u64 {
        let found = match_line(self.isa, self.line_1(block), fingerprint);
        // A fingerprint read above vouches for the slot read below.
        fence(Ordering::Acquire);
        found
    }

    pub(super) fn empty_1(&self, block: u64) -> u64 {
        empty_line(self.isa, self.line_1(block)) & self.lanes_1
    }

    /// Lanes of a level-1 block that hold a pair.
    pub(super) fn taken_1(&self, block: u64) -> u64 {
        !empty_line(self.isa, self.line_1(block)) & self.lanes_1
    }

    pub(super) fn empty_2(&self, block: u64) -> u8 {
        let lanes = ((1u32 << self.shape.level_2_slots) - 1) as u8;
        empty_word::<FLAG_LANES_OF_WORD>(self.word_2(block).load(Ordering::Acquire)) & lanes
    }

    /// Number of pairs in a level-2 block.
    pub(super) fn taken_2(&self, block: u64) -> u32 {
        self.shape.level_2_slots - self.empty_2(block).count_ones()
    }

    /// Sets the fingerprint of a lane; the block's lock is held.
    #[inline(always)]
    pub(super) fn set_lane_1(&self, block: u64, lane: usize, fingerprint: u8) {
        set_lane_of_line(self.line_1(block), lane, fingerprint);
    }

    /// Sets the fingerprint of a lane; the block's lock is held.
    pub(super) fn set_lane_2(&self, block: u64, lane: usize, fingerprint: u8) {
        set_lane(self.word_2(block), lane, lane < FLAG_LANES_OF_WORD, fingerprint);
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

    /// Stores a pair into an empty slot.
    #[inline(always)]
    pub(super) fn fill(&self, slot: Offset, key: u64, value: u64) {
        self.medium().store_pair(slot, key, value);
    }

    /// Changes the pair in a slot; whether there is anything to flush.
    #[inline(always)]
    fn change(&self, slot: Offset, change: Change<u64>) -> bool {
        match change {
            Change::Keep => return false,
            Change::Put(value) => self.medium().store_release(slot.word(VALUE_WORD), value),
            Change::Remove => self.medium().store(slot, 0),
        }
        true
    }

    /// Flushes a slot of a locked block of level 1, but for the fence.
    #[track_caller]
    #[inline(always)]
    pub(super) fn flush_slot(&self, slot: Offset, sequence: Sequence) {
        self.medium().flush_pair(slot, sequence);
    }

    /// The same with the fence.
    #[track_caller]
    #[inline(always)]
    pub(super) fn persist_slot(&self, slot: Offset, sequence: Sequence) {
        self.medium().persist_pair(slot, sequence);
    }

    /// Fills an empty slot; then `show` sets its fingerprint.
    #[inline(always)]
    pub(super) fn fill_slot(&self, slot: Offset, key: u64, value: u64, show: impl FnOnce()) {
        self.fill(slot, key, value);
        self.persist_slot(slot, Sequence::NONE);
        // After the fence: a reader trusts what it finds under a fingerprint to be durable.
        show();
    }

    /// Changes the pair in a slot; `hide` clears the fingerprint of one that was removed.
    #[inline(always)]
    pub(super) fn change_slot(&self, slot: Offset, change: Change<u64>, hide: impl FnOnce()) {
        if self.change(slot, change) {
            self.persist_slot(slot, Sequence::NONE);
        }
        if change == Change::Remove {
            hide();
        }
    }

    /// Changes the pair of a key that is among the candidates, its block being locked. `None`: it is not in level 1.
    #[inline(always)]
    pub(super) fn change_candidate(
        &self,
        probe: &Probe,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Unfenced> {
        let mut candidates = probe.candidates;
        while candidates != 0 {
            let lane = lane_from(probe.preferred(), candidates);
            let slot = slot_of(probe.block, lane);
            let (found, value) = self.medium().load_pair(slot);
            if found == key {
                let change = decide(Some(value));
                return Some(Unfenced {
                    done: Done { found: Some(value), change },
                    stored: self.change(slot, change).then_some(slot),
                    show: if change == Change::Remove { Some((lane, EMPTY)) } else { None },
                });
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Inserts a key that is in no level, its level-1 block being locked. `None`, and nothing done: level 1 has no room
    /// for it.
    #[inline(always)]
    pub(super) fn insert_unfenced(
        &self,
        probe: &Probe,
        key: u64,
        empties: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Unfenced> {
        let change = decide(None);
        let done = Done { found: None, change };
        let Change::Put(value) = change else {
            return Some(Unfenced { done, stored: None, show: None });
        };
        let empties = empties & self.lanes_1;
        if empties == 0 {
            return None;
        }
        let lane = lane_to_fill(empties, probe.preferred());
        let slot = slot_of(probe.block, lane);
        self.fill(slot, key, value);
        let show = Some((lane, level1_fingerprint(probe.first)));
        Some(Unfenced { done, stored: Some(slot), show })
    }
}

/// Where a key is put, of the empty lanes of its level-1 block, of which there are some: the
/// first from the preferred one on, in a circle.
#[inline(always)]
pub(super) fn lane_to_fill(empties: u64, preferred: usize) -> usize {
    lane_from(preferred, empties.rotate_right(preferred as u32))
}

/// Lanes of a level-2 word with this fingerprint.
#[inline(always)]
pub(super) fn matches_2(word: u64, fingerprint: u8) -> u64 {
    match_word::<FLAG_LANES_OF_WORD>(word, fingerprint).into()
}

/// Sets the fingerprint of a lane of a level-1 line; the block's lock is held.
#[inline(always)]
fn set_lane_of_line(line: &[AtomicU64; 8], lane: usize, fingerprint: u8) {
    let has_flag = lane < FLAG_LANES_OF_LINE;
    set_lane(&line[(lane / 8) % 8], lane % 8, has_flag, fingerprint);
}

/// Sets the byte of a lane, but for its flag.
#[inline(always)]
fn set_lane(word: &AtomicU64, lane: usize, has_flag: bool, fingerprint: u8) {
    let bits = u64::from(if has_flag { !FLAG } else { u8::MAX });
    let shift = lane as u64 * WORD;
    let others = word.load(Ordering::Relaxed) & !(bits << shift);
    word.store(others | (u64::from(fingerprint) & bits) << shift, Ordering::Release);
}
