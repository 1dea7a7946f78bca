//! Recovery (section 6): rebuilds the sidecar from the slots, and finishes what a crash left of a resize.
//!
//! Recovery visits blocks in the families of a resize: a block of the lower half, and the block to which its content
//! would be moved. A pair in the lower block that belongs to the upper one is moved. If it is there already, it is
//! erased: the crash came between copy and erasure, and both are equal. So a doubling is finished, and a shrink taken
//! back. A pair of level 2 that is in level 1 as well was on its way there, and is erased in level 2. Each family
//! belongs to one thread. If recovery is cut short, it leaves what a crash in a resize leaves, and runs again.

use super::Core;
use super::hash::{h0, spilled_bit};
use super::layout::{FLAGS_WORD, Geometry, LOCK, MOVED_1, MOVED_2, SPILLED, SPILLED_WORD, slot_of};
use super::level_3::Level3;
use super::resize::choice_from;
use crate::kit::parallel::in_parallel;
use pmem::sync::Ordering;
use pmem::{Medium, Offset, OpenError};
use std::ops::Range;

/// Families of blocks that are worth another thread.
const FAMILIES_PER_THREAD: u64 = 256;

/// Level-2 blocks between the one whose lines are prefetched and the one recovered.
const BLOCKS_AHEAD: u64 = 4;

/// What to do with the pair in a slot.
enum Verdict {
    /// It is in its place; this is its fingerprint.
    Stays(u8),
    /// It is in one of its places, and the other is in the same family: there may be a copy.
    StaysUnlessCopied(u8),
    /// It belongs to the upper block.
    Moves,
    /// It is in level 1 as well.
    Copied,
    /// It belongs to neither.
    Astray,
}

impl Verdict {
    /// The fingerprint of a pair that must be in its place. Slot and block are for the error.
    fn print_of(self, slot: Offset, block: u64) -> Result<u8, OpenError> {
        match self {
            Verdict::Stays(print) | Verdict::StaysUnlessCopied(print) => Ok(print),
            Verdict::Moves | Verdict::Copied | Verdict::Astray => {
                Err(OpenError::Corrupt { found: astray(slot, block) })
            }
        }
    }
}

/// One level, as recovery sees it.
struct LevelView<S> {
    blocks: u64,
    /// Number of lower blocks. The upper blocks, if any, are this many blocks further on.
    families: u64,
    slots: usize,
    slot: S,
}

impl<M: Medium> Core<M> {
    /// Makes the sidecar, or lets it be [built](super::building) later: of a large table at rest, in which no pair can
    /// be in two places.
    pub(super) fn recover(&self) -> Result<(), OpenError> {
        let slots = self.capacity(self.geometry());
        if !self.pool.superblock().is_at_rest() || self.settings.builds_at_once(slots) {
            self.pool.read_index_ahead();
            self.recover_whole()?;
            if !self.pool.is_read_only() {
                self.record_rest();
            }
            return Ok(());
        }
        // In a store the record counts keys, of which several may have one slot.
        self.begin_building(self.pool.recorded_pairs().filter(|_| !self.is_store))
    }

    /// Asks for huge pages, for who is about to touch all of the sidecar. A small page that was read before it is
    /// written takes two faults, and the second one interrupts every processor that runs the process: building 20
    /// million items took five seconds of that. Not before: whoever first touches a huge page may wait 10 ms until the
    /// system has put one together.
    pub(super) fn advise_sidecar(&self) {
        let geometry = self.geometry();
        // No hint would do for shared memory.
        let populate = self.shown.is_some();
        self.blocks_1.advise_lines(0..geometry.blocks_1(), populate);
        self.words.advise(0..geometry.blocks_2() as usize, populate);
    }

    fn recover_whole(&self) -> Result<(), OpenError> {
        let geometry = self.geometry();
        self.publish_look_mask(geometry);
        self.publish_aim();
        let initial = self.shape.initial_log2;
        let families = |log2: u32| if log2 > initial { 1 << (log2 - 1) } else { 1 << log2 };
        let level_1 = LevelView {
            blocks: geometry.blocks_1(),
            families: families(geometry.level_1_log2()),
            slots: self.shape.level_1_slots as usize,
            slot: |block, lane| self.slot_1(block, lane),
        };
        let level_2 = LevelView {
            blocks: geometry.blocks_2(),
            families: families(geometry.level_2_log2()),
            slots: self.shape.level_2_slots as usize,
            slot: |block, lane| self.slot_2(block, lane),
        };
        self.advise_sidecar();
        let in_level_1 =
            in_parallel(&self.settings, level_1.families, FAMILIES_PER_THREAD, &|families| {
                self.recover_families(
                    &level_1,
                    families,
                    |block| self.recover_in_place_1(geometry, block),
                    |block, lane, key| self.judge_1(geometry, block, lane, key),
                    |block, prints| self.publish_1(geometry, block, &words_of(prints)),
                )
            })?;
        // Level 1 must be complete: level 2 sets flags in its lines.
        let in_level_2 =
            in_parallel(&self.settings, level_2.families, FAMILIES_PER_THREAD, &|families| {
                self.recover_families(
                    &level_2,
                    families,
                    |block| {
                        self.prefetch_homes_of_2(
                            geometry,
                            (block + BLOCKS_AHEAD).min(level_2.blocks - 1),
                        );
                        None
                    },
                    |block, lane, key| self.judge_2(geometry, block, lane, key),
                    |block, prints| self.publish_2(geometry, block, words_of(prints)[0]),
                )
            })?;
        self.level_3.rebuild(self.medium(), |node, key| {
            let first = self.hasher.first_u64(key);
            let home = geometry.home(h0(first));
            if self.is_in_level_1_or_2(geometry, key, first) {
                // A shrink was moving the pair here, and had not erased the original yet.
                self.erase_in_recovery(Level3::state_at(node))?;
                return Ok(None);
            }
            self.mark_spilled_in_recovery(home, first);
            Ok(Some(home))
        })?;
        self.pairs_at_open.store(in_level_1 + in_level_2 + self.level_3.len(), Ordering::Release);
        Ok(())
    }

