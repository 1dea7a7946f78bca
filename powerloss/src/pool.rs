//! A pool, changed by threads whose operations follow from their numbers, so that what a pool holds says how far each
//! thread had come.
//!
//! A thread goes round and round its keys. In three rounds of four it puts all of them. In the fourth it removes every
//! other batch of them. The value that operation `n` puts says `n`, and how many operations of the next thread had
//! returned before it began. A state is consistent if some number of operations of each thread explains it, and if no
//! value has seen more of the other thread than is there.

use crate::mappings::ensure_map_sync;
use crate::notes::Notes;
use anyhow::{Context, Result, ensure};
use firndex::{Durability, Engine, Kind, Medium, Options, Store, Table};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use workload::Random;

/// Name of the pool file.
const FILE: &str = "pool.firn";
/// Threads that write to a pool.
pub(crate) const THREADS: usize = 2;
/// A thread asks for durability after at most so many operations.
const OPERATIONS_PER_SYNC_MAX: u64 = 3000;
/// A pool is closed and opened again after at most so many acknowledgements of a thread.
const ACKNOWLEDGEMENTS_MAX: u64 = 1000;
/// On `dax` operations are fast, and each is acknowledged.
const DAX_ACKNOWLEDGEMENTS_MAX: u64 = 20_000;
/// A thread goes round its keys so often before all begins anew. In the last lap it removes.
const LAPS: u64 = 4;
/// How old the durable state becomes by itself.
const INTERVAL: Duration = Duration::from_millis(5);
/// Log after which a checkpoint is made: as little as can be, for as many as can be.
const CHECKPOINT_AT_BYTES: u64 = 1 << 20;

/// What the pool is, and how it is changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    pub(crate) kind: Kind,
    pub(crate) medium: Medium,
    /// On `dax` it says only when operations are acknowledged.
    pub(crate) durability: Durability,
    /// Keys of a thread, a multiple of the operations of a batch.
    pub(crate) keys: u64,
    /// Operations of one call.
    pub(crate) batch: u64,
}

/// Where the pool in a directory is.
pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// What operation `number` put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    number: u64,
    /// Operations of the next thread that had returned before.
    seen: u64,
}

impl Value {
    fn word(self) -> u64 {
        self.number | self.seen << 32
    }

    fn of_word(word: u64) -> Value {
        Value { number: word & 0xffff_ffff, seen: word >> 32 }
    }

    /// Of many lengths, so that a store uses many size classes.
    fn bytes(self) -> Vec<u8> {
        let mut bytes = self.word().to_le_bytes().to_vec();
        let words = workload::mix(self.number) % 64;
        bytes.extend((0..words).flat_map(|word| workload::mix(self.word() ^ word).to_le_bytes()));
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Result<Value> {
        let word = bytes.first_chunk().context("a value is cut")?;
        let value = Value::of_word(u64::from_le_bytes(*word));
        ensure!(bytes == value.bytes(), "a value is damaged: {bytes:x?}");
        Ok(value)
    }
}

fn key(thread: usize, slot: u64) -> u64 {
    (thread as u64) << 32 | slot
}

/// A pool of either kind.
enum Opened {
    Table(Table),
    Store(Store),
}

impl Opened {
    fn put(&self, pairs: &[(u64, Value)]) -> Result<()> {
        match (self, pairs) {
            (Opened::Table(table), [(key, value)]) => drop(table.put(*key, value.word())?),
            (Opened::Table(table), _) => {
                let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, value.word())).collect();
                table.put_many(&pairs)?;
            }
            (Opened::Store(store), [(key, value)]) => {
                store.put(key.to_le_bytes(), value.bytes())?;
            }
            (Opened::Store(store), _) => {
                let pairs: Vec<_> =
                    pairs.iter().map(|(key, value)| (key.to_le_bytes(), value.bytes())).collect();
                let pairs: Vec<_> =
                    pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
                store.put_many(&pairs)?;
            }
        }
        Ok(())
    }

    fn remove(&self, keys: &[u64]) -> Result<()> {
        match (self, keys) {
            (Opened::Table(table), [key]) => drop(table.remove(*key)?),
            (Opened::Table(table), _) => drop(table.remove_many(keys)?),
            (Opened::Store(store), [key]) => drop(store.remove(key.to_le_bytes())?),
            (Opened::Store(store), _) => {
                let keys: Vec<_> = keys.iter().map(|key| key.to_le_bytes()).collect();
                let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
                store.remove_many(&keys)?;
            }
        }
        Ok(())
    }

    fn get(&self, key: u64) -> Result<Option<Value>> {
        match self {
            Opened::Table(table) => Ok(table.get(key)?.map(Value::of_word)),
            Opened::Store(store) => {
                store.get(key.to_le_bytes())?.map(|record| Value::of_bytes(&record)).transpose()
            }
        }
    }

    fn sync(&self) -> Result<()> {
        match self {
            Opened::Table(table) => table.sync(),
            Opened::Store(store) => store.sync(),
        }
        .context("sync")
    }

    fn close(self) -> Result<()> {
        match self {
            Opened::Table(table) => table.close(),
            Opened::Store(store) => store.close(),
        }
        .context("close")
    }

    fn len(&self) -> u64 {
        match self {
            Opened::Table(table) => table.len(),
            Opened::Store(store) => store.len(),
        }
    }

    fn shrink(&self) -> Result<()> {
        match self {
            Opened::Table(table) => table.shrink(),
            Opened::Store(store) => store.shrink(),
        }
        .context("shrink")?;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let report = match self {
            Opened::Table(table) => table.check()?,
            Opened::Store(store) => store.check()?,
        };
        ensure!(report.is_sound(), "{}", report.findings.join("; "));
        Ok(())
    }
}

