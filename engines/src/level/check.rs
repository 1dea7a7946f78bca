//! Scans, and verification of the invariants. Exact when nothing writes.

use super::Core;
use super::layout::LOCK;
use super::ops::Place;
use index::{CheckReport, Fixed};
use pmem::Medium;
use pmem::sync::{Ordering, fence};
use std::cell::Cell;
use std::ops::Range;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Visits the `part`-th of `parts` parts of all buckets.
    pub(super) fn for_each_part(&self, part: usize, parts: usize, visit: &mut dyn FnMut(K, V)) {
        let geometry = self.geometry();
        let (part, parts) = (part as u64, parts as u64);
        // Sources of a rehash before its destinations: then an item is seen twice rather than missed.
        let mut levels: Vec<u32> = geometry.levels().collect();
        levels.reverse();
        for level in levels {
            let buckets = 1u64 << level;
            let range: Range<u64> = buckets * part / parts..buckets * (part + 1) / parts;
            for index in range {
                for (key, value) in self.items(Place::new(level, index)).into_iter().flatten() {
                    visit(key, value);
                }
            }
        }
    }

    /// The items of a bucket at one instant, durable.
    fn items(&self, place: Place) -> [Option<(K, V)>; 8] {
        let (medium, at) = (self.medium(), self.at(place));
        loop {
            let wraps = self.wraps();
            let word = self.word(place).load(Ordering::Acquire);
            let tokens = self.tokens(at);
            let is_whole = Cell::new(true);
            let items = std::array::from_fn(|slot| {
                if tokens & 1 << slot == 0 {
                    return None;
                }
                let key = self.bucket.key(medium, at, slot);
                let is_shown = self.bucket.print_in(word, slot) != 0
                    || self.has_print(at, word, key, self.print(self.hash(key)));
                let value = self.value(place, slot, word);
                is_whole.set(is_whole.get() && value.is_some());
                value.filter(|_| is_shown).map(|value| (key, value))
            });
            fence(Ordering::Acquire);
            let now = self.word(place).load(Ordering::Relaxed);
            if (now ^ word) & !LOCK != 0 || self.wraps() != wraps || !is_whole.get() {
                continue;
            }
            if now & LOCK != 0 {
                medium.flush_range(at, self.bucket.bytes);
                medium.fence();
            }
            return items;
        }
    }

    pub(super) fn check(&self) -> CheckReport {
        let mut report = CheckReport::default();
        let geometry = self.geometry();
        for level in geometry.levels() {
            for index in 0..1 << level {
                let place = Place::new(level, index);
                let at = self.at(place);
                let word = self.word(place).load(Ordering::Acquire);
                report.looked_at += u64::from(self.bucket.slots);
                if word & LOCK != 0 {
                    report.fault(|| format!("{place}: locked, though nothing writes"));
                }
                let tokens = self.medium().load(at) & self.bucket.token_bits();
                if tokens & !self.bucket.full() != 0 {
                    report.fault(|| format!("{place}: tokens {tokens:#x} of slots it has not"));
                }
                for slot in (0..self.bucket.slots as usize).filter(|slot| tokens & 1 << slot != 0) {
                    report.pairs += 1;
                    self.check_item(place, slot, &mut report);
                }
            }
        }
        let counted = self.len();
        if counted != report.pairs {
            let pairs = report.pairs;
            report.fault(|| format!("{pairs} pairs are stored, but {counted} were counted"));
        }
        report
    }

    fn check_item(&self, place: Place, slot: usize, report: &mut CheckReport) {
        let medium = self.medium();
        let key = self.bucket.key(medium, self.at(place), slot);
        let hash = self.hash(key);
        let print = self.bucket.print_in(self.word(place).load(Ordering::Acquire), slot);
        if print != self.print(hash) {
            let expected = self.print(hash);
            report.fault(|| format!("{place}, slot {slot}: fingerprint {print}, not {expected}"));
        }
        if !self.places(place.level, hash).contains(&place) {
            report.fault(|| format!("{place}, slot {slot}: the key belongs to other buckets"));
        }
        let geometry = self.geometry();
        let mut copies = 0;
        for level in geometry.levels() {
            let [first, second] = self.places(level, hash);
            for other in [first, second].into_iter().take(1 + usize::from(second != first)) {
                let (at, tokens) = (self.at(other), self.tokens(self.at(other)));
                copies += (0..self.bucket.slots as usize)
                    .filter(|slot| tokens & 1 << slot != 0)
                    .filter(|&slot| self.bucket.key(medium, at, slot) == key)
                    .count();
            }
        }
        if copies > 1 {
            report.fault(|| format!("{place}, slot {slot}: the key is stored {copies} times"));
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "level {}, bucket {}", self.level, self.index())
    }
}
