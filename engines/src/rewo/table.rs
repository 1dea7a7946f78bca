//! The engine as an [`Index`].

use super::ops::Likely;
use super::RewoHash;
use crate::scan::Scanned;
use index::{
    Change, CheckReport, Chore, Error, Exchange, Fixed, Index, Occupancy, Shrunk, is_same_state,
};
use pmem::Medium;
use std::sync::Weak;
use std::time::Duration;

/// A function and no closure, of which each is a type of its own: so batches of pairs are compiled once.
fn key_of<K: Fixed, V>(&(key, _): &(K, V)) -> K {
    key
}

impl<M: Medium, K: Fixed, V: Fixed> Index<K, V> for RewoHash<M, K, V> {
    fn get(&self, key: K) -> Option<V> {
        self.core.get(key)
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.core.mutate(key, Likely::Inserts, |found| Change::if_absent(found, value))
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.core.mutate(key, Likely::Updates, |found| Change::if_present(found, value))
    }

    fn upsert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.core.mutate(key, Likely::Inserts, |_| Change::Put(value))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        self.core.mutate(key, Likely::Removes, |_| Change::Remove)
    }

    fn compare_exchange(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Exchange<V>, Error> {
        let likely = match (expected, new) {
            (None, Some(_)) => Likely::Inserts,
            (_, None) => Likely::Removes,
            _ => Likely::Updates,
        };
        let found = self.core.mutate(key, likely, |found| {
            Change::if_expected(is_same_state(found, expected), new)
        })?;
        Ok(if is_same_state(found, expected) { Ok(()) } else { Err(found) })
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        self.core.get_many(keys, out);
    }

    fn insert_many(&self, pairs: &[(K, V)], out: &mut [Option<V>]) -> Result<(), Error> {
        let decide = |&(_, value): &(K, V), found| Change::if_absent(found, value);
        self.core.mutate_many(pairs, out, key_of, Likely::Inserts, decide)
    }

    fn update_many(&self, pairs: &[(K, V)], out: &mut [Option<V>]) -> Result<(), Error> {
        let decide = |&(_, value): &(K, V), found| Change::if_present(found, value);
        self.core.mutate_many(pairs, out, key_of, Likely::Updates, decide)
    }

    fn upsert_many(&self, pairs: &[(K, V)], out: &mut [Option<V>]) -> Result<(), Error> {
        self.core
            .mutate_many(pairs, out, key_of, Likely::Inserts, |&(_, value), _| Change::Put(value))
    }

    fn remove_many(&self, keys: &[K], out: &mut [Option<V>]) -> Result<(), Error> {
        self.core.mutate_many(keys, out, |&key| key, Likely::Removes, |_, _| Change::Remove)
    }

    fn compare_exchange_many(
        &self,
        changes: &[(K, Option<V>, Option<V>)],
        out: &mut [Option<V>],
    ) -> Result<(), Error> {
        self.core.mutate_many(
            changes,
            out,
            |&(key, _, _)| key,
            Likely::Inserts,
            |&(_, expected, new), found| Change::if_expected(is_same_state(found, expected), new),
        )
    }

    fn for_each(&self, visit: &mut dyn FnMut(K, V)) {
        self.core.for_each_part(0, 1, visit);
    }

    fn for_each_part(&self, part: usize, parts: usize, visit: &mut dyn FnMut(K, V)) {
        self.core.for_each_part(part, parts, visit);
    }

    fn len(&self) -> u64 {
        self.core.len()
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
        self.core.finish_resize();
        let geometry = self.core.geometry();
        if !self.core.begin_shrink(geometry)? {
            return Ok(Shrunk::Kept);
        }
        self.core.finish_resize();
        let has_halved = self.core.geometry().log2() < geometry.log2();
        Ok(if has_halved { Shrunk::Halved } else { Shrunk::Kept })
    }

    fn set_chore(&self, chore: Weak<dyn Chore>) {
        self.core.signal.set_chore(chore);
    }

    fn wake_for_chore(&self) {
        self.core.signal.wake();
    }

    fn scan_time(&self) -> Duration {
        self.scan_time
    }

    #[cfg(feature = "simulated")]
    fn expect_help(&self) {
        self.core.signal.expect_turns();
    }

    #[cfg(feature = "simulated")]
    fn help(&self) {
        self.core.signal.take_one_round(&*self.core);
        if self.core.settings.refills_cache {
            self.core.refill();
        }
    }
}
