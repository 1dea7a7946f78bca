//! Operations on many keys at once.

use super::Table;
use crate::{BatchError, Result};
use index::Fixed;

impl<K: Fixed, V: Fixed> Table<K, V> {
    /// [`Table::get`] for each key, with overlapped cache misses. The batch is not atomic, and its look-ups run
    /// concurrently. So if another thread changes a key meanwhile, a batch with that key twice may see two states, in
    /// any order.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let squares = firndex::Table::<u64, u64>::in_memory()?;
    /// squares.put_many(&[(2, 4), (3, 9)])?;
    /// assert_eq!(squares.get_many(&[3, 5])?, [Some(9), None]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values = vec![None; keys.len()];
        self.get_many_into(keys, &mut values)?;
        Ok(values)
    }

    /// [`Table::get_many`] into the caller's memory: `values[i]` is the value of `keys[i]`. If the slices differ in
    /// length, the longer one's rest is ignored.
    pub fn get_many_into(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let len = keys.len().min(values.len());
        self.pool.handle.look(|| {
            self.index.get_many(&keys[..len], &mut values[..len]);
            Ok(())
        })
    }

    /// [`Table::put`] for each pair, in order, with shared fences. Returns the replaced values. A [`BatchError`] tells
    /// which pairs were stored before it.
    pub fn put_many(&self, pairs: &[(K, V)]) -> std::result::Result<Vec<Option<V>>, BatchError> {
        let mut replaced = vec![None; pairs.len()];
        self.put_many_into(pairs, &mut replaced)?;
        Ok(replaced)
    }

    /// [`Table::put_many`] with the replaced values in the caller's memory: `replaced[i]` is the one of `pairs[i]`. If
    /// `pairs` is longer than `replaced`, the rest is not stored, and is no part of the batch. After an error only the
    /// entries of pairs that were stored have changed.
    pub fn put_many_into(
        &self,
        pairs: &[(K, V)],
        replaced: &mut [Option<V>],
    ) -> std::result::Result<(), BatchError> {
        let len = pairs.len().min(replaced.len());
        self.pool
            .handle
            .mutate_batch(len, || self.index.upsert_many(&pairs[..len], &mut replaced[..len]))
    }

    /// [`Table::insert`] for each pair, in order, with shared fences. Returns the values that were there before, and
    /// stay. A [`BatchError`] tells which pairs were tried before it.
    pub fn insert_many(&self, pairs: &[(K, V)]) -> std::result::Result<Vec<Option<V>>, BatchError> {
        let mut found = vec![None; pairs.len()];
        self.insert_many_into(pairs, &mut found)?;
        Ok(found)
    }

    /// [`Table::update`] for each pair, in order, with shared fences. Returns the replaced values; keys without one
    /// stay absent. A [`BatchError`] tells which pairs were tried before it.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let stock = firndex::Table::<u64, u64>::in_memory()?;
    /// assert_eq!(stock.insert_many(&[(1, 10), (1, 11)])?, [None, Some(10)]);
    /// assert_eq!(stock.update_many(&[(1, 9), (2, 20)])?, [Some(10), None]);
    /// assert_eq!(stock.get_many(&[1, 2])?, [Some(9), None]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_many(&self, pairs: &[(K, V)]) -> std::result::Result<Vec<Option<V>>, BatchError> {
        let mut replaced = vec![None; pairs.len()];
        self.update_many_into(pairs, &mut replaced)?;
        Ok(replaced)
    }

    /// [`Table::insert`] for each pair, in order, with shared fences. `found[i]` is the value that was there before.
    /// Lengths and errors are as in [`Table::put_many_into`].
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// let mut found = [None; 2];
    /// table.insert_many_into(&[(1, 10), (1, 11)], &mut found)?;
    /// assert_eq!(found, [None, Some(10)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_many_into(
        &self,
        pairs: &[(K, V)],
        found: &mut [Option<V>],
    ) -> std::result::Result<(), BatchError> {
        let len = pairs.len().min(found.len());
        self.pool
            .handle
            .mutate_batch(len, || self.index.insert_many(&pairs[..len], &mut found[..len]))
    }

    /// [`Table::update`] for each pair, in order, with shared fences. `replaced[i]` is the replaced value. Lengths and
    /// errors are as in [`Table::put_many_into`].
    pub fn update_many_into(
        &self,
        pairs: &[(K, V)],
        replaced: &mut [Option<V>],
    ) -> std::result::Result<(), BatchError> {
        let len = pairs.len().min(replaced.len());
        self.pool
            .handle
            .mutate_batch(len, || self.index.update_many(&pairs[..len], &mut replaced[..len]))
    }

    /// [`Table::remove`] for each key, in order, with shared fences. Returns the removed values. A [`BatchError`] tells
    /// which keys were removed before it.
    pub fn remove_many(&self, keys: &[K]) -> std::result::Result<Vec<Option<V>>, BatchError> {
        let mut removed = vec![None; keys.len()];
        self.remove_many_into(keys, &mut removed)?;
        Ok(removed)
    }

    /// [`Table::remove_many`] with the removed values in the caller's memory. Lengths and errors are as in
    /// [`Table::put_many_into`].
    pub fn remove_many_into(
        &self,
        keys: &[K],
        removed: &mut [Option<V>],
    ) -> std::result::Result<(), BatchError> {
        let len = keys.len().min(removed.len());
        self.pool
            .handle
            .mutate_batch(len, || self.index.remove_many(&keys[..len], &mut removed[..len]))
    }
}
