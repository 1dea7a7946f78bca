//! A guest's store.

use super::join::Guest;
use super::link::Link;
use super::part_way::PartWay;
use super::remote_scan::RemoteScan;
use super::wire::{Operation, Reader, Write, read_answer};
use crate::any_engine::AnyEngine;
use crate::{BatchError, Record as Shown, Result, Store};
use index::{
    CheckReport, ItemError, KeyValue, Occupancy, Record, RecordExchange, RecordScan, Records,
    Shrunk, Unfinished, check_limits, check_pairs,
};
use pmem::heap::{Compacted, HeapUse};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A store in another process, as an engine is one in this.
struct GuestStore {
    link: Arc<Link>,
}

type Found<'a> = Option<Record<'a>>;
type Pair<'p> = (&'p [u8], &'p [u8]);

pub(super) fn record<'a>(words: &mut Reader<'_>) -> Result<Found<'a>> {
    let bytes = words.maybe(|words| Ok(Box::<[u8]>::from(words.bytes()?)))?;
    Ok(bytes.map(Record::copied))
}

fn found<'a>(answer: &[u64]) -> Result<Found<'a>> {
    record(&mut read_answer(answer)?)
}

fn shown(record: Option<Shown<'_>>) -> Found<'_> {
    record.map(Shown::into_inner)
}

fn all_shown(records: Vec<Option<Shown<'_>>>) -> Vec<Found<'_>> {
    records.into_iter().map(shown).collect()
}

impl Guest for Store {
    fn guest(link: Arc<Link>) -> AnyEngine<dyn Records> {
        let sights = Arc::clone(&link.sights);
        AnyEngine::of_guest(Box::new(GuestStore { link }), sights)
    }
}

impl GuestStore {
    /// An operation on one key.
    fn one<'a>(
        &'a self,
        operation: Operation,
        own: impl FnOnce(&'a Store) -> Result<Option<Shown<'a>>>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> std::result::Result<Found<'a>, ItemError> {
        match value {
            Some(value) => check_limits(key, value)?,
            // There is none that long.
            None if check_limits(key, &[]).is_err() => return Ok(None),
            None => {}
        }
        let write = |request: &mut Vec<u64>| {
            request.bytes(key);
            if let Some(value) = value {
                request.bytes(value);
            }
        };
        Ok(self.link.ask(operation, |store| own(store).map(shown), write, found)?)
    }

    fn batch<'a, E>(
        &'a self,
        operation: Operation,
        own: impl Fn(&'a Store, &[E]) -> std::result::Result<Vec<Option<Shown<'a>>>, PartWay>,
        entries: &[E],
        bytes: impl Fn(&E) -> usize,
        write: impl Fn(&mut Vec<u64>, &E),
    ) -> std::result::Result<Vec<Found<'a>>, PartWay> {
        let own = |store: &'a Store, part: &[E]| own(store, part).map(all_shown);
        self.link.batch(operation, own, entries, bytes, write, record)
    }

    fn pairs<'a>(
        &'a self,
        operation: Operation,
        own: impl Fn(&'a Store, &[Pair<'_>]) -> std::result::Result<Vec<Option<Shown<'a>>>, BatchError>,
        pairs: &[Pair<'_>],
    ) -> std::result::Result<Vec<Found<'a>>, Unfinished<ItemError>> {
        check_pairs(pairs)?;
        let own = |store: &'a Store, pairs: &[Pair<'_>]| Ok(own(store, pairs)?);
        let bytes = |(key, value): &Pair<'_>| key.len() + value.len();
        let done = self.batch(operation, own, pairs, bytes, |request, (key, value)| {
            request.bytes(key);
            request.bytes(value);
        });
        done.map_err(|part_way| part_way.unfinished())
    }

    /// A key that is too long is not there, and is not sent.
    fn keys<'a>(
        &'a self,
        operation: Operation,
        own: impl Fn(&'a Store, &[&[u8]]) -> std::result::Result<Vec<Option<Shown<'a>>>, PartWay>,
        keys: &[&[u8]],
    ) -> std::result::Result<Vec<Found<'a>>, PartWay> {
        let is_too_long = |key: &&[u8]| check_limits(key, &[]).is_err();
        let mut found = Vec::with_capacity(keys.len());
        for part in keys.split_inclusive(is_too_long) {
            let possible = part.split_last().filter(|(last, _)| is_too_long(last));
            let possible = possible.map_or(part, |(_, others)| others);
            let before = found.len();
            let of_part = self.batch(
                operation,
                &own,
                possible,
                |key| key.len(),
                |request, key| request.bytes(key),
            );
            found.extend(of_part.map_err(|part_way| part_way.after(before))?);
            found.resize_with(before + part.len(), || None);
        }
        Ok(found)
    }
}

