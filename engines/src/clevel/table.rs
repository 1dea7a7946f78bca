//! The table as an [`Index`] of fixed-size pairs: their bytes are the keys and values of items.

use super::Clevel;
use super::ops::{Changed, Decide};
use super::scan::TagScan;
use super::search::Hit;
use crate::Settings;
use crate::sizes::check_sizes;
use index::{
    Change, CheckReport, Error, Exchange, Fixed, Index, Occupancy, Records, Scan, Shrunk,
    Unfinished, are_words,
};
use pmem::epoch::Guard;
use pmem::heap::{Compacted, HeapUse, Item};
use pmem::sync::{Part, run_parts};
use pmem::{Medium, OpenError, Pool, WORD};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a key or value that are put together without an allocation.
const INLINE_BYTES: usize = 64;

/// An open Clevel hash table of pairs.
pub struct ClevelTable<M: Medium, K: Fixed = u64, V: Fixed = u64> {
    table: Clevel<M>,
    pair: PhantomData<fn() -> (K, V)>,
}

/// The bytes of a key or value.
struct Bytes {
    inline: [u8; INLINE_BYTES],
    long: Vec<u8>,
    len: usize,
}

impl Bytes {
    #[inline(always)]
    fn of<T: Fixed>(value: T) -> Bytes {
        let mut bytes =
            Bytes { inline: [0; INLINE_BYTES], long: Vec::new(), len: T::layout_bytes() };
        let words = T::layout_bytes().div_ceil(WORD as usize);
        if T::layout_bytes() > INLINE_BYTES {
            for index in 0..words {
                bytes.long.extend_from_slice(&value.word(index).to_le_bytes());
            }
        } else {
            let (chunks, _) = bytes.inline.as_chunks_mut::<{ WORD as usize }>();
            for (index, chunk) in chunks.iter_mut().enumerate().take(words) {
                *chunk = value.word(index).to_le_bytes();
            }
        }
        bytes
    }

    #[inline(always)]
    fn get(&self) -> &[u8] {
        if self.len > INLINE_BYTES { &self.long[..self.len] } else { &self.inline[..self.len] }
    }
}

/// The value that these bytes are. What a damaged pool has too few of counts as zeros.
#[inline(always)]
fn value_of<T: Fixed>(bytes: &[u8]) -> T {
    T::of_words(|index| {
        let mut word = [0; WORD as usize];
        let rest = bytes.get(index * word.len()..).unwrap_or_default();
        let len = rest.len().min(word.len());
        word[..len].copy_from_slice(&rest[..len]);
        u64::from_le_bytes(word)
    })
}

fn value_in<V: Fixed>(item: Option<Item<'_>>) -> Option<V> {
    item.map(|item| value_of(item.value))
}

impl<M: Medium, K: Fixed, V: Fixed> ClevelTable<M, K, V> {
    /// Opens the table in `pool`; as [`Clevel::open`].
    pub fn open(pool: Arc<Pool<M>>, settings: Settings) -> Result<Self, OpenError> {
        check_sizes::<K, V>(&pool.superblock())?;
        Ok(ClevelTable { table: Clevel::open(pool, settings)?, pair: PhantomData })
    }

    /// The table as what it is: byte strings.
    pub fn records(&self) -> &Clevel<M> {
        &self.table
    }

    fn change<'v>(&self, key: K, decide: &Decide<'_, 'v>) -> Result<(Option<V>, bool), Error> {
        let core = &self.table.core;
        let key = Bytes::of(key);
        let (changed, _guard) = core.change(core.hash(key.get()), key.get(), decide)?;
        Ok((value_in(changed.before), changed.is_done))
    }

    fn change_many<T>(
        &self,
        entries: &[T],
        out: &mut [Option<V>],
        bytes_of: impl Fn(&T) -> Entry,
        decide: impl for<'v> Fn(&'v Entry, Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> Result<(), Unfinished<Error>> {
        let entries: Vec<Entry> = entries.iter().map(bytes_of).collect();
        let puts = entries.iter().any(|entry| entry.new.is_some());
        let len = out.len();
        let mut out = out.iter_mut();
        let mut answer = |(changed, _): (Changed<'_>, Guard<'_>)| {
            if let Some(out) = out.next() {
                *out = value_in(changed.before);
            }
        };
        let (core, key_of) = (&self.table.core, key_of_entry);
        let changed = if const { are_words::<K, V>() } {
            core.change_many(&entries, key_of, puts, decide, answer)
        } else {
            core.change_many(
                &entries,
                key_of,
                puts,
                &decide as &DecideEntry,
                &mut answer as &mut dyn FnMut((Changed<'_>, Guard<'_>)),
            )
        };
        // Those that were answered took effect.
        changed.map_err(|error| Unfinished::at(len - out.len(), error))
    }
}