    fn is_in_level_1_or_2(&self, geometry: Geometry, key: u64, first: u64) -> bool {
        let is_in_2 = |(block, print)| self.find_2(block, print, key).is_some();
        key != 0
            && (self.find_1(geometry.home(h0(first)), key, first).is_some()
                || self.choices(geometry, key, first).distinct().any(is_in_2))
    }

    /// Recovers families of one level; returns the number of pairs in them. `in_place` may recover a block in which
    /// every pair stays, and then returns how many there are.
    fn recover_families<S: Fn(u64, usize) -> Offset>(
        &self,
        level: &LevelView<S>,
        families: Range<u64>,
        in_place: impl Fn(u64) -> Option<u64>,
        judge: impl Fn(u64, usize, u64) -> Verdict,
        publish: impl Fn(u64, &[u8; 64]),
    ) -> Result<u64, OpenError> {
        let mut pairs = 0;
        for lower in families {
            let upper = lower + level.families;
            let has_upper = upper < level.blocks;
            let upper_in_place = if has_upper { in_place(upper) } else { Some(0) };
            if let (Some(in_lower), Some(in_upper)) = (in_place(lower), upper_in_place) {
                pairs += in_lower + in_upper;
                continue;
            }
            let mut lower_prints = [0; 64];
            let mut upper_prints = [0; 64];
            if has_upper {
                for (lane, upper_print) in upper_prints.iter_mut().enumerate().take(level.slots) {
                    let slot = (level.slot)(upper, lane);
                    let key = self.medium().load(slot);
                    if key == 0 {
                        continue;
                    }
                    match judge(upper, lane, key) {
                        Verdict::Copied => self.erase_in_recovery(slot)?,
                        verdict => {
                            *upper_print = verdict.print_of(slot, upper)?;
                            pairs += 1;
                        }
                    }
                }
            }
            for (lane, lower_print) in lower_prints.iter_mut().enumerate().take(level.slots) {
                let slot = (level.slot)(lower, lane);
                let key = self.medium().load(slot);
                if key == 0 {
                    continue;
                }
                let verdict = judge(lower, lane, key);
                let copy_possible = !matches!(verdict, Verdict::Stays(_));
                let is_copied = copy_possible
                    && has_upper
                    && (0..level.slots).any(|lane| {
                        upper_prints[lane] != 0
                            && self.medium().load((level.slot)(upper, lane)) == key
                    });
                match verdict {
                    _ if is_copied => self.erase_in_recovery(slot)?,
                    Verdict::Copied => self.erase_in_recovery(slot)?,
                    Verdict::Stays(print) | Verdict::StaysUnlessCopied(print) => {
                        *lower_print = print;
                        pairs += 1;
                    }
                    Verdict::Moves if has_upper => {
                        let room =
                            upper_prints.iter().take(level.slots).position(|&print| print == 0);
                        let room =
                            room.ok_or_else(|| OpenError::Corrupt { found: astray(slot, lower) })?;
                        self.move_in_recovery(slot, (level.slot)(upper, room), key)?;
                        upper_prints[room] = judge(upper, room, key).print_of(slot, lower)?;
                        pairs += 1;
                    }
                    Verdict::Moves | Verdict::Astray => {
                        return Err(OpenError::Corrupt { found: astray(slot, lower) });
                    }
                }
            }
            publish(lower, &lower_prints);
            if has_upper {
                publish(upper, &upper_prints);
            }
        }
        Ok(pairs)
    }

