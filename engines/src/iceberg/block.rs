//! One block: its slots, its fingerprints and its lock, and what a mutation does to one slot.
//!
//! Every mutation of a slot has the same steps: store and flush, fence, show the fingerprint. The
//! stores are written here once. Single operations fence at once, a batch fences once for many.

use super::hash::spilled_lane;
use super::layout::{FLAG_LANES_OF_WORD, FLAGS_WORD, Geometry, LOCK, SPILLED_WORD, VALUE_WORD};
use super::{Core, INSERTIONS, REMOVALS};
use index::Change;
use index::fingerprint::{
    EMPTY, Near, empty_line, empty_word, has_flag, match_line, match_word, set_lane,
    set_lane_of_word,
};
use pmem::line_log::Sequence;
use pmem::prefetch::{prefetch, prefetch_write};
use pmem::slots::Slots;
use pmem::sync::{AtomicU64, Ordering, fence};
use pmem::{Medium, Offset};
use std::sync::atomic::compiler_fence;

/// A block's lock, held until dropped.
pub(super) type Locked<'a> = crate::kit::lock::Locked<'a, LOCK>;

/// The two blocks of level 2 in which a key may be, with the fingerprint it has in each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices {
    pub(super) blocks: [u64; 2],
    pub(super) fingerprints: [u8; 2],
}

impl Choices {
    /// Both, with the fingerprint in each.
    pub(super) fn both(self) -> impl Iterator<Item = (u64, u8)> {
        self.blocks.into_iter().zip(self.fingerprints)
    }

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

impl Done {
    /// The word of a thread's counts that this adds one to.
    #[inline(always)]
    pub(super) fn counted_in(&self) -> Option<usize> {
        match (self.found, self.change) {
            (None, Change::Put(_)) => Some(INSERTIONS),
            (Some(_), Change::Remove) => Some(REMOVALS),
            _ => None,
        }
    }
}

/// A mutation in level 1 up to its stores. Still due: the flush of what was stored, a fence, then the lane's new
/// fingerprint.
#[derive(Clone, Copy)]
pub(super) struct Unfenced {
    pub(super) done: Done,
    /// The lane of the slot, if anything was stored.
    pub(super) stored: Option<usize>,
    pub(super) show: Show,
}

/// The change of a fingerprint in a block whose lock is held. It comes after the fence: a reader trusts what it finds
/// under a fingerprint to be durable.
#[derive(Clone, Copy)]
pub(super) enum Show {
    Nothing,
    InLane { lane: u8, fingerprint: u8 },
}

impl Show {
    #[inline(always)]
    pub(super) fn on(self, line: &[AtomicU64; 8]) {
        if let Show::InLane { lane, fingerprint } = self {
            set_lane(line, lane.into(), fingerprint);
        }
    }

    #[inline(always)]
    fn in_lane(lane: usize, fingerprint: u8) -> Show {
        Show::InLane { lane: lane as u8, fingerprint }
    }
}

/// Where an operation looks for a key in level 1.
pub(super) struct Probe<'a, M> {
    /// First output of the key's hash.
    pub(super) first: u64,
    /// The key's level-1 block.
    pub(super) home: u32,
    /// [`Places::near_1`](super::places::Places::near_1).
    pub(super) near: Near,
    /// Fingerprints and flags of the block.
    pub(super) line: &'a [AtomicU64; 8],
    pub(super) slots: Slots<'a, M>,
}

impl<M> Clone for Probe<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Probe<'_, M> {}

impl<M> Probe<'_, M> {
    #[inline(always)]
    pub(super) fn flags(&self) -> &AtomicU64 {
        &self.line[FLAGS_WORD]
    }

    #[inline(always)]
    pub(super) fn home(&self) -> u64 {
        self.home.into()
    }

    /// The first lane of the line that the key prefers.
    #[inline(always)]
    pub(super) fn preferred(&self) -> usize {
        self.near.lane()
    }

    /// Hints that the line is about to be read.
    #[inline(always)]
    pub(super) fn prefetch_line(&self) {
        prefetch(self.line);
    }

    /// Hints that the line is about to be written.
    #[inline(always)]
    pub(super) fn prefetch_line_to_write(&self) {
        prefetch_write(self.line);
    }

    /// Whether the key may be in level 2 or 3. Ask after reading the fingerprints: a writer that brings a key there
    /// sets the flag before the key can be found.
    #[inline(always)]
    pub(super) fn may_have_spilled(&self) -> bool {
        has_flag(self.line, spilled_lane(self.first))
    }
}

impl<M: Medium> Core<M> {
    /// Sets bits of SPILLED; the block's lock is held.
    pub(super) fn mark_spilled(&self, block: u64, bits: u64) {
        let word = &self.line_1(block)[SPILLED_WORD];
        word.store(word.load(Ordering::Relaxed) | bits, Ordering::Release);
    }

