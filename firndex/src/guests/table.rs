//! A guest's table.

use super::join::Guest;
use super::link::Link;
use super::part_way::PartWay;
use super::remote_scan::RemoteScan;
use super::seen::KEYS_AT_ONCE;
use super::wire::{
    BATCH_WORDS, Operation, Reader, Write, read_answer, read_batch_answer, words_of,
};
use crate::any_engine::AnyEngine;
use crate::word_types::of_word;
use crate::{BatchError, Error, Result, Table};
use index::{
    CheckReport, Done, Exchange, Fixed, Index, Occupancy, Scan, Shrunk, Unfinished, are_words,
};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A table in another process, as an engine is one in this.
struct GuestTable<K, V> {
    link: Arc<Link>,
    _pairs: PhantomData<fn(K) -> V>,
}

fn found<V: Fixed>(answer: &[u64]) -> Result<Option<V>> {
    Ok(read_answer(answer)?.maybe(Reader::fixed)?)
}

impl<K: Fixed, V: Fixed> Guest for Table<K, V> {
    fn guest(link: Arc<Link>) -> AnyEngine<dyn Index<K, V>> {
        let table = GuestTable { link, _pairs: PhantomData };
        let sights = Arc::clone(&table.link.sights);
        AnyEngine::of_guest(Box::new(table), sights)
    }
}

impl<K: Fixed, V: Fixed> GuestTable<K, V> {
    /// A change of one key.
    fn change(
        &self,
        operation: Operation,
        own: impl FnOnce(&Table<K, V>) -> Result<Option<V>>,
        key: K,
        value: Option<V>,
    ) -> std::result::Result<Option<V>, index::Error> {
        let write = |request: &mut Vec<u64>| {
            request.fixed(key);
            if let Some(value) = value {
                request.fixed(value);
            }
        };
        Ok(self.link.ask(operation, own, write, found)?)
    }

    /// A batch, in parts of which each goes through a lane at once.
    fn batch<E>(
        &self,
        operation: Operation,
        own: impl Fn(&Table<K, V>, &[E], &mut [Option<V>]) -> std::result::Result<(), PartWay>,
        entries: &[E],
        out: &mut [Option<V>],
        write: impl Fn(&mut Vec<u64>, &E),
    ) -> std::result::Result<(), Unfinished<index::Error>> {
        let count = (BATCH_WORDS / (1 + words_of::<K>() + words_of::<V>())).max(1);
        let mut before = 0;
        for (entries, out) in entries.chunks(count).zip(out.chunks_mut(count)) {
            let found = RefCell::new(vec![None; entries.len()]);
            let asked = self.link.ask(
                operation,
                |table| own(table, entries, &mut found.borrow_mut()),
                |request| {
                    request.push(entries.len() as u64);
                    entries.iter().for_each(|entry| write(request, entry));
                },
                |answer| read_batch(answer, &mut found.borrow_mut()),
            );
            let done = match &asked {
                Ok(()) => Done::first(entries.len()),
                Err(part_way) => part_way.done(),
            };
            let found = found.into_inner().into_iter().zip(out).enumerate();
            found.filter(|(at, _)| done.contains(*at)).for_each(|(_, (found, out))| *out = found);
            asked.map_err(|part_way| part_way.after(before).unfinished())?;
            before += entries.len();
        }
        Ok(())
    }

    /// Look-ups of words without the owner; the numbers of those that are left to ask.
    fn see_many(&self, keys: &[K], out: &mut [Option<V>]) -> Vec<usize> {
        let mut unseen = Vec::new();
        let chunks = keys.chunks(KEYS_AT_ONCE).zip(out.chunks_mut(KEYS_AT_ONCE));
        for (nth, (keys, out)) in chunks.enumerate() {
            let (mut words, mut found) = ([0; KEYS_AT_ONCE], [None; KEYS_AT_ONCE]);
            for (word, key) in words.iter_mut().zip(keys) {
                *word = key.word(0);
            }
            let (words, found) = (&words[..keys.len()], &mut found[..keys.len()]);
            let is_seen = self.link.sights.words(words, found).is_some();
            for (at, (found, out)) in found.iter().zip(out).enumerate() {
                match found.filter(|_| is_seen) {
                    Some(value) => *out = value.map(of_word),
                    None => unseen.push(nth * KEYS_AT_ONCE + at),
                }
            }
        }
        unseen
    }

