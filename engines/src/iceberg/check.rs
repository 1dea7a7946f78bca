//! Verifies the invariants. Exact when nothing writes.

use super::Core;
use super::block::Choices;
use super::hash::h0;
use super::layout::LOCK;
use super::level_3::{IN_USE, Level3};
use index::CheckReport;
use pmem::sync::Ordering;
use pmem::{Medium, Offset};
use std::collections::HashMap;

impl<M: Medium> Core<M> {
    #[inline(never)]
    pub(super) fn check(&self) -> CheckReport {
        let mut report = CheckReport::default();
        self.check_level_1(&mut report);
        self.check_level_2(&mut report);
        self.check_level_3(&mut report);
        let counted = self.len();
        if counted != report.pairs {
            let pairs = report.pairs;
            report.fault(&|| format!("{pairs} pairs are stored, but {counted} were counted"));
        }
        report
    }

    fn check_level_1(&self, report: &mut CheckReport) {
        let geometry = self.geometry();
        for block in 0..geometry.span_1() {
            let flags = self.flags_1(block).load(Ordering::Acquire);
            if flags & LOCK != 0 {
                report.fault(&|| format!("level 1, block {block}: locked, though nothing writes"));
            }
            let taken = self.taken_1(block);
            for lane in 0..self.shape.level_1_slots as usize {
                report.looked_at += 1;
                let slot = self.slot_1(block, lane);
                let (key, value) = self.medium().load_pair(slot);
                if (key != 0) != (taken & 1 << lane != 0) {
                    report.fault(&|| format!(
                        "level 1, slot at {slot}: key {key:#x} under a fingerprint that says otherwise"
                    ));
                    continue;
                }
                if key == 0 {
                    continue;
                }
                report.pairs += 1;
                let first = self.hasher.first_u64(key);
                let home = geometry.home(h0(first));
                let is_home = home == block || geometry.source_1(h0(first)) == block;
                if !is_home {
                    report.fault(&|| format!(
                        "level 1, slot at {slot}: key {key:#x} is in block {block}, expected {home}"
                    ));
                }
                if self.find_1(block, key, first).map(|(found, _)| found) != Some(lane) {
                    let print = self.sought_1(first).fingerprint_in(lane);
                    report.fault(&|| {
                        format!(
                            "level 1, slot at {slot}: key {key:#x} is not found first by its \
                         fingerprint {print:#x}"
                        )
                    });
                }
                self.check_found(report, slot, key, value);
            }
        }
    }

    fn check_level_2(&self, report: &mut CheckReport) {
        let geometry = self.geometry();
        for block in 0..geometry.span_2() {
            if self.word_2(block).load(Ordering::Acquire) & LOCK != 0 {
                report.fault(&|| format!("level 2, block {block}: locked, though nothing writes"));
            }
            let mut stored = 0;
            for lane in 0..self.shape.level_2_slots as usize {
                report.looked_at += 1;
                let slot = self.slot_2(block, lane);
                let (key, value) = self.medium().load_pair(slot);
                if key == 0 {
                    continue;
                }
                stored += 1;
                report.pairs += 1;
                self.check_spilled(report, slot, key);
                self.check_found(report, slot, key, value);
            }
            let taken = self.taken_2(block);
            if taken != stored {
                report.fault(&|| {
                    format!("level 2, block {block}: {stored} pairs under {taken} fingerprints")
                });
            }
        }
    }

    fn check_level_3(&self, report: &mut CheckReport) {
        let geometry = self.geometry();
        let mut chained: HashMap<u64, u64> = HashMap::new();
        let nodes = self.level_3.nodes();
        for block in 0..geometry.span_1() {
            for cell in self.level_3.chain(block).take(2 * nodes as usize) {
                if let Some(other) = chained.insert(Level3::node_of(cell), block) {
                    report.fault(&|| {
                        format!(
                            "level 3, node {}: in the chains of blocks {other} and {block}",
                            Level3::node_of(cell)
                        )
                    });
                }
            }
        }
        for node in 0..nodes {
            report.looked_at += 1;
            let at = self.level_3.node_at(node);
            let (key, value) = self.medium().load_pair(at);
            let state = self.medium().load(Level3::state_at(at));
            let in_use = state == IN_USE;
            if state > IN_USE || in_use != chained.contains_key(&node) {
                report.fault(&|| {
                    format!(
                        "level 3, node at {at}: state {state}, {} a chain",
                        if chained.contains_key(&node) { "in" } else { "not in" }
                    )
                });
            }
            if in_use {
                report.pairs += 1;
                self.check_spilled(report, at, key);
                self.check_found(report, at, key, value);
            }
        }
    }

    /// A key beyond level 1 must be announced in its level-1 block.
    fn check_spilled(&self, report: &mut CheckReport, at: Offset, key: u64) {
        let geometry = self.geometry();
        let first = self.hasher.first_u64(key);
        let home = geometry.home(h0(first));
        let source = geometry.source_1(h0(first));
        if !self.may_have_spilled([source, home], first) {
            report.fault(&|| {
                format!(
                    "slot at {at}: key {key:#x} is beyond level 1, and block {home} does not say so"
                )
            });
        }
    }

    /// A search must find this very pair: then it is in its place, and no other pair of the key comes before it.
    fn check_found(&self, report: &mut CheckReport, at: Offset, key: u64, value: u64) {
        let found = self.place_of(key);
        if found != Some(at) {
            report.fault(&|| {
                format!(
                    "slot at {at}: key {key:#x} is {}",
                    match found {
                        Some(other) => format!("stored at {other} as well"),
                        None => "not found by a search".into(),
                    }
                )
            });
        }
        if self.get(key).is_some_and(|found| found != value) {
            report
                .fault(&|| format!("slot at {at}: a search for key {key:#x} gives another value"));
        }
    }

    /// Where a search finds `key`.
    fn place_of(&self, key: u64) -> Option<Offset> {
        let geometry = self.geometry();
        let first = self.hasher.first_u64(key);
        let home = geometry.home(h0(first));
        let source = geometry.source_1(h0(first));
        for block in [source, home] {
            if let Some((lane, _)) = self.find_1(block, key, first) {
                return Some(self.slot_1(block, lane));
            }
        }
        if key != 0 {
            let sources = geometry
                .resizing_2()
                .then(|| self.choices_among(geometry.source_blocks_2(), key, first));
            let choices = sources.into_iter().chain([self.choices(geometry, key, first)]);
            for (block, print) in choices.flat_map(Choices::both) {
                if let Some((lane, _)) = self.find_2(block, print, key) {
                    return Some(self.slot_2(block, lane));
                }
            }
        }
        [source, home]
            .into_iter()
            .find_map(|block| self.level_3.find(self.medium(), block, key))
            .map(|(at, _)| at)
    }
}