impl Pool {
    fn open(&self, engine: Engine, directory: &Path) -> Result<Opened> {
        let options = Options::new()
            .engine(engine)
            .medium(self.medium)
            .durability(self.durability)
            .durable_every(INTERVAL)
            .checkpoint_at(CHECKPOINT_AT_BYTES);
        let path = path(directory);
        let opened = match self.kind {
            Kind::Table => Opened::Table(options.open_or_create_table(&path)?),
            Kind::Store => Opened::Store(options.open_or_create_store(&path)?),
        };
        if self.medium == Medium::Dax {
            ensure_map_sync(&path)?;
        }
        Ok(opened)
    }

    /// Changes the pool until it is killed. `is_hasty`: acknowledges what is not durable yet.
    pub(crate) fn write(
        &self,
        engine: Engine,
        directory: &Path,
        notes: &Notes,
        is_hasty: bool,
    ) -> Result<()> {
        loop {
            let opened = self.open(engine, directory).context("the pool does not open")?;
            // After kill -9, or after a power loss, this is a judgement too.
            let returned = self.examine(&opened, notes)?.map(AtomicU64::new);
            thread::scope(|scope| {
                let (opened, returned) = (&opened, &returned);
                let write = move |thread| self.write_as(thread, opened, notes, returned, is_hasty);
                let writers: Vec<_> =
                    (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
                writers.into_iter().try_for_each(|writer| writer.join().expect("it does not panic"))
            })?;
            opened.close()?;
            for (thread, count) in returned.iter().enumerate() {
                notes.acknowledge(thread, count.load(Ordering::Relaxed))?;
            }
        }
    }

    fn write_as(
        &self,
        thread: usize,
        opened: &Opened,
        notes: &Notes,
        returned: &[AtomicU64; THREADS],
        is_hasty: bool,
    ) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut random = Random::new(now.as_nanos() as u64 ^ thread as u64);
        let [own, next] = [thread, thread + 1].map(|thread| &returned[thread % THREADS]);
        let mut number = own.load(Ordering::Relaxed);
        let mut acknowledge_from = number;
        let mut acknowledgements = random.below(match self.medium {
            Medium::Dax => DAX_ACKNOWLEDGEMENTS_MAX,
            _ => ACKNOWLEDGEMENTS_MAX,
        });
        while acknowledgements > 0 {
            let numbers = number..number + self.batch;
            let key_of = |number| key(thread, number % self.keys);
            if self.removes(number) {
                opened.remove(&numbers.map(key_of).collect::<Vec<_>>())?;
            } else {
                let seen = next.load(Ordering::Acquire);
                let pair = |number| (key_of(number), Value { number, seen });
                opened.put(&numbers.map(pair).collect::<Vec<_>>())?;
            }
            number += self.batch;
            own.store(number, Ordering::Release);
            if number.is_multiple_of(self.keys * LAPS) {
                // It has just removed half of its keys. The next lap makes the table grow again.
                opened.shrink()?;
            }
            if self.durability != Durability::Commit {
                if number < acknowledge_from {
                    continue;
                }
                acknowledge_from = number + random.below(OPERATIONS_PER_SYNC_MAX);
                if is_hasty {
                    notes.acknowledge(thread, number)?;
                }
                opened.sync()?;
            }
            notes.acknowledge(thread, number)?;
            acknowledgements -= 1;
        }
        Ok(())
    }

    /// Whether the batch of an operation removes its keys.
    fn removes(&self, number: u64) -> bool {
        number / self.keys % LAPS == LAPS - 1 && number / self.batch % 2 == 1
    }

    /// How many operations of each thread are in the pool in a directory. What is wrong with it is the error.
    pub(crate) fn judge(
        &self,
        engine: Engine,
        directory: &Path,
        notes: &Notes,
    ) -> Result<[u64; THREADS]> {
        let opened = self.open(engine, directory).context("the pool does not open")?;
        let done = self.examine(&opened, notes)?;
        opened.check().context("check")?;
        Ok(done)
    }