    fn ask_many(&self, keys: &[K], out: &mut [Option<V>]) {
        let own = |table: &Table<K, V>, keys: &[K], out: &mut [Option<V>]| {
            Ok(table.get_many_into(keys, out)?)
        };
        let got =
            self.batch(Operation::GetMany, own, keys, out, |request, &key| request.fixed(key));
        self.link.keep(got.map_err(|unfinished| unfinished.error.into()));
    }

    fn pairs(
        &self,
        operation: Operation,
        own: impl Fn(&Table<K, V>, &[(K, V)], &mut [Option<V>]) -> std::result::Result<(), BatchError>,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> std::result::Result<(), Unfinished<index::Error>> {
        let own = |table: &Table<K, V>, pairs: &[(K, V)], out: &mut [Option<V>]| {
            Ok(own(table, pairs, out)?)
        };
        self.batch(operation, own, pairs, out, |request, &(key, value)| {
            request.fixed(key);
            request.fixed(value);
        })
    }
}

/// What a batch has found, also if it failed part-way.
fn read_batch<V: Fixed>(
    answer: &[u64],
    found: &mut [Option<V>],
) -> std::result::Result<(), PartWay> {
    let (mut words, part_way) = read_batch_answer(answer, found.len());
    let ended = part_way.map_or(Ok(()), Err);
    if ended.is_ok() || !words.is_over() {
        for value in found {
            *value = words.maybe(Reader::fixed).map_err(Error::from)?;
        }
    }
    ended
}

impl<K: Fixed, V: Fixed> Index<K, V> for GuestTable<K, V> {
    fn get(&self, key: K) -> Option<V> {
        let got = self.link.ask(
            Operation::Get,
            |table: &Table<K, V>| table.get(key),
            |request| request.fixed(key),
            found,
        );
        self.link.keep(got).flatten()
    }

    fn insert(&self, key: K, value: V) -> std::result::Result<Option<V>, index::Error> {
        self.change(Operation::Insert, |table| table.insert(key, value), key, Some(value))
    }

    fn update(&self, key: K, value: V) -> std::result::Result<Option<V>, index::Error> {
        self.change(Operation::Update, |table| table.update(key, value), key, Some(value))
    }

    fn upsert(&self, key: K, value: V) -> std::result::Result<Option<V>, index::Error> {
        self.change(Operation::Upsert, |table| table.put(key, value), key, Some(value))
    }

    fn remove(&self, key: K) -> std::result::Result<Option<V>, index::Error> {
        self.change(Operation::Remove, |table| table.remove(key), key, None)
    }