    /// Lanes of a level-1 block that may hold a key with this hash.
    #[inline(always)]
    pub(super) fn matches_1(&self, block: u64, first: u64) -> u64 {
        let found = match_line(self.isa, self.line_1(block), self.sought_1(first));
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

    /// The lanes of a level-2 block that hold a pair.
    pub(super) fn used_2(&self, block: u64) -> impl Iterator<Item = usize> + use<M> {
        let empty = self.empty_2(block);
        (0..self.shape.level_2_slots as usize).filter(move |lane| empty & 1 << lane == 0)
    }

    /// Number of pairs in a level-2 block.
    pub(super) fn taken_2(&self, block: u64) -> u32 {
        self.shape.level_2_slots - self.empty_2(block).count_ones()
    }

    /// Sets the fingerprint of a lane; the block's lock is held.
    #[inline(always)]
    pub(super) fn set_lane_1(&self, block: u64, lane: usize, fingerprint: u8) {
        set_lane(self.line_1(block), lane, fingerprint);
    }

    /// Sets the fingerprint of a lane; the block's lock is held.
    pub(super) fn set_lane_2(&self, block: u64, lane: usize, fingerprint: u8) {
        set_lane_of_word(self.word_2(block), lane, lane < FLAG_LANES_OF_WORD, fingerprint);
    }

    pub(super) fn choices(&self, geometry: Geometry, key: u64, first: u64) -> Choices {
        self.choices_among(geometry.blocks_2(), key, first)
    }

    /// The level-2 blocks in which a writer looks for a key, in the order of searches. In a doubling their sources have
    /// been moved and hold no key; in a shrink the sources may, for want of room. If both choices are one block, a pair
    /// may have the fingerprint of either: its second choice led it there when the table was larger.
    pub(super) fn places_2(
        &self,
        geometry: Geometry,
        key: u64,
        first: u64,
    ) -> impl Iterator<Item = (u64, u8)> + use<M> {
        let sources = geometry
            .shrinking_2()
            .then(|| self.choices_among(geometry.source_blocks_2(), key, first));
        sources.into_iter().chain([self.choices(geometry, key, first)]).flat_map(Choices::both)
    }

    /// Stores a pair into an empty slot.
    #[inline(always)]
    pub(super) fn fill(&self, slot: Offset, key: u64, value: u64) {
        self.medium().store_pair(slot, key, value);
    }

    /// Changes the pair in a slot; returns whether there is anything to flush.
    #[inline(always)]
    fn change(&self, slot: Offset, change: Change<u64>) -> bool {
        match change {
            Change::Keep => return false,
            Change::Put(value) => self.medium().store_release(slot.word(VALUE_WORD), value),
            Change::Remove => self.medium().store(slot, 0),
        }
        true
    }

    /// Flushes a slot of a locked block. The fence is still due.
    #[track_caller]
    #[inline(always)]
    pub(super) fn flush_slot(&self, slot: Offset, sequence: Sequence) {
        self.medium().flush_pair(slot, sequence);
    }

    /// Flushes a slot of a locked block, and fences.
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

    /// Changes the pair of a key if it is among the candidates; its block is locked. `None`: the key is not in level 1.
    #[inline(always)]
    pub(super) fn change_candidate(
        &self,
        probe: &Probe<'_, M>,
        mut candidates: u64,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Unfenced> {
        while candidates != 0 {
            let lane = candidates.trailing_zeros() as usize;
            let (found, value) = probe.slots.load_pair(self.medium(), lane);
            if found == key {
                let change = decide(Some(value));
                match change {
                    Change::Keep => {}
                    Change::Put(value) => probe.slots.store_high(self.medium(), lane, value),
                    Change::Remove => probe.slots.store_low(self.medium(), lane, 0),
                }
                return Some(Unfenced {
                    done: Done { found: Some(value), change },
                    stored: (change != Change::Keep).then_some(lane),
                    show: match change {
                        Change::Remove => Show::in_lane(lane, EMPTY),
                        _ => Show::Nothing,
                    },
                });
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Inserts a key that is in no level; its level-1 block is locked. Returns `None`, and does nothing, if the block
    /// is full.
    #[inline(always)]
    pub(super) fn insert_unfenced(
        &self,
        probe: &Probe<'_, M>,
        key: u64,
        empties: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Option<Unfenced> {
        let change = decide(None);
        let done = Done { found: None, change };
        let Change::Put(value) = change else {
            return Some(Unfenced { done, stored: None, show: Show::Nothing });
        };
        let empties = empties & self.lanes_1;
        if empties == 0 {
            return None;
        }
        let lane = lane_to_fill(empties, probe.preferred());
        probe.slots.store_pair(self.medium(), lane, key, value);
        let show = Show::in_lane(lane, self.sought(probe).fingerprint_in(lane));
        Some(Unfenced { done, stored: Some(lane), show })
    }
}

/// Stands for a flush and a fence on a medium that does not [flush](Medium::flushes): calling the medium would take
/// longer than doing this.
#[inline(always)]
pub(super) fn order_stores() {
    compiler_fence(Ordering::SeqCst);
}

/// The lane in which a key is put: of the empty lanes of its level-1 block, the first from the preferred one on, in a
/// circle. There must be an empty lane.
#[inline(always)]
pub(super) fn lane_to_fill(empties: u64, preferred: usize) -> usize {
    (preferred + empties.rotate_right(preferred as u32).trailing_zeros() as usize) & 63
}

/// Lanes of a level-2 word with this fingerprint.
#[inline(always)]
pub(super) fn matches_2(word: u64, fingerprint: u8) -> u64 {
    match_word::<FLAG_LANES_OF_WORD>(word, fingerprint).into()
}

impl<M: Medium> Probe<'_, M> {
    /// Hints that the line that the key prefers is about to be read.
    #[inline(always)]
    pub(super) fn prefetch_preferred(&self, medium: &M) {
        self.slots.prefetch_byte(medium, self.near.slot_byte());
    }

    /// Hints that the line that the key prefers is about to be written.
    #[inline(always)]
    pub(super) fn prefetch_preferred_to_write(&self, medium: &M) {
        self.slots.prefetch_byte_to_write(medium, self.near.slot_byte());
    }

    /// Prefetches the first candidate's slot, or the line, which is at hand, if there is no candidate.
    #[inline(always)]
    pub(super) fn prefetch_candidate(&self, medium: &M, candidates: u64) {
        let lane = candidates.trailing_zeros() as usize;
        self.slots.prefetch_or(medium, lane, candidates != 0, self.line);
    }
}
