//! Verification of the invariants. Exact when nothing writes.

use super::Core;
use super::cache::Cache;
use super::layout::LOCK;
use crate::kit::buckets::Buckets;
use crate::kit::doubling::Doubles;
use crate::kit::hash::slots_in;
use crate::kit::search::Search;
use index::{CheckReport, Fixed, is_same_state};
use pmem::Medium;
use pmem::sync::Ordering;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    pub(super) fn check_all(&self) -> CheckReport {
        let _at_rest = self.tables.signal.hold();
        let mut report = CheckReport::default();
        for bucket in 0..self.geometry().buckets() {
            let meta = self.medium().load(self.at(bucket));
            let state = self.state(bucket).load(Ordering::Acquire);
            report.looked_at += u64::from(self.bucket.slots);
            if state & LOCK != 0 {
                report.fault(&|| format!("bucket {bucket}: locked, though nothing writes"));
            }
            if !self.bucket.is_meta(meta) {
                report.fault(&|| format!("bucket {bucket}: bits of slots it has not, {meta:#x}"));
            }
            if self.bucket.lockmap(meta) != 0 {
                report.fault(&|| format!("bucket {bucket}: slots locked, though nothing writes"));
            }
            let shown = self.bucket.full() & !self.bucket.empty(self.prints(bucket));
            if shown != self.bucket.bitmap(meta) {
                report
                    .fault(&|| format!("bucket {bucket}: slots {shown:#x} shown, meta {meta:#x}"));
            }
            for slot in slots_in(self.bucket.bitmap(meta)) {
                report.pairs += 1;
                self.check_item(bucket, slot, meta, &mut report);
            }
        }
        if let Some(cache) = &self.cache {
            self.check_cache(cache, &mut report);
        }
        let counted = self.tables.len();
        if counted != report.pairs {
            let pairs = report.pairs;
            report.fault(&|| format!("{pairs} pairs are stored, but {counted} were counted"));
        }
        report
    }

    fn check_cache(&self, cache: &Cache<K, V>, report: &mut CheckReport) {
        let mut cached = 0;
        cache.for_each(|key, value, is_busy| {
            cached += 1;
            let hash = self.hash(key);
            let found = self.get_from_buckets(key);
            if is_busy {
                report
                    .fault(&|| format!("cached, hash {:#x}: busy, though nothing writes", hash.0));
            } else if !is_same_state(found, Some(value)) {
                report.fault(&|| format!("cached, hash {:#x}: another value is stored", hash.0));
            }
        });
        if cache.state().is_full_loaded() && cached != report.pairs {
            let pairs = report.pairs;
            report.fault(&|| format!("{cached} pairs are cached as if these were all {pairs}"));
        }
    }

    fn check_item(&self, bucket: u64, slot: usize, meta: u64, report: &mut CheckReport) {
        let (medium, geometry) = (self.medium(), self.geometry());
        let key = self.bucket.key(medium, self.at(bucket), slot);
        let hash = self.hash(key);
        let shown = self.bucket.slots_with(self.prints(bucket), hash.print());
        if shown & 1 << slot == 0 {
            report.fault(&|| format!("bucket {bucket}, slot {slot}: another fingerprint is shown"));
        }
        if !self.bucket.has_print(meta, slot, hash.print()) {
            report.fault(&|| {
                format!("bucket {bucket}, slot {slot}: another fingerprint in {meta:#x}")
            });
        }
        let mut places: Vec<u64> = Vec::new();
        geometry.places().for_each(|log2| places.extend(self.pair_among(log2, hash)));
        places.sort_unstable();
        places.dedup();
        if !places.contains(&bucket) {
            report.fault(&|| format!("bucket {bucket}, slot {slot}: the key belongs elsewhere"));
        }
        let copies_in = |&place: &u64| {
            let at = self.at(place);
            let bitmap = self.bucket.bitmap(medium.load(at));
            slots_in(bitmap).filter(|&slot| self.bucket.has_key(medium, at, slot, key)).count()
        };
        let copies: usize = places.iter().map(copies_in).sum();
        if copies > 1 {
            report.fault(&|| {
                format!("bucket {bucket}, slot {slot}: the key is stored {copies} times")
            });
        }
    }
}
