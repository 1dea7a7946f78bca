//! A guest's cache.

use super::join::Guest;
use super::link::Link;
use super::part_way::PartWay;
use super::remote_scan::RemoteScan;
use super::serve_cache::{read_stats, write_end};
use super::store::record;
use super::wire::{Operation, Reader, Write, read_answer};
use crate::any_engine::AnyEngine;
use crate::cache::{CacheOperations, Demand, End, Entries, Owned};
use crate::store::Record;
use crate::{Cache, CacheStats, Error, Result};
use index::{CheckReport, Unfinished};
use std::sync::Arc;
use std::time::Duration;

/// A cache in another process.
struct GuestCache {
    link: Arc<Link>,
}

type Found<'a> = Option<Record<'a>>;

fn found<'a>(words: &mut Reader<'_>) -> Result<Found<'a>> {
    Ok(record(words)?.map(Record::new))
}

impl Guest for Cache {
    fn guest(link: Arc<Link>) -> AnyEngine<dyn CacheOperations> {
        let sights = Arc::clone(&link.sights);
        AnyEngine::of_guest(Box::new(GuestCache { link }), sights)
    }
}

impl GuestCache {
    /// An operation whose arguments are added to the key by `write`.
    fn one<'a, R>(
        &'a self,
        operation: Operation,
        own: impl FnOnce(&'a Cache) -> Result<R>,
        key: &[u8],
        write: impl FnOnce(&mut Vec<u64>),
        read: impl FnOnce(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        let write = |request: &mut Vec<u64>| {
            request.bytes(key);
            write(request);
        };
        self.link.ask(operation, own, write, |answer| read(&mut read_answer(answer)?))
    }
}

impl CacheOperations for GuestCache {
    fn get(&self, key: &[u8]) -> Result<Found<'_>> {
        self.one(Operation::Get, |cache| cache.get(key), key, |_| {}, found)
    }

    fn get_many<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Found<'a>>> {
        let own = |cache: &'a Cache, keys: &[&[u8]]| Ok(cache.get_many(keys)?);
        let write = |request: &mut Vec<u64>, key: &&[u8]| request.bytes(key);
        let got = self.link.batch(Operation::GetMany, own, keys, |key| key.len(), write, found);
        got.map_err(PartWay::into_error)
    }

    fn peek(&self, key: &[u8]) -> Result<Found<'_>> {
        self.one(Operation::Peek, |cache| cache.peek(key), key, |_| {}, found)
    }

    fn put(&self, key: &[u8], value: &[u8], end: End) -> Result<()> {
        let write = |request: &mut Vec<u64>| {
            request.bytes(value);
            write_end(request, end);
        };
        let own = |cache: &Cache| cache.put_to(key, value, end);
        self.one(Operation::PutUntil, own, key, write, |_| Ok(()))
    }

    fn put_if(&self, key: &[u8], value: &[u8], end: End, demand: Demand<'_>) -> Result<bool> {
        let expected = match demand {
            Demand::Nothing => return self.put(key, value, end).map(|()| true),
            Demand::Absent => None,
            Demand::Value(expected) => Some(expected),
        };
        let write = |request: &mut Vec<u64>| {
            request.bytes(value);
            write_end(request, end);
            request.maybe(expected, Write::bytes);
        };
        let own = |cache: &Cache| cache.put_if(key, value, end, demand);
        self.one(Operation::PutIf, own, key, write, |words| Ok(words.flag()?))
    }

    fn put_many(
        &self,
        pairs: &[(&[u8], &[u8])],
    ) -> std::result::Result<(), Unfinished<Box<Error>>> {
        let own = |cache: &Cache, pairs: &[(&[u8], &[u8])]| {
            cache.put_many(pairs)?;
            Ok(vec![(); pairs.len()])
        };
        let bytes = |(key, value): &(&[u8], &[u8])| key.len() + value.len();
        let write = |request: &mut Vec<u64>, (key, value): &(&[u8], &[u8])| {
            request.bytes(key);
            request.bytes(value);
        };
        let read = |words: &mut Reader<'_>| Ok(words.word().map(drop)?);
        let put = self.link.batch(Operation::PutMany, own, pairs, bytes, write, read);
        put.map(drop).map_err(PartWay::unfinished)
    }

    fn touch(&self, key: &[u8], end: End) -> Result<bool> {
        let own = |cache: &Cache| cache.touch_to(key, end);
        let write = |request: &mut Vec<u64>| write_end(request, end);
        self.one(Operation::Touch, own, key, write, |words| Ok(words.flag()?))
    }

    fn time_left(&self, key: &[u8]) -> Result<Option<Option<Duration>>> {
        let read = |words: &mut Reader<'_>| {
            let left_ms = words.maybe(|words| words.maybe(Reader::word))?;
            Ok(left_ms.map(|left_ms| left_ms.map(Duration::from_millis)))
        };
        self.one(Operation::TimeLeft, |cache| cache.time_left(key), key, |_| {}, read)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let read = |words: &mut Reader<'_>| Ok(words.flag()?);
        self.one(Operation::Remove, |cache| cache.remove(key), key, |_| {}, read)
    }

    fn remove_many(
        &self,
        keys: &[&[u8]],
    ) -> std::result::Result<Vec<bool>, Unfinished<Box<Error>>> {
        let own = |cache: &Cache, keys: &[&[u8]]| Ok(cache.remove_many(keys)?);
        let write = |request: &mut Vec<u64>, key: &&[u8]| request.bytes(key);
        let read = |words: &mut Reader<'_>| Ok(words.flag()?);
        let removed =
            self.link.batch(Operation::RemoveMany, own, keys, |key| key.len(), write, read);
        removed.map_err(PartWay::unfinished)
    }

    fn clear(&self) -> Result<()> {
        let read = |answer: &[u64]| read_answer(answer).map(drop);
        self.link.ask(Operation::Clear, |cache: &Cache| cache.clear(), |_| {}, read)
    }

    fn entries(&self) -> Box<dyn Entries + '_> {
        Box::new(GuestEntries { scan: RemoteScan::new(&self.link), own: None })
    }

    fn stats(&self) -> Result<CacheStats> {
        let read = |answer: &[u64]| Ok(read_stats(&mut read_answer(answer)?)?);
        self.link.ask(Operation::CacheFigures, |cache: &Cache| cache.stats(), |_| {}, read)
    }

    fn len(&self) -> u64 {
        self.link.len()
    }

    fn check(&self) -> CheckReport {
        self.link.owned::<Cache>().map_or_else(CheckReport::default, Cache::checked)
    }

    fn owned(self: Arc<Self>) -> Option<Arc<Owned>> {
        None
    }
}

struct GuestEntries<'a> {
    scan: RemoteScan<'a>,
    /// Of a pool that this process has come to own when the walk was to begin.
    own: Option<Box<dyn Entries + 'a>>,
}

impl Entries for GuestEntries<'_> {
    fn take_some(&mut self, entries: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<bool> {
        if let Some(cache) = self.scan.begin::<Cache>()? {
            self.own = Some(cache.entries());
        }
        match &mut self.own {
            Some(own) => own.take_some(entries),
            None => self.scan.go_on::<Cache>(|words| {
                entries.push((words.bytes()?.to_vec(), words.bytes()?.to_vec()));
                Ok(())
            }),
        }
    }
}
