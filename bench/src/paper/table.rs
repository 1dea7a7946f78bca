//! A table with its pool, of one engine and any pairs.

use anyhow::{Result, bail, ensure};
use index::{Error, Fixed, Index, is_same_state};
use pmem::{Medium, Pool, SpaceError};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

/// A table that grows only when it is told to.
pub(crate) struct Table<M: Medium, I, K, V> {
    /// Dropped before the pool.
    pub(crate) index: I,
    pub(crate) pool: Arc<Pool<M>>,
    pairs: PhantomData<fn(K) -> V>,
}

impl<M: Medium, I: Index<K, V>, K: Fixed + Debug, V: Fixed + Debug> Table<M, I, K, V> {
    /// The table `index` in `pool`.
    pub(crate) fn of(index: I, pool: Arc<Pool<M>>) -> Self {
        Table { index, pool, pairs: PhantomData }
    }

    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<V> {
        self.index.get(key)
    }

    /// Stores a pair whose key is absent. Returns whether there was room.
    pub(crate) fn insert(&self, key: K, value: V) -> Result<bool> {
        let _write = self.pool.write()?;
        match self.index.insert(key, value) {
            Ok(None) => Ok(true),
            Ok(Some(found)) => bail!("key {key:x?} was there before it was inserted: {found:x?}"),
            Err(Error::Space(SpaceError::Full { .. })) => match self.get(key) {
                None => Ok(false),
                Some(_) => bail!("key {key:x?} was refused, and is there"),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces a value; returns whether the key was present.
    #[inline]
    pub(crate) fn update(&self, key: K, value: V) -> bool {
        self.pool.write().is_ok_and(|_write| matches!(self.index.update(key, value), Ok(Some(_))))
    }

    /// Removes a pair; returns whether the key was present.
    pub(crate) fn remove(&self, key: K) -> bool {
        self.pool.write().is_ok_and(|_write| matches!(self.index.remove(key), Ok(Some(_))))
    }

    /// Inserts the pairs of these numbers until one is refused; returns the number at which it stopped.
    pub(crate) fn fill(
        &self,
        numbers: std::ops::Range<u64>,
        pair: impl Fn(u64) -> (K, V),
    ) -> Result<u64> {
        for number in numbers.clone() {
            let (key, value) = pair(number);
            if !self.insert(key, value)? {
                return Ok(number);
            }
        }
        Ok(numbers.end.max(numbers.start))
    }

    /// Inserts all pairs of `other`, in the order of its buckets. This table has none of them.
    pub(crate) fn insert_all_of(&self, other: &Self) -> Result<()> {
        let _write = self.pool.write()?;
        let mut refused = 0u64;
        other.index.for_each(&mut |key, value| {
            refused += u64::from(!matches!(self.index.insert(key, value), Ok(None)));
        })?;
        ensure!(refused == 0, "{refused} pairs were refused by a table of twice the size");
        Ok(())
    }

    /// Slots on which the load factor is based.
    pub(crate) fn capacity(&self) -> u64 {
        self.index.occupancy().capacity
    }

    /// Slots of the first `levels` levels, from the top.
    pub(crate) fn slots(&self, levels: usize) -> u64 {
        self.index.occupancy().levels.iter().take(levels).map(|level| level.slots).sum()
    }

    /// Fails unless exactly the first `count` pairs are there, and the table is sound.
    pub(crate) fn check(&self, count: u64, pair: impl Fn(u64) -> (K, V)) -> Result<()> {
        let report = self.index.check();
        ensure!(report.is_sound(), "the table has {} faults: {:?}", report.faults, report.findings);
        let counted = (report.pairs, self.index.len());
        ensure!(counted == (count, count), "{counted:?} pairs were found and counted, not {count}");
        for number in 0..count {
            let (key, value) = pair(number);
            let found = self.get(key);
            let is_found = is_same_state(found, Some(value));
            ensure!(is_found, "key {key:x?} holds {found:x?} instead of {value:x?}");
        }
        Ok(())
    }
}
