//! Power failures in the middle of changes of packed pairs.

use super::packed::Bytes;
use super::{Fresh, Kind, Table};
use crate::common::{Image, Watched, Watcher};
use pmem::medium::{Dram, MediumKind};
use pmem::{LINE, Offset, SpaceError};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use workload::Random;

/// What was done to the medium, by one thread.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    Store(Offset, u64),
    Flush(Offset),
    Fence,
    Grow(u64),
}

/// Anonymous memory that remembers what was done to it.
pub(crate) type Remembering = Watched<Entries>;

/// What a [`Remembering`] remembers.
#[derive(Default)]
pub(crate) struct Entries(Mutex<Vec<Entry>>);

impl Fresh for Remembering {
    fn fresh() -> Self {
        Watched::new(Dram::fresh(), Entries::default())
    }
}

impl Entries {
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Entries {
    const KIND: MediumKind = MediumKind::Dax;

    fn store<E>(
        &self,
        at: Offset,
        value: u64,
        store: impl FnOnce() -> Result<u64, E>,
    ) -> Result<u64, E> {
        let found = store()?;
        self.all().push(Entry::Store(at, value));
        Ok(found)
    }

    fn before_flush(&self, at: Offset) {
        self.all().push(Entry::Flush(at));
    }

    fn before_fence(&self) {
        self.all().push(Entry::Fence);
    }

    fn grow(&self, grow: impl FnOnce() -> Result<u64, SpaceError>) -> Result<(), SpaceError> {
        let size = grow()?;
        self.all().push(Entry::Grow(size));
        Ok(())
    }
}

/// What is certain to stay of a pool, and the stores that are not, by line.
#[derive(Default)]
pub(crate) struct Lines {
    certain: Image,
    pending: BTreeMap<u64, Vec<(Offset, u64)>>,
    /// Lines that were flushed, with how many of their pending stores then were.
    flushed: BTreeMap<u64, usize>,
}

impl Lines {
    pub(crate) fn apply(&mut self, entry: Entry) {
        let line_of = |at: Offset| at.0 / LINE;
        match entry {
            Entry::Store(at, value) => {
                self.pending.entry(line_of(at)).or_default().push((at, value));
            }
            Entry::Flush(at) => {
                let line = line_of(at);
                let count = self.pending.get(&line).map_or(0, Vec::len);
                self.flushed.insert(line, count);
            }
            Entry::Fence => {
                for (line, count) in std::mem::take(&mut self.flushed) {
                    let pending = self.pending.entry(line).or_default();
                    for (at, value) in pending.drain(..count) {
                        self.certain.store(at, value);
                    }
                }
            }
            Entry::Grow(size) => self.certain.grow(size),
        }
    }

    /// What a power failure now may leave: of each line a beginning of its stores.
    pub(crate) fn image(&self, random: &mut Random) -> Image {
        let mut image = self.certain.clone();
        for pending in self.pending.values() {
            let kept = random.below(pending.len() as u64 + 1) as usize;
            for &(at, value) in &pending[..kept] {
                image.store(at, value);
            }
        }
        image
    }
}

/// A change of one key's state, and where in the journal it began and had returned.
struct Change<const K: usize, const V: usize> {
    key: Bytes<K>,
    after: Option<Bytes<V>>,
    entries: Range<usize>,
}

/// A table that has seen some changes, with them.
type Changed<E, const K: usize, const V: usize> =
    (Table<E, Remembering, Bytes<K>, Bytes<V>>, Vec<Change<K, V>>);

fn change<E: Kind, const K: usize, const V: usize>(
    shape: E::Shape,
    count: u64,
) -> Changed<E, K, V> {
    let table = Table::<E, Remembering, Bytes<K>, Bytes<V>>::new(shape, 0.9);
    let mut random = Random::new(K as u64);
    let mut changes = Vec::new();
    let length = || table.pool.medium().watcher.all().len();
    for round in 0..count {
        let key = Bytes::of(random.below(8 + round / 4));
        let value = Bytes::of(random.below(1 << 20));
        let start = length();
        let after = match random.below(5) {
            0 => {
                table.remove(key);
                None
            }
            1 | 2 => {
                let there = table.insert(key, value).expect("the table grows");
                there.or(Some(value))
            }
            3 => table.update(key, value).map(|_| value),
            _ => {
                table.upsert(key, value);
                Some(value)
            }
        };
        changes.push(Change { key, after, entries: start..length() });
        if round == count * 3 / 4 {
            // Not too full any more: what follows happens in a smaller table.
            table.shrink();
        }
    }
    (table, changes)
}

/// Whatever a power failure leaves, what had returned is there, and what had not is whole or not
/// there.
pub(crate) fn survives<E: Kind, const K: usize, const V: usize>(
    shape: E::Shape,
    count: u64,
    percent: u64,
) {
    let (table, changes) = change::<E, K, V>(shape, count);
    let entries = table.pool.medium().watcher.all().clone();
    let mut lines = Lines::default();
    let mut random = Random::new(V as u64);
    let (mut returned, mut next, mut tried) = (HashMap::new(), 0, 0);
    for (done, entry) in entries.iter().enumerate() {
        while next < changes.len() && changes[next].entries.end <= done {
            returned.insert(changes[next].key, changes[next].after);
            next += 1;
        }
        let begun = changes.first().is_some_and(|first| done >= first.entries.start);
        if begun && random.percent(percent) {
            tried += 1;
            let again = table.recovered(&lines.image(&mut random));
            let under_way = changes.get(next).filter(|change| change.entries.start < done);
            let mut pairs = 0;
            for number in 0..8 + count / 4 {
                let key = Bytes::of(number);
                let found = again.get(key);
                let before = returned.get(&key).copied().flatten();
                let is_possible = found == before
                    || under_way.is_some_and(|change| change.key == key && found == change.after);
                assert!(is_possible, "entry {done}, {key:?}: {found:?}, not {before:?}");
                pairs += u64::from(found.is_some());
            }
            again.settle();
            again.assert_sound(pairs);
            let twice = table.recovered(&again.image());
            twice.assert_sound(pairs);
        }
        lines.apply(*entry);
    }
    assert!(tried > 50, "only {tried} moments were tried");
}