impl Records for GuestStore {
    fn get(&self, key: &[u8]) -> std::result::Result<Found<'_>, ItemError> {
        self.one(Operation::Get, |store| store.get(key), key, None)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> std::result::Result<Found<'_>, ItemError> {
        self.one(Operation::Insert, |store| store.insert(key, value), key, Some(value))
    }

    fn update(&self, key: &[u8], value: &[u8]) -> std::result::Result<Found<'_>, ItemError> {
        self.one(Operation::Update, |store| store.update(key, value), key, Some(value))
    }

    fn upsert(&self, key: &[u8], value: &[u8]) -> std::result::Result<Found<'_>, ItemError> {
        self.one(Operation::Upsert, |store| store.put(key, value), key, Some(value))
    }

    fn remove(&self, key: &[u8]) -> std::result::Result<Found<'_>, ItemError> {
        self.one(Operation::Remove, |store| store.remove(key), key, None)
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> std::result::Result<RecordExchange<'_>, ItemError> {
        check_limits(key, new.unwrap_or_default())?;
        if check_limits(key, expected.unwrap_or_default()).is_err() {
            // No value is that long.
            return Ok(Err(self.get(key)?));
        }
        let changed: Result<RecordExchange<'_>> = self.link.ask(
            Operation::CompareExchange,
            |store: &Store| Ok(store.compare_exchange(key, expected, new)?.map_err(shown)),
            |request| {
                request.bytes(key);
                request.maybe(expected, Write::bytes);
                request.maybe(new, Write::bytes);
            },
            |answer| {
                let mut words = read_answer(answer)?;
                let is_changed = words.flag()?;
                Ok(if is_changed { Ok(()) } else { Err(record(&mut words)?) })
            },
        );
        Ok(changed?)
    }

    fn get_many<'a>(&'a self, keys: &[&[u8]]) -> std::result::Result<Vec<Found<'a>>, ItemError> {
        let mut found = self.link.sights.many_bytes(keys).unwrap_or_default();
        found.resize(keys.len(), None);
        let asked = keys.iter().zip(&found).filter(|(_, found)| found.is_none());
        let asked: Vec<&[u8]> = asked.map(|(&key, _)| key).collect();
        let got = self.keys(Operation::GetMany, |store, keys| Ok(store.get_many(keys)?), &asked);
        let mut got = got.map_err(|part_way| part_way.into_error())?.into_iter();
        let all = found.into_iter().map(|found| match found {
            Some(copied) => copied.map(Record::copied),
            None => got.next().flatten(),
        });
        Ok(all.collect())
    }

    fn upsert_many<'a>(
        &'a self,
        pairs: &[Pair<'_>],
    ) -> std::result::Result<Vec<Found<'a>>, Unfinished<ItemError>> {
        self.pairs(Operation::UpsertMany, |store, pairs| store.put_many(pairs), pairs)
    }

    fn insert_many<'a>(
        &'a self,
        pairs: &[Pair<'_>],
    ) -> std::result::Result<Vec<Found<'a>>, Unfinished<ItemError>> {
        self.pairs(Operation::InsertMany, |store, pairs| store.insert_many(pairs), pairs)
    }

    fn update_many<'a>(
        &'a self,
        pairs: &[Pair<'_>],
    ) -> std::result::Result<Vec<Found<'a>>, Unfinished<ItemError>> {
        self.pairs(Operation::UpdateMany, |store, pairs| store.update_many(pairs), pairs)
    }

    fn remove_many<'a>(
        &'a self,
        keys: &[&[u8]],
    ) -> std::result::Result<Vec<Found<'a>>, Unfinished<ItemError>> {
        let own = |store: &'a Store, keys: &[&[u8]]| Ok(store.remove_many(keys)?);
        self.keys(Operation::RemoveMany, own, keys).map_err(|part_way| part_way.unfinished())
    }

    fn scan(&self) -> Box<dyn RecordScan + '_> {
        match self.link.owned::<Store>() {
            Some(store) => store.records().scan(),
            None => Box::new(GuestScan {
                scan: RemoteScan::new(&self.link),
                own: None,
                taken: VecDeque::new(),
                next: None,
                is_over: false,
            }),
        }
    }

    fn len(&self) -> u64 {
        self.link.len()
    }

    fn occupancy(&self) -> Occupancy {
        match self.link.owned::<Store>() {
            Some(store) => store.records().occupancy(),
            None => self.link.occupancy(),
        }
    }

    fn heap_use(&self) -> HeapUse {
        self.link.owned::<Store>().map_or_else(HeapUse::default, |own| own.records().heap_use())
    }

    fn check(&self) -> CheckReport {
        self.link.owned::<Store>().map_or_else(CheckReport::default, |own| own.records().check())
    }

    /// The owner makes it where it makes the change.
    fn make_room(&self, _key: &[u8], _value: &[u8]) {}

    fn compact(&self) -> Compacted {
        let freed = self.link.ask(
            Operation::Compact,
            |store: &Store| store.compact(),
            |_| {},
            |answer| Ok(read_answer(answer)?.word()?),
        );
        let freed = self.link.keep(freed);
        Compacted { freed_bytes: freed.unwrap_or(0), ..Compacted::default() }
    }

    /// It is the owner's to give.
    fn give_back(&self) -> u64 {
        0
    }

    fn settle(&self) {}

    fn shrink(&self) -> std::result::Result<Shrunk, index::Error> {
        Ok(if self.link.shrink()? { Shrunk::Halved } else { Shrunk::Kept })
    }

    fn scan_time(&self) -> Duration {
        Duration::ZERO
    }
}

struct GuestScan<'a> {
    scan: RemoteScan<'a>,
    /// Of a pool that this process has come to own when the scan was to begin.
    own: Option<Box<dyn RecordScan + 'a>>,
    taken: VecDeque<(Vec<u8>, Vec<u8>)>,
    next: Option<(Vec<u8>, Vec<u8>)>,
    is_over: bool,
}

impl RecordScan for GuestScan<'_> {
    fn next(&mut self) -> std::result::Result<Option<KeyValue<'_>>, ItemError> {
        if let Some(store) = self.scan.begin::<Store>()? {
            self.own = Some(store.records().scan());
        }
        if let Some(own) = &mut self.own {
            return own.next();
        }
        while self.taken.is_empty() && !self.is_over {
            let taken = &mut self.taken;
            let goes_on = self.scan.go_on::<Store>(|words| {
                taken.push_back((words.bytes()?.to_vec(), words.bytes()?.to_vec()));
                Ok(())
            });
            self.is_over = !goes_on?;
        }
        self.next = self.taken.pop_front();
        Ok(self.next.as_ref().map(|(key, value)| (&key[..], &value[..])))
    }
}
