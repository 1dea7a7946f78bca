//! Scans: every pair that a search would find, place by place. Beside writers they are exact if
//! the table does not grow meanwhile.

use super::Core;
use super::block::matches_2;
use super::hash::{level1_fingerprint, level2_fingerprint_1, level2_fingerprint_2};
use super::layout::LOCK;
use index::fingerprint::lanes;
use pmem::sync::{AtomicU64, Ordering};
use pmem::{Medium, Offset};

impl<M: Medium> Core<M> {
    /// Visits the `part`-th of `parts` parts of all places.
    pub(super) fn for_each_part(&self, part: usize, parts: usize, visit: &mut dyn FnMut(u64, u64)) {
        let geometry = self.geometry();
        let range = |count: u64| {
            let (part, parts) = (part as u64, parts as u64);
            count * part / parts..count * (part + 1) / parts
        };
        for block in range(geometry.blocks_1()) {
            let is_shown = |lane: usize, first: u64| {
                self.matches_1(block, level1_fingerprint(first)) & 1 << lane != 0
            };
            for lane in lanes(self.taken_1(block)) {
                self.visit_slot(
                    self.slot_1(block, lane),
                    lane,
                    self.flags_1(block),
                    is_shown,
                    visit,
                );
            }
        }
        for block in range(geometry.blocks_2()) {
            let word = self.word_2(block);
            let is_shown = |lane: usize, first: u64| {
                let shown = word.load(Ordering::Acquire);
                let prints = [level2_fingerprint_1(first), level2_fingerprint_2(first)];
                prints.iter().any(|&print| matches_2(shown, print) & 1 << lane != 0)
            };
            let taken = !self.empty_2(block);
            for lane in (0..self.shape.level_2_slots as usize).filter(|lane| taken & 1 << lane != 0)
            {
                self.visit_slot(self.slot_2(block, lane), lane, word, is_shown, visit);
            }
        }
        if part == 0 {
            // A node may be in use and not yet in its chain: what a search finds counts.
            self.level_3.for_each_key(self.medium(), |key| {
                if let Some(value) = self.get(key) {
                    visit(key, value);
                }
            });
        }
    }

    /// Visits the pair in a slot, if there is one that a search would find.
    fn visit_slot(
        &self,
        slot: Offset,
        lane: usize,
        lock: &AtomicU64,
        is_shown: impl Fn(usize, u64) -> bool,
        visit: &mut dyn FnMut(u64, u64),
    ) {
        let (key, value) = self.medium().load_pair(slot);
        // The slot may have changed hands since its fingerprint was read, and its new pair not be
        // shown yet: whoever was told of it here could not find it then.
        if key == 0 || !is_shown(lane, self.hasher.first_u64(key)) {
            return;
        }
        // A pair that is reported must be durable, as for a reader: whoever is changing it holds
        // the lock of the block that its slot is in.
        let is_locked = || lock.load(Ordering::Acquire) & LOCK != 0;
        if is_locked() {
            self.medium().persist_observed(slot, is_locked);
        }
        visit(key, value);
    }
}