    fn compare_exchange(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> std::result::Result<Exchange<V>, index::Error> {
        let changed: Result<Exchange<V>> = self.link.ask(
            Operation::CompareExchange,
            |table: &Table<K, V>| table.compare_exchange(key, expected, new),
            |request| {
                request.fixed(key);
                request.maybe(expected, Write::fixed);
                request.maybe(new, Write::fixed);
            },
            |answer| {
                let mut words = read_answer(answer)?;
                let is_changed = words.flag()?;
                Ok(if is_changed { Ok(()) } else { Err(words.maybe(Reader::fixed)?) })
            },
        );
        Ok(changed?)
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        if const { !are_words::<K, V>() } {
            return self.ask_many(keys, out);
        }
        let unseen = self.see_many(keys, out);
        if unseen.len() == keys.len() {
            return self.ask_many(keys, out);
        }
        let asked: Vec<K> = unseen.iter().map(|&at| keys[at]).collect();
        let mut found = vec![None; asked.len()];
        self.ask_many(&asked, &mut found);
        unseen.into_iter().zip(found).for_each(|(at, found)| out[at] = found);
    }

    fn insert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> std::result::Result<(), Unfinished<index::Error>> {
        self.pairs(Operation::InsertMany, Table::insert_many_into, pairs, out)
    }

    fn update_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> std::result::Result<(), Unfinished<index::Error>> {
        self.pairs(Operation::UpdateMany, Table::update_many_into, pairs, out)
    }

    fn upsert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> std::result::Result<(), Unfinished<index::Error>> {
        self.pairs(Operation::UpsertMany, Table::put_many_into, pairs, out)
    }

    fn remove_many(
        &self,
        keys: &[K],
        out: &mut [Option<V>],
    ) -> std::result::Result<(), Unfinished<index::Error>> {
        let own = |table: &Table<K, V>, keys: &[K], out: &mut [Option<V>]| {
            Ok(table.remove_many_into(keys, out)?)
        };
        self.batch(Operation::RemoveMany, own, keys, out, |request, &key| request.fixed(key))
    }

    fn compare_exchange_many(
        &self,
        changes: &[(K, Option<V>, Option<V>)],
        out: &mut [Option<V>],
    ) -> std::result::Result<(), Unfinished<index::Error>> {
        for (at, (&(key, expected, new), out)) in changes.iter().zip(out).enumerate() {
            let changed = self.compare_exchange(key, expected, new);
            *out = match changed.map_err(|error| Unfinished::at(at, error))? {
                Ok(()) => expected,
                Err(found) => found,
            };
        }
        Ok(())
    }

    fn scan(&self) -> Box<dyn Scan<K, V> + '_> {
        match self.link.owned::<Table<K, V>>() {
            Some(table) => table.index().scan(),
            None => Box::new(GuestScan { scan: RemoteScan::new(&self.link), own: None }),
        }
    }

    fn for_each_on(&self, _threads: usize, visit: &(dyn Fn(K, V) -> ControlFlow<()> + Sync)) {
        let mut scan = self.scan();
        let mut pairs = Vec::new();
        let mut goes_on = true;
        while goes_on {
            let taken = self.link.keep(scan.take_some(&mut pairs).map_err(Error::from));
            goes_on = taken == Some(true);
            if pairs.drain(..).any(|(key, value)| visit(key, value).is_break()) {
                return;
            }
        }
    }

    fn len(&self) -> u64 {
        self.link.len()
    }

    fn occupancy(&self) -> Occupancy {
        match self.link.owned::<Table<K, V>>() {
            Some(table) => table.index().occupancy(),
            None => self.link.occupancy(),
        }
    }

    fn check(&self) -> CheckReport {
        self.link
            .owned::<Table<K, V>>()
            .map_or_else(CheckReport::default, |own| own.index().check())
    }

    fn settle(&self) {}

    fn shrink(&self) -> std::result::Result<Shrunk, index::Error> {
        Ok(if self.link.shrink()? { Shrunk::Halved } else { Shrunk::Kept })
    }

    fn scan_time(&self) -> Duration {
        Duration::ZERO
    }
}

struct GuestScan<'a, K, V> {
    scan: RemoteScan<'a>,
    /// Of a pool that this process has come to own when the scan was to begin.
    own: Option<Box<dyn Scan<K, V> + 'a>>,
}

impl<K: Fixed, V: Fixed> Scan<K, V> for GuestScan<'_, K, V> {
    fn take_some(&mut self, pairs: &mut Vec<(K, V)>) -> std::result::Result<bool, index::Error> {
        if let Some(table) = self.scan.begin::<Table<K, V>>()? {
            self.own = Some(table.index().scan());
        }
        if let Some(own) = &mut self.own {
            return own.take_some(pairs);
        }
        Ok(self.scan.go_on::<Table<K, V>>(|words| {
            pairs.push((words.fixed()?, words.fixed()?));
            Ok(())
        })?)
    }
}
