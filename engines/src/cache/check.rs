//! Verifying all invariants.

use super::Cache;
use super::index::{line_of, lines_of, lines_with, tag_in, tag_of};
use super::segments::Use;
use ::index::CheckReport;
use pmem::Medium;
use pmem::sync::Ordering;
use std::collections::HashMap;

impl<M: Medium> Cache<M> {
    /// Verifies every slot and every item, and what is known of the segments. Exact when nothing writes.
    pub fn check(&self) -> CheckReport {
        self.count_all();
        let mut report = CheckReport::default();
        let mut live: HashMap<u32, (u64, u64)> = HashMap::new();
        let mut keys: HashMap<Vec<u8>, u64> = HashMap::new();
        for number in 0..self.segments.len() as u32 {
            let Use::Index(part) = self.use_of(number) else { continue };
            for line in 0..lines_of(&self.arena) {
                let line = line_of(&self.arena, number, line);
                for slot in self.arena.medium().load_line(line) {
                    if slot == 0 {
                        continue;
                    }
                    report.looked_at += 1;
                    let guard = self.epochs.pin();
                    let at = self.place(slot);
                    let segment = self.arena.segment_of(at);
                    let of = self.segments.get(segment as usize).map(super::Segment::of);
                    let holds = matches!(of, Some(Use::Items(..) | Use::Large(..)));
                    let Some(entry) = self.arena.entry(at, &guard).filter(|_| holds) else {
                        report.fault(&|| {
                            format!("the slot {slot:#x} in line {line} leads to no item")
                        });
                        continue;
                    };
                    if !entry.is_sound() {
                        report.fault(&|| format!("the item at {at} does not fit its sum"));
                    }
                    let hash = self.hasher.first_bytes(entry.key);
                    let is_at_home = part.has(tag_of(hash))
                        && tag_in(slot) == tag_of(hash)
                        && lines_with(&self.arena, number, hash).contains(&line);
                    if !is_at_home {
                        report.fault(&|| {
                            format!("the slot {slot:#x} in line {line} is in a wrong place")
                        });
                    }
                    if let Some(other) = keys.insert(entry.key.to_vec(), slot) {
                        report
                            .fault(&|| format!("the slots {slot:#x} and {other:#x} have one key"));
                    }
                    let of = live.entry(segment).or_default();
                    *of = (of.0 + 1, of.1 + entry.bytes());
                    report.pairs += u64::from(self.is_of_generation(entry.stamp));
                }
            }
        }
        for (segment, number) in self.segments.iter().zip(0..) {
            let counted = match segment.has_items() {
                true => (
                    segment.live.load(Ordering::Relaxed),
                    segment.live_bytes.load(Ordering::Relaxed),
                ),
                false => (0, 0),
            };
            let found = live.get(&number).copied().unwrap_or_default();
            report.looked_at += 1;
            if counted != found {
                report.fault(&|| {
                    format!("segment {number} has {found:?} items and bytes, and {counted:?} are counted")
                });
            }
        }
        report
    }
}
