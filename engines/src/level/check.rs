//! Verification of the invariants. Exact when nothing writes.

use super::Core;
use super::layout::{BucketId, LOCK};
use crate::kit::buckets::Buckets;
use crate::kit::table::Upkeep;
use index::{CheckReport, Fixed};
use pmem::Medium;
use pmem::sync::Ordering;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    pub(super) fn check_all(&self) -> CheckReport {
        let mut report = CheckReport::default();
        let geometry = self.geometry();
        for level in geometry.levels() {
            for index in 0..1 << level {
                let bucket = BucketId::new(level, index);
                let at = self.at(bucket);
                let word = self.state(bucket).load(Ordering::Acquire);
                report.looked_at += u64::from(self.bucket.slots);
                if word & LOCK != 0 {
                    report.fault(&|| format!("{bucket}: locked, though nothing writes"));
                }
                let tokens = self.medium().load(at) & self.bucket.token_bits();
                if tokens & !self.bucket.full() != 0 {
                    report.fault(&|| format!("{bucket}: tokens {tokens:#x} of slots it has not"));
                }
                for slot in (0..self.bucket.slots as usize).filter(|slot| tokens & 1 << slot != 0) {
                    report.pairs += 1;
                    self.check_item(bucket, slot, &mut report);
                }
            }
        }
        let counted = self.len();
        if counted != report.pairs {
            let pairs = report.pairs;
            report.fault(&|| format!("{pairs} pairs are stored, but {counted} were counted"));
        }
        report
    }

    fn check_item(&self, bucket: BucketId, slot: usize, report: &mut CheckReport) {
        let medium = self.medium();
        let key = self.bucket.key(medium, self.at(bucket), slot);
        let hash = self.hash(key);
        let print = self.bucket.print_in(self.state(bucket).load(Ordering::Acquire), slot);
        if print != self.print(hash) {
            let expected = self.print(hash);
            report.fault(&|| format!("{bucket}, slot {slot}: fingerprint {print}, not {expected}"));
        }
        if !self.candidates(bucket.level, hash).contains(&bucket) {
            report.fault(&|| format!("{bucket}, slot {slot}: the key belongs to other buckets"));
        }
        let geometry = self.geometry();
        let mut copies = 0;
        for level in geometry.levels() {
            let [first, second] = self.candidates(level, hash);
            for other in [first, second].into_iter().take(1 + usize::from(second != first)) {
                let (at, tokens) = (self.at(other), self.tokens(self.at(other)));
                copies += (0..self.bucket.slots as usize)
                    .filter(|slot| tokens & 1 << slot != 0)
                    .filter(|&slot| self.bucket.has_key(medium, at, slot, key))
                    .count();
            }
        }
        if copies > 1 {
            report.fault(&|| format!("{bucket}, slot {slot}: the key is stored {copies} times"));
        }
    }
}
