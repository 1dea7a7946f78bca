//! Power failures in the middle of changes of packed pairs, which share words with each other and
//! lie across lines. (What a power failure may leave of two-word pairs, on any number of threads,
//! is crashlab's.)

use crate::harness::{Fresh, Random, Table, shape};
use crate::sizes::Bytes;
use engines::level::{Design, Shape};
use pmem::medium::{Dram, Medium, MediumKind};
use pmem::{LINE, Offset, SpaceError, WORD};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was done to the medium, by one thread.
#[derive(Clone, Copy)]
enum Entry {
    Store(Offset, u64),
    Flush(Offset),
    Fence,
    Grow(u64),
}

/// Anonymous memory that remembers what was done to it.
pub(crate) struct Remembering {
    inner: Dram,
    entries: Mutex<Vec<Entry>>,
}

impl Fresh for Remembering {
    fn fresh() -> Self {
        Remembering { inner: Dram::fresh(), entries: Mutex::default() }
    }
}

impl Remembering {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is certain to stay of a pool, and the stores that are not, by line.
#[derive(Default)]
struct Lines {
    certain: Vec<u64>,
    pending: BTreeMap<u64, Vec<(Offset, u64)>>,
    /// Lines that were flushed, with how many of their pending stores then were.
    flushed: BTreeMap<u64, usize>,
}

impl Lines {
    fn apply(&mut self, entry: Entry) {
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
                        self.certain[(at.0 / WORD) as usize] = value;
                    }
                }
            }
            Entry::Grow(size) => self.certain.resize((size / WORD) as usize, 0),
        }
    }

    /// What a power failure now may leave: of each line a beginning of its stores.
    fn image(&self, random: &mut Random) -> Vec<u64> {
        let mut image = self.certain.clone();
        for pending in self.pending.values() {
            let kept = random.below(pending.len() as u64 + 1) as usize;
            for &(at, value) in &pending[..kept] {
                image[(at.0 / WORD) as usize] = value;
            }
        }
        image
    }
}

impl Medium for Remembering {
    fn kind(&self) -> MediumKind {
        MediumKind::Dax
    }

    fn load(&self, at: Offset) -> u64 {
        self.inner.load(at)
    }

    fn store(&self, at: Offset, value: u64) {
        self.inner.store(at, value);
        self.entries().push(Entry::Store(at, value));
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.inner.store_release(at, value);
        self.entries().push(Entry::Store(at, value));
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.inner.compare_exchange(at, current, new)?;
        self.entries().push(Entry::Store(at, new));
        Ok(found)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        self.inner.load_pair(at)
    }

    fn prefetch(&self, at: Offset) {
        self.inner.prefetch(at);
    }

    fn prefetch_write(&self, at: Offset) {
        self.inner.prefetch_write(at);
    }

    fn flush(&self, at: Offset) {
        self.entries().push(Entry::Flush(at));
    }

    fn fence(&self) {
        self.entries().push(Entry::Fence);
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        panic!("{} bytes copied to {at}: not remembered, and no table does that", bytes.len());
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> &[u8] {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.bytes(at, len) }
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn limit(&self) -> u64 {
        self.inner.limit()
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        self.inner.grow(size)?;
        self.entries().push(Entry::Grow(self.inner.size()));
        Ok(())
    }

    fn populate(&self, range: Range<u64>) {
        self.inner.populate(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.sync(range)
    }
}

/// A change of one key's state, and where in the journal it began and had returned.
struct Change<const K: usize, const V: usize> {
    key: Bytes<K>,
    after: Option<Bytes<V>>,
    entries: Range<usize>,
}

/// A table that has seen some changes, with them.
type Changed<const K: usize, const V: usize> =
    (Table<Remembering, Bytes<K>, Bytes<V>>, Vec<Change<K, V>>);

fn change<const K: usize, const V: usize>(shape: Shape, count: u64) -> Changed<K, V> {
    let table = Table::<Remembering, Bytes<K>, Bytes<V>>::new(shape, 0.9);
    let mut random = Random(K as u64);
    let mut changes = Vec::new();
    let length = || table.pool.medium().entries().len();
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
fn survives<const K: usize, const V: usize>(shape: Shape, count: u64, every: usize) {
    let (table, changes) = change::<K, V>(shape, count);
    let entries = table.pool.medium().entries().clone();
    let mut lines = Lines::default();
    let mut random = Random(V as u64);
    let (mut returned, mut next, mut tried) = (HashMap::new(), 0, 0);
    for (done, entry) in entries.iter().enumerate() {
        while next < changes.len() && changes[next].entries.end <= done {
            returned.insert(changes[next].key, changes[next].after);
            next += 1;
        }
        let begun = changes.first().is_some_and(|first| done >= first.entries.start);
        if begun && random.below(every as u64) == 0 {
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

fn survive_by_every_design<const K: usize, const V: usize>(slots: u32) {
    let all = Design::default();
    let moved = Design { in_place_update: false, ..all };
    let logged = Design { log_free_update: false, ..moved };
    for design in [all, moved, logged] {
        survives::<K, V>(Shape { design, ..shape(slots, 1) }, 400, 24);
    }
}

#[test]
fn packed_pairs_survive_a_power_failure_anywhere() {
    survive_by_every_design::<16, 15>(4);
    survive_by_every_design::<3, 5>(4);
    survive_by_every_design::<4, 8>(5);
    survive_by_every_design::<24, 100>(4);
}