    /// Recovers a level-1 block if all its pairs are in their place. Nearly every block is like that, unless a crash
    /// hit a resize. It has no branch per slot, since which slots are empty is random.
    fn recover_in_place_1(&self, geometry: Geometry, block: u64) -> Option<u64> {
        let at = self.blocks_1.area().at(block);
        let mut words = [0; 8];
        let (mut pairs, mut astray) = (0, 0);
        for (index, word) in
            words.iter_mut().enumerate().take(self.shape.level_1_slots as usize / 8)
        {
            for lane in 0..8 {
                let slot = slot_of(at, index * 8 + lane);
                let key = self.medium().load(slot);
                let first = self.hasher.first_u64(key);
                let is_taken = u64::from(key != 0);
                *word |= (u64::from(self.sought_1(first).fingerprint_in(index * 8 + lane))
                    * is_taken)
                    << (8 * lane);
                astray |= (geometry.home(first) ^ block) * is_taken;
                pairs += is_taken;
            }
        }
        if astray != 0 {
            return None;
        }
        self.publish_1(geometry, block, &words);
        Some(pairs)
    }

    /// Prefetches the level-1 lines in which the pairs of a level-2 block will set flags: each pair has another line.
    fn prefetch_homes_of_2(&self, geometry: Geometry, block: u64) {
        for lane in 0..self.shape.level_2_slots as usize {
            let key = self.medium().load(self.slot_2(block, lane));
            let home = geometry.home(self.hasher.first_u64(key));
            self.blocks_1.prefetch_line_to_write(home);
        }
    }

    /// Safe while other threads do the same.
    fn mark_spilled_in_recovery(&self, home: u64, first: u64) {
        let (word, bit) = (&self.line_1(home)[SPILLED_WORD], spilled_bit(first));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn judge_1(&self, geometry: Geometry, block: u64, lane: usize, key: u64) -> Verdict {
        let first = self.hasher.first_u64(key);
        let home = geometry.home(h0(first));
        match home {
            _ if home == block => Verdict::Stays(self.sought_1(first).fingerprint_in(lane)),
            _ if geometry.lower_1(home) == block => Verdict::Moves,
            _ => Verdict::Astray,
        }
    }

    fn judge_2(&self, geometry: Geometry, block: u64, lane: usize, key: u64) -> Verdict {
        let first = self.hasher.first_u64(key);
        let choices = self.choices(geometry, key, first);
        let home = geometry.home(h0(first));
        if let Some((_, copy)) = self.find_1(home, key, first) {
            let (_, value) = self.medium().load_pair(self.slot_2(block, lane));
            let leads_here = |choice| choice == block || geometry.lower_2(choice) == block;
            let is_copy = value == copy && choices.blocks.into_iter().any(leads_here);
            return if is_copy { Verdict::Copied } else { Verdict::Astray };
        }
        self.mark_spilled_in_recovery(home, first);
        if let Some((_, print)) = choices.distinct().find(|&(choice, _)| choice == block) {
            let [a, b] = choices.blocks;
            let is_one_family = a != b && geometry.lower_2(a) == geometry.lower_2(b);
            return if is_one_family {
                Verdict::StaysUnlessCopied(print)
            } else {
                Verdict::Stays(print)
            };
        }
        let choice = choice_from(geometry, &choices, block);
        if geometry.lower_2(choices.blocks[choice]) == block {
            Verdict::Moves
        } else {
            Verdict::Astray
        }
    }

    fn publish_1(&self, geometry: Geometry, block: u64, words: &[u64; 8]) {
        let line = self.line_1(block);
        for (index, (stored, word)) in line.iter().zip(words).enumerate() {
            stored.store(
                match index {
                    SPILLED_WORD => word & !SPILLED,
                    FLAGS_WORD => word & !(LOCK | MOVED_1) | geometry.moved_1(),
                    _ => *word,
                },
                Ordering::Relaxed,
            );
        }
    }

    fn publish_2(&self, geometry: Geometry, block: u64, word: u64) {
        let print_bits = word & !(LOCK | MOVED_2);
        self.word_2(block).store(print_bits | geometry.moved_2(), Ordering::Relaxed);
    }

    /// Erases the word that says a slot or a node is in use.
    fn erase_in_recovery(&self, slot: Offset) -> Result<(), OpenError> {
        if self.pool.is_read_only() {
            return Err(OpenError::NeedsRecovery);
        }
        self.medium().store(slot, 0);
        self.medium().persist(slot);
        Ok(())
    }

    fn move_in_recovery(&self, from: Offset, to: Offset, key: u64) -> Result<(), OpenError> {
        if self.pool.is_read_only() {
            return Err(OpenError::NeedsRecovery);
        }
        let (_, value) = self.medium().load_pair(from);
        self.fill(to, key, value);
        // The copy first: a crash in recovery must not lose the pair either.
        self.medium().persist(to);
        self.erase_in_recovery(from)
    }
}

/// What is wrong with a pair that lies where its key does not lead.
pub(super) fn astray(slot: Offset, block: u64) -> String {
    format!("the slot at {slot} in block {block} holds a key that does not belong there")
}

/// Fingerprints as the words of a line. A level-2 block uses only the first.
fn words_of(prints: &[u8; 64]) -> [u64; 8] {
    let mut words = [0; 8];
    for (lane, &print) in prints.iter().enumerate() {
        words[lane / 8] |= u64::from(print) << (lane % 8 * 8);
    }
    words
}
