//! The table as [`Records`]: what it is by nature.

use super::Clevel;
use super::ops::Changed;
use super::scan::TagScan;
use crate::kit::mutation::Puts;
use index::{
    Change, CheckReport, Error, ItemError, Occupancy, Record, RecordExchange, RecordScan, Records,
    Shrunk, Unfinished, check_limits, check_pairs,
};
use pmem::Medium;
use pmem::epoch::Guard;
use pmem::heap::{Compacted, HeapUse, Wanted};
use std::time::Duration;

fn record<'a>((changed, guard): (Changed<'a>, Guard<'a>)) -> Option<Record<'a>> {
    changed.before.map(|item| Record::new(item.value, guard))
}

/// The records of a batch, whose entries are done in order.
fn finished<R>(
    records: Vec<R>,
    changed: Result<(), Error>,
) -> Result<Vec<R>, Unfinished<ItemError>> {
    match changed {
        Ok(()) => Ok(records),
        Err(error) => Err(Unfinished::at(records.len(), error.into())),
    }
}

impl<M: Medium> Clevel<M> {
    /// A batch of changes that put values, each where `puts` says so.
    fn put_each<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
        puts: Puts,
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        check_pairs(pairs)?;
        let mut records = Vec::with_capacity(pairs.len());
        let changed = self.core.change_many(
            pairs,
            |&(key, _)| key,
            true,
            |&(_, value), found| puts.change(found, value),
            |changed| records.push(record(changed)),
        );
        finished(records, changed)
    }
}

impl<M: Medium> Records for Clevel<M> {
    fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        self.core.get(key)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        check_limits(key, value)?;
        let decide = |found: Option<&[u8]>| Change::if_absent(found, value);
        Ok(record(self.core.change(self.core.hash(key), key, &decide)?))
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        check_limits(key, value)?;
        let decide = |found: Option<&[u8]>| Change::if_present(found, value);
        Ok(record(self.core.change(self.core.hash(key), key, &decide)?))
    }

    fn upsert(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        check_limits(key, value)?;
        Ok(record(self.core.change(self.core.hash(key), key, &|_| Change::Put(value))?))
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        Ok(record(self.core.change(self.core.hash(key), key, &|_| Change::Remove)?))
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<RecordExchange<'_>, ItemError> {
        check_limits(key, new.unwrap_or_default())?;
        let decide = |found: Option<&[u8]>| Change::if_expected(found == expected, new);
        let changed = self.core.change(self.core.hash(key), key, &decide)?;
        Ok(if changed.0.is_done { Ok(()) } else { Err(record(changed)) })
    }

    fn get_many<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Option<Record<'a>>>, ItemError> {
        let guard = self.core.epochs.pin();
        let mut records = Vec::with_capacity(keys.len());
        self.core.search_many(
            keys,
            |key| *key,
            &guard,
            |_, hit| {
                records.push(hit.map(|hit| Record::new(hit.item.value, guard.clone())));
            },
        )?;
        Ok(records)
    }

    fn upsert_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        self.put_each(pairs, Puts::ALWAYS)
    }

    fn insert_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        self.put_each(pairs, Puts::IF_ABSENT)
    }

    fn update_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        self.put_each(pairs, Puts::IF_PRESENT)
    }

    fn remove_many<'a>(
        &'a self,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        let mut records = Vec::with_capacity(keys.len());
        let changed = self.core.change_many(
            keys,
            |key| *key,
            false,
            |_, _| Change::Remove,
            |changed| records.push(record(changed)),
        );
        finished(records, changed)
    }

    fn scan(&self) -> Box<dyn RecordScan + '_> {
        Box::new(TagScan::new(&self.core, 0, 1))
    }

    fn len(&self) -> u64 {
        self.core.len()
    }

    fn occupancy(&self) -> Occupancy {
        self.core.occupancy()
    }

    fn heap_use(&self) -> HeapUse {
        self.core.heap.usage()
    }

    fn compact(&self) -> Compacted {
        self.core.compact()
    }

    fn give_back(&self) -> u64 {
        self.core.heap.give_back()
    }

    fn check(&self) -> CheckReport {
        self.core.check()
    }

    fn make_room(&self, key: &[u8], value: &[u8]) {
        let core = &*self.core;
        core.reclaim_retired();
        let wanted = Wanted { replaces: true, ..core.heap.wanted_for(key, value, None) };
        core.heap.make_room(&wanted, &core.epochs, core);
    }

    fn settle(&self) {
        self.core.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        self.core.shrink()
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
    }
}