    /// How many operations of each thread explain what the pool holds.
    fn examine(&self, opened: &Opened, notes: &Notes) -> Result<[u64; THREADS]> {
        let mut done = [0; THREADS];
        let mut seen = [0; THREADS];
        let mut present = 0;
        for thread in 0..THREADS {
            let found: Vec<Option<Value>> =
                (0..self.keys).map(|slot| opened.get(key(thread, slot))).collect::<Result<_>>()?;
            present += found.iter().flatten().count() as u64;
            seen[thread] = found.iter().flatten().map(|value| value.seen).max().unwrap_or(0);
            let numbers: Vec<_> =
                found.iter().map(|value| value.map(|value| value.number)).collect();
            done[thread] = self.explain(&numbers).with_context(|| {
                format!("no number of operations explains what is there of thread {thread}")
            })?;
            let acknowledged = notes.acknowledged(thread)?;
            ensure!(
                done[thread] >= acknowledged,
                "{} operations of thread {thread} are there, but {acknowledged} were acknowledged",
                done[thread]
            );
            // Elsewhere the opening after kill -9 may find operations that are not durable yet, and so are never noted.
            ensure!(
                self.medium != Medium::Dax || done[thread] <= acknowledged + self.batch,
                "{} operations of thread {thread} are there, but it cannot have begun more than {}",
                done[thread],
                acknowledged + self.batch
            );
        }
        for (thread, seen) in seen.into_iter().enumerate() {
            let next = (thread + 1) % THREADS;
            ensure!(
                seen <= done[next],
                "{} operations of thread {next} are there, but thread {thread} had seen {seen} return",
                done[next]
            );
        }
        let len = opened.len();
        ensure!(len == present, "the pool holds {len} pairs, of which {present} were put");
        Ok(done)
    }

    /// The largest number of operations after which a thread's keys may have these values, with any part of the next
    /// batch.
    fn explain(&self, found: &[Option<u64>]) -> Option<u64> {
        // Each other batch puts something: the newest value is of the last batch, or of the one before.
        let newest = found.iter().flatten().max();
        let newest_batch = newest.map_or(0, |number| number / self.batch);
        let batches = (newest_batch..=newest_batch + 2).rev();
        batches.map(|batch| batch * self.batch).find(|&count| {
            (0..).zip(found).all(|(slot, &value)| {
                let number = |lap: u64| lap * self.keys + slot;
                // In this lap round the keys the slot's turn has come already, or is yet to come.
                let lap = count / self.keys;
                let coming = if number(lap) < count { lap + 1 } else { lap };
                let before = coming.checked_sub(1).map(number);
                let next = number(coming);
                value == self.left_by(before)
                    || next < count + self.batch && value == self.left_by(Some(next))
            })
        })
    }

    /// The value that an operation leaves its key.
    fn left_by(&self, number: Option<u64>) -> Option<u64> {
        number.filter(|&number| !self.removes(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(batch: u64) -> Pool {
        let (medium, durability) = (Medium::Mapped, Durability::Periodic);
        Pool { kind: Kind::Table, medium, durability, keys: 8, batch }
    }

    /// The values after so many operations.
    fn after(pool: &Pool, count: u64) -> Vec<Option<u64>> {
        let mut values = vec![None; pool.keys as usize];
        for number in 0..count {
            values[(number % pool.keys) as usize] = pool.left_by(Some(number));
        }
        values
    }

    #[test]
    fn every_count_explains_its_state() {
        for batch in [1, 2, 4] {
            let pool = pool(batch);
            for count in (0..100).step_by(batch as usize) {
                assert_eq!(pool.explain(&after(&pool, count)), Some(count), "{batch} {count}");
            }
        }
    }

    #[test]
    fn any_part_of_a_batch_may_be_there() {
        let pool = pool(4);
        for count in (0..100).step_by(4) {
            let [values, whole] = [count, count + 4].map(|count| after(&pool, count));
            for part in 1..15 {
                let mut values = values.clone();
                for number in (0..4).filter(|bit| part >> bit & 1 == 1).map(|bit| count + bit) {
                    let slot = (number % pool.keys) as usize;
                    values[slot] = whole[slot];
                }
                assert_eq!(pool.explain(&values), Some(count), "{count} {part}");
            }
        }
    }

    #[test]
    fn a_hole_is_not_explained() {
        let pool = pool(1);
        for count in 20..60 {
            let whole = after(&pool, count);
            for back in 2..6 {
                let without = (count - back) as usize % pool.keys as usize;
                let mut values = whole.clone();
                values[without] = after(&pool, count - back)[without];
                assert_eq!(pool.explain(&values), None, "{count} without {without}");
            }
        }
    }

    #[test]
    fn values_of_a_store_are_checked() {
        let value = Value { number: 77, seen: 5 };
        let mut bytes = value.bytes();
        assert_eq!(Value::of_bytes(&bytes).unwrap(), value);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(Value::of_bytes(&bytes).is_err());
        assert!(Value::of_bytes(&[]).is_err());
    }
}
