//! Tables.

use super::BATCH;
use crate::{BatchError, Entry, Result, Table};
use index::{Exchange, Fixed};
use std::iter::FusedIterator;

impl<K: Fixed, V: Fixed> Table<K, V> {
    /// Whether `key` is present. Takes no lock and never waits. It fails as `get` does.
    pub fn contains_key(&self, key: K) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The keys, in no order, with the promises of [`Table::iter`]. To stop early, drop it.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.extend([(1, 10), (2, 20), (3, 30)])?;
    /// assert_eq!(table.keys().sum::<firndex::Result<u64>>()?, 6);
    /// assert_eq!(table.values().max_by_key(|value| *value.as_ref().unwrap()).unwrap()?, 30);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> impl FusedIterator<Item = Result<K>> {
        self.iter().map(|pair| pair.map(|(key, _)| key))
    }

    /// The values, in no order, with the promises of [`Table::iter`]. To stop early, drop it.
    pub fn values(&self) -> impl FusedIterator<Item = Result<V>> {
        self.iter().map(|pair| pair.map(|(_, value)| value))
    }

    /// The value of `key`. If there is none, stores the result of `make` and returns it. `make` runs at most once,
    /// outside every lock. If several threads do this at once, one stores its value and all return that.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// assert_eq!(table.get_or_insert_with(7, || 49)?, 49);
    /// assert_eq!(table.get_or_insert_with(7, || unreachable!())?, 49);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Result<V> {
        if let Some(value) = self.get(key)? {
            return Ok(value);
        }
        let made = make();
        Ok(self.insert(key, made)?.unwrap_or(made))
    }

    /// Replaces the value of `key` if it is `expected`. The result is that of [`Table::compare_exchange`].
    pub fn replace_if(&self, key: K, expected: V, new: V) -> Result<Exchange<V>> {
        self.compare_exchange(key, Some(expected), Some(new))
    }

    /// Removes `key` if its value is `expected`. The result is that of [`Table::compare_exchange`].
    pub fn remove_if(&self, key: K, expected: V) -> Result<Exchange<V>> {
        self.compare_exchange(key, Some(expected), None)
    }

    /// Removes the pairs for which `keep` returns `false`, and returns how many. If another thread changes a pair
    /// meanwhile, `keep` sees it again: no pair is removed with a value that `keep` has not seen. `keep` runs outside
    /// every lock.
    ///
    /// It visits the pairs that [`Table::for_each`] would. After an error some of the pairs are removed; call it again
    /// for the rest.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.extend((0..10).map(|key| (key, key * key)))?;
    /// assert_eq!(table.retain(|_, square| square % 2 == 0)?, 5);
    /// assert!(!table.contains_key(3)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(K, V) -> bool) -> Result<u64> {
        let mut removed = 0;
        for pair in self {
            let (key, value) = pair?;
            let mut state = Some(value);
            while let Some(value) = state.filter(|&value| !keep(key, value)) {
                match self.remove_if(key, value)? {
                    Ok(()) => {
                        removed += 1;
                        break;
                    }
                    Err(found) => state = found,
                }
            }
        }
        Ok(removed)
    }

    /// Removes all pairs and returns how many. It removes the pairs that [`Table::for_each`] would visit, so one that
    /// is inserted meanwhile may stay. The space stays with the pool. After an error some of the pairs are removed:
    /// call it again for the rest.
    pub fn clear(&self) -> Result<u64> {
        let mut keys = self.keys();
        let mut removed = 0;
        loop {
            let batch = keys.by_ref().take(BATCH).collect::<Result<Vec<K>>>()?;
            if batch.is_empty() {
                return Ok(removed);
            }
            removed += self.remove_many(&batch)?.iter().flatten().count() as u64;
        }
    }

    /// [`Table::put`] for each pair, in order and in batches. A [`BatchError`] counts all pairs from the first on, and
    /// tells which of them were stored. Up to 256 pairs were taken from the iterator and not stored.
    ///
    /// A table has no `FromIterator`, which could not report errors. Make a table and extend it.
    pub fn extend(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> std::result::Result<(), BatchError> {
        let mut pairs = pairs.into_iter();
        let mut replaced = [None; BATCH];
        let mut batch = Vec::with_capacity(BATCH);
        let mut stored = 0;
        loop {
            batch.clear();
            batch.extend(pairs.by_ref().take(BATCH));
            if batch.is_empty() {
                return Ok(());
            }
            self.put_many_into(&batch, &mut replaced).map_err(|error| error.behind(stored))?;
            stored += batch.len();
        }
    }

    /// The entry of `key`, to fill or change in one atomic step.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let visits = firndex::Table::<u64, u64>::in_memory()?;
    /// assert_eq!(visits.entry(7).and_modify(|count| *count += 1).or_insert(1)?, 1);
    /// assert_eq!(visits.entry(7).and_modify(|count| *count += 1).or_insert(1)?, 2);
    /// assert_eq!(visits.entry(8).or_default()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn entry(&self, key: K) -> Entry<'_, K, V> {
        Entry::new(self, key)
    }
}
