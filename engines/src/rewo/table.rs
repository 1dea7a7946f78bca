//! The engine as an [`Index`].

use super::RewoHash;
use crate::kit::doubling::Doubles;
use crate::kit::mutation::{Likely, changes_by_mutation, key_of};
use crate::kit::paths::Paths;
use crate::kit::scan::Scanned;
use index::{
    Change, CheckReport, Chore, Error, Fixed, Index, Occupancy, Scan, Shrunk, is_same_state,
};
use pmem::Medium;
use std::sync::Weak;
use std::time::Duration;

impl<M: Medium, K: Fixed, V: Fixed> Index<K, V> for RewoHash<M, K, V> {
    fn get(&self, key: K) -> Option<V> {
        self.core.get(key)
    }

    #[inline]
    fn prefetch(&self, key: K) {
        if let Some(two) = self.core.two(self.core.hash(key)) {
            self.core.prefetch_records(&two);
        }
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        self.core.get_many(keys, out);
    }

    changes_by_mutation!(K, V);

    fn scan(&self) -> Box<dyn Scan<K, V> + '_> {
        self.core.scan()
    }

    fn for_each_on(&self, threads: usize, visit: &(dyn Fn(K, V) + Sync)) {
        self.core.for_all_on(threads, visit);
    }

    fn len(&self) -> u64 {
        self.core.tables.len()
    }

    fn occupancy(&self) -> Occupancy {
        self.core.occupancy()
    }

    fn check(&self) -> CheckReport {
        self.core.check()
    }

    fn settle(&self) {
        self.core.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        self.core.outlast_resize();
        let geometry = self.core.geometry();
        if !self.core.begin_shrink(geometry)? {
            return Ok(Shrunk::Kept);
        }
        self.core.outlast_resize();
        let has_halved = self.core.geometry().log2() < geometry.log2();
        Ok(if has_halved { Shrunk::Halved } else { Shrunk::Kept })
    }

    fn set_chore(&self, chore: Weak<dyn Chore>) {
        self.core.tables.signal.set_chore(chore);
    }

    fn wake_for_chore(&self) -> bool {
        self.core.tables.signal.wake()
    }

    fn scan_time(&self) -> Duration {
        self.scan_time
    }

    #[cfg(feature = "simulated")]
    fn expect_help(&self) {
        self.core.tables.signal.expect_turns();
    }

    #[cfg(feature = "simulated")]
    fn help(&self) {
        self.core.tables.signal.take_one_round(&*self.core);
        if self.core.tables.settings.refills_cache {
            self.core.refill();
        }
    }
}
