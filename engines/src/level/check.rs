//! Verification of the invariants. Exact when nothing writes.

use super::Core;
use super::layout::LOCK;
use super::ops::Place;
use index::{CheckReport, Fixed};
use pmem::Medium;
use pmem::sync::Ordering;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
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
                    .filter(|&slot| self.bucket.has_key(medium, at, slot, key))
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
