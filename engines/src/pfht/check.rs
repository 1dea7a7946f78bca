//! Verification of the invariants. Exact when nothing writes.

use super::Core;
use super::layout::{Bucket, LOCK, STASHED};
use crate::kit::buckets::Buckets;
use crate::kit::doubling::Doubles;
use crate::kit::hash::slots_in;
use index::{CheckReport, Fixed, is_same};
use pmem::Medium;
use pmem::sync::Ordering;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    pub(super) fn check_all(&self) -> CheckReport {
        let _at_rest = self.tables.signal.hold();
        let mut report = CheckReport::default();
        for bucket in 0..self.geometry().buckets() {
            self.check_bucket(bucket, &mut report);
        }
        self.check_stash(&mut report);
        let counted = self.tables.len();
        if counted != report.pairs {
            let pairs = report.pairs;
            report.fault(&|| format!("{pairs} pairs are stored, but {counted} were counted"));
        }
        report
    }

    fn check_bucket(&self, bucket: u64, report: &mut CheckReport) {
        let (medium, at) = (self.medium(), self.at(bucket));
        let state = self.state(bucket).load(Ordering::Acquire);
        report.looked_at += u64::from(self.bucket.slots);
        if state & LOCK != 0 {
            report.fault(&|| format!("bucket {bucket}: locked, though nothing writes"));
        }
        let word = medium.load(at);
        if !Bucket::<K, V>::WORDS && word & !self.bucket.full() != 0 {
            report.fault(&|| format!("bucket {bucket}: bits of slots it has not, {word:#x}"));
        }
        let used = self.bucket.bitmap(medium, at);
        let shown = self.bucket.full() & !self.empty(bucket);
        if shown != used {
            report.fault(&|| format!("bucket {bucket}: slots {shown:#x} shown, {used:#x} in use"));
        }
        for slot in slots_in(used) {
            report.pairs += 1;
            let key = self.bucket.key(medium, at, slot);
            let print = self.hash(key).print();
            if self.bucket.slots_with(self.prints(bucket), print) & 1 << slot == 0 {
                report.fault(&|| {
                    format!("bucket {bucket}, slot {slot}: another fingerprint is shown")
                });
            }
            self.check_key(key, &|places| places.contains(&bucket), report, &|| {
                format!("bucket {bucket}, slot {slot}")
            });
        }
        let nodes = self.stash.nodes_of(bucket);
        if (state & STASHED != 0) == nodes.is_empty() {
            let count = nodes.len();
            report
                .fault(&|| format!("bucket {bucket}: {count} nodes, and its state says otherwise"));
        }
        for node in nodes {
            report.pairs += 1;
            let (key, _) = self.stash.pair(medium, node);
            let is_first = |places: &[u64]| places.chunks(2).any(|pair| pair[0] == bucket);
            self.check_key(key, &is_first, report, &|| format!("node {node} of the stash"));
        }
    }

    /// Checks that a key is where it belongs, and nowhere else.
    fn check_key(
        &self,
        key: K,
        belongs: &dyn Fn(&[u64]) -> bool,
        report: &mut CheckReport,
        what: &dyn Fn() -> String,
    ) {
        let medium = self.medium();
        let hash = self.hash(key);
        let mut places: Vec<u64> = Vec::new();
        self.geometry().places().for_each(|log2| places.extend(self.pair_among(log2, hash)));
        if !belongs(&places) {
            report.fault(&|| format!("{}: the key belongs elsewhere", what()));
        }
        places.sort_unstable();
        places.dedup();
        let mut copies = 0;
        for &place in &places {
            let at = self.at(place);
            let used = self.bucket.bitmap(medium, at);
            copies +=
                slots_in(used).filter(|&slot| self.bucket.has_key(medium, at, slot, key)).count();
            let is_it = |node: &u64| is_same(self.stash.pair(medium, *node).0, key);
            copies += self.stash.nodes_of(place).iter().filter(|node| is_it(node)).count();
        }
        if copies > 1 {
            report.fault(&|| format!("{}: the key is stored {copies} times", what()));
        }
    }

    /// Checks that every node in use is in a chain.
    fn check_stash(&self, report: &mut CheckReport) {
        report.looked_at += self.stash.nodes();
        let mut used = 0;
        self.stash.for_each_used(self.medium(), |_, _| used += 1);
        let linked = self.stash.len();
        if used != linked {
            report.fault(&|| {
                format!("the stash has {used} nodes in use, of which {linked} are taken")
            });
        }
    }
}
