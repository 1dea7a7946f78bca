//! The engine as an [`Index`].

use super::Iceberg;
use super::scan::PlaceScan;
use index::{
    Change, CheckReport, Chore, Error, Exchange, Index, Occupancy, Scan, Shrunk, Unfinished,
    WhenBuilt, is_same_state,
};
use pmem::Medium;
use pmem::view::View;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

impl<M: Medium> Index<u64, u64> for Iceberg<M> {
    fn get(&self, key: u64) -> Option<u64> {
        self.core.get(key)
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.core.insert(key, value)
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.core.update(key, value)
    }

    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.core.upsert(key, value)
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        self.core.remove(key)
    }

    fn compare_exchange(
        &self,
        key: u64,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<Exchange<u64>, Error> {
        self.core.compare_exchange(key, expected, new)
    }

    #[inline]
    fn modify(
        &self,
        key: u64,
        decide: impl Fn(Option<u64>) -> Change<u64>,
    ) -> Result<Option<u64>, Error> {
        self.core.mutate(key, decide)
    }

    #[inline]
    fn prefetch(&self, key: u64) {
        self.core.prefetch(key);
    }

    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        self.core.get_many(keys, out);
    }

    fn insert_many(
        &self,
        pairs: &[(u64, u64)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        self.core.mutate_many(
            pairs,
            out,
            |&(key, _)| key,
            |&(_, value), found| Change::if_absent(found, value),
        )
    }

    fn update_many(
        &self,
        pairs: &[(u64, u64)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        self.core.mutate_many(
            pairs,
            out,
            |&(key, _)| key,
            |&(_, value), found| Change::if_present(found, value),
        )
    }

    fn upsert_many(
        &self,
        pairs: &[(u64, u64)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        self.core.mutate_many(pairs, out, |&(key, _)| key, |&(_, value), _| Change::Put(value))
    }

    fn remove_many(&self, keys: &[u64], out: &mut [Option<u64>]) -> Result<(), Unfinished<Error>> {
        self.core.mutate_many(keys, out, |&key| key, |_, _| Change::Remove)
    }

    fn compare_exchange_many(
        &self,
        changes: &[(u64, Option<u64>, Option<u64>)],
        out: &mut [Option<u64>],
    ) -> Result<(), Unfinished<Error>> {
        self.core.mutate_many(
            changes,
            out,
            |&(key, _, _)| key,
            |&(_, expected, new), found| Change::if_expected(is_same_state(found, expected), new),
        )
    }

    fn scan(&self) -> Box<dyn Scan<u64, u64> + '_> {
        Box::new(PlaceScan::new(&self.core))
    }

    fn for_each_on(&self, threads: usize, visit: &(dyn Fn(u64, u64) -> ControlFlow<()> + Sync)) {
        self.core.for_each_on(threads, visit);
    }

    fn len(&self) -> u64 {
        self.core.len()
    }

    fn occupancy(&self) -> Occupancy {
        self.core.occupancy()
    }

    fn check(&self) -> CheckReport {
        self.outrun_helpers();
        self.core.check()
    }

    fn settle(&self) {
        self.core.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        self.core.shrink()
    }

    fn set_chore(&self, chore: Weak<dyn Chore>) {
        self.core.signal.set_chore(chore);
    }

    fn wake_for_chore(&self) -> bool {
        self.core.signal.wake()
    }

    fn scan_time(&self) -> Duration {
        self.scan_time
    }

    fn is_built(&self) -> bool {
        self.core.is_built()
    }

    fn when_built(&self, then: WhenBuilt) {
        self.core.built.ask(then);
    }

    fn view(&self) -> Option<Arc<View>> {
        self.core.shown.as_ref().map(|shown| Arc::clone(&shown.view))
    }

    #[cfg(feature = "simulated")]
    fn expect_help(&self) {
        self.core.signal.expect_turns();
    }

    #[cfg(feature = "simulated")]
    fn help(&self) {
        self.core.signal.take_one_round(&*self.core);
    }
}