/// What a batch makes of the value that an entry finds. Behind it batches are compiled once for all types
/// but words, which are many in one program.
type DecideEntry<'d> = dyn for<'e> Fn(&'e Entry, Option<&[u8]>) -> Change<&'e [u8]> + 'd;

fn key_of_entry(entry: &Entry) -> &[u8] {
    entry.key.get()
}

/// One entry of a batch, as bytes.
struct Entry {
    key: Bytes,
    expected: Option<Bytes>,
    new: Option<Bytes>,
}

impl Entry {
    fn new<K: Fixed, V: Fixed>(key: K, expected: Option<V>, new: Option<V>) -> Entry {
        Entry { key: Bytes::of(key), expected: expected.map(Bytes::of), new: new.map(Bytes::of) }
    }

    fn value(&self) -> &[u8] {
        self.new.as_ref().map(Bytes::get).unwrap_or_default()
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Index<K, V> for ClevelTable<M, K, V> {
    fn get(&self, key: K) -> Option<V> {
        let core = &self.table.core;
        let key = Bytes::of(key);
        let guard = core.epochs.pin();
        // An item that cannot be read, in a damaged pool, is none; `check` tells of it.
        let hit = core.search(core.hash(key.get()), key.get(), &guard).ok()?;
        value_in(hit.map(|hit| hit.item))
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        let value = Bytes::of(value);
        Ok(self.change(key, &|found| Change::if_absent(found, value.get()))?.0)
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        let value = Bytes::of(value);
        Ok(self.change(key, &|found| Change::if_present(found, value.get()))?.0)
    }

    fn upsert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        let value = Bytes::of(value);
        Ok(self.change(key, &|_| Change::Put(value.get()))?.0)
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        Ok(self.change(key, &|_| Change::Remove)?.0)
    }

    fn compare_exchange(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Exchange<V>, Error> {
        let (expected, new) = (expected.map(Bytes::of), new.map(Bytes::of));
        let decide = |found: Option<&[u8]>| {
            let is_expected = found == expected.as_ref().map(Bytes::get);
            Change::if_expected(is_expected, new.as_ref().map(Bytes::get))
        };
        let (found, is_done) = self.change(key, &decide)?;
        Ok(if is_done { Ok(()) } else { Err(found) })
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        let core = &self.table.core;
        let guard = core.epochs.pin();
        let keys: Vec<Bytes> = keys.iter().map(|&key| Bytes::of(key)).collect();
        out.fill(None);
        let mut out = out.iter_mut();
        let mut answer = |_: &Bytes, hit: Option<Hit<'_>>| {
            if let Some(out) = out.next() {
                *out = value_in(hit.map(|hit| hit.item));
            }
        };
        // As in `get`.
        let _ = if const { are_words::<K, V>() } {
            core.search_many(&keys, Bytes::get, &guard, answer)
        } else {
            let answer = &mut answer as &mut dyn FnMut(&Bytes, Option<Hit<'_>>);
            core.search_many(&keys, Bytes::get, &guard, answer)
        };
    }

    fn insert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        self.change_many(
            pairs,
            out,
            |&(key, value)| Entry::new(key, None, Some(value)),
            |entry, found| Change::if_absent(found, entry.value()),
        )
    }

    fn update_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        self.change_many(
            pairs,
            out,
            |&(key, value)| Entry::new(key, None, Some(value)),
            |entry, found| Change::if_present(found, entry.value()),
        )
    }

    fn upsert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        self.change_many(
            pairs,
            out,
            |&(key, value)| Entry::new(key, None, Some(value)),
            |entry, _| Change::Put(entry.value()),
        )
    }

    fn remove_many(&self, keys: &[K], out: &mut [Option<V>]) -> Result<(), Unfinished<Error>> {
        self.change_many(
            keys,
            out,
            |&key| Entry::new::<K, V>(key, None, None),
            |_, _| Change::Remove,
        )
    }

    fn compare_exchange_many(
        &self,
        changes: &[(K, Option<V>, Option<V>)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        self.change_many(
            changes,
            out,
            |&(key, expected, new)| Entry::new(key, expected, new),
            |entry, found| {
                let expected = entry.expected.as_ref().map(Bytes::get);
                Change::if_expected(found == expected, entry.new.as_ref().map(Bytes::get))
            },
        )
    }

    fn scan(&self) -> Box<dyn Scan<K, V> + '_> {
        Box::new(PairScan(TagScan::new(&self.table.core, 0, 1)))
    }

    fn for_each_on(&self, threads: usize, visit: &(dyn Fn(K, V) -> ControlFlow<()> + Sync)) {
        let part = |part| {
            Box::new(move || {
                let mut scan = TagScan::new(&self.table.core, part, threads);
                let mut visited = ControlFlow::Continue(());
                while visited.is_continue() {
                    match scan.next_item() {
                        Ok(Some(item)) => visited = visit(value_of(item.key), value_of(item.value)),
                        Ok(None) => break,
                        Err(_) => {}
                    }
                }
            }) as Part<'_>
        };
        run_parts((0..threads).map(part).collect());
    }

    fn len(&self) -> u64 {
        self.table.len()
    }

    fn occupancy(&self) -> Occupancy {
        self.table.occupancy()
    }

    fn heap_use(&self) -> HeapUse {
        self.table.heap_use()
    }

    fn compact(&self) -> Compacted {
        self.table.core.compact()
    }

    fn give_back(&self) -> u64 {
        self.table.core.heap.give_back()
    }

    fn check(&self) -> CheckReport {
        self.table.check()
    }

    fn settle(&self) {
        self.table.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        self.table.shrink()
    }

    fn scan_time(&self) -> Duration {
        self.table.scan_time()
    }

    #[cfg(feature = "simulated")]
    fn expect_help(&self) {
        self.table.expect_help();
    }

    #[cfg(feature = "simulated")]
    fn help(&self) {
        self.table.help();
    }
}

impl<M: Medium, K: Fixed, V: Fixed> std::fmt::Debug for ClevelTable<M, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClevelTable").field("table", &self.table).finish()
    }
}

/// A scan of the pairs that the items of a table stand for.
struct PairScan<'a, M: Medium>(TagScan<'a, M>);

impl<M: Medium, K: Fixed, V: Fixed> Scan<K, V> for PairScan<'_, M> {
    fn take_some(&mut self, pairs: &mut Vec<(K, V)>) -> Result<bool, Error> {
        let Some(item) = self.0.next_item()? else { return Ok(false) };
        pairs.push((value_of(item.key), value_of(item.value)));
        Ok(true)
    }
}
