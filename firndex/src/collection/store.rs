//! Stores.

use super::BATCH;
use crate::{BatchError, Record, Result, Store, StoreEntry};
use std::iter::FusedIterator;

impl Store {
    /// Whether `key` is present. Takes no lock and never waits. It fails as `get` does.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// A copy of the value of `key`. Unlike a [`Record`] it keeps nothing in place, may go to another thread, and may
    /// live across an `await`.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.put("France", "Paris")?;
    /// let capital: Option<Vec<u8>> = store.get_owned("France")?;
    /// std::thread::spawn(move || assert_eq!(capital.unwrap(), b"Paris")).join().unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_owned(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(self.get(key)?.map(|value| value.into_inner().into_vec()))
    }

    /// Copies of the keys, in no order, with the promises of [`Store::iter`]. To stop early, drop it.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.extend([("France", "Paris"), ("Italy", "Rome")])?;
    /// let mut countries = store.keys().collect::<firndex::Result<Vec<_>>>()?;
    /// countries.sort();
    /// assert_eq!(countries, [b"France".to_vec(), b"Italy".to_vec()]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> impl FusedIterator<Item = Result<Vec<u8>>> {
        let mut pairs = self.iter();
        std::iter::from_fn(move || pairs.next_by(|key, _| key.to_vec())).fuse()
    }

    /// Copies of the values, in no order, with the promises of [`Store::iter`]. To stop early, drop it.
    pub fn values(&self) -> impl FusedIterator<Item = Result<Vec<u8>>> {
        let mut pairs = self.iter();
        std::iter::from_fn(move || pairs.next_by(|_, value| value.to_vec())).fuse()
    }

    /// The value of `key`, in place. If there is none, stores the result of `make` and returns it. `make` runs at most
    /// once, outside every lock. If several threads do this at once, one stores its value and all return that.
    pub fn get_or_insert_with<T: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        make: impl FnOnce() -> T,
    ) -> Result<Record<'_>> {
        let key = key.as_ref();
        let made = std::cell::LazyCell::new(make);
        loop {
            if let Some(value) = self.get(key)? {
                return Ok(value);
            }
            if let Some(value) = self.insert(key, (*made).as_ref())? {
                return Ok(value);
            }
            // Stored: the next turn finds it, unless another thread has removed it already.
        }
    }

    /// Replaces the value of `key` if it is `expected`. The result is that of [`Store::compare_exchange`].
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.put("lock", "free")?;
    /// assert!(store.replace_if("lock", "free", "mine")?.is_ok());
    /// let found = store.remove_if("lock", "free")?.unwrap_err();
    /// assert_eq!(found.as_deref(), Some(&b"mine"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace_if(
        &self,
        key: impl AsRef<[u8]>,
        expected: impl AsRef<[u8]>,
        new: impl AsRef<[u8]>,
    ) -> Result<std::result::Result<(), Option<Record<'_>>>> {
        self.compare_exchange(key, Some(expected.as_ref()), Some(new.as_ref()))
    }

    /// Removes `key` if its value is `expected`. The result is that of [`Store::compare_exchange`].
    pub fn remove_if(
        &self,
        key: impl AsRef<[u8]>,
        expected: impl AsRef<[u8]>,
    ) -> Result<std::result::Result<(), Option<Record<'_>>>> {
        self.compare_exchange(key, Some(expected.as_ref()), None)
    }

    /// Removes the pairs for which `keep` returns `false`, and returns how many, as
    /// [`Table::retain`](crate::Table::retain) does. While it runs, the space of removed items may not be reused.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.extend([("apple", "red"), ("pear", "green")])?;
    /// assert_eq!(store.retain(|_, colour| colour == b"red")?, 1);
    /// assert!(!store.contains_key("pear")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<u64> {
        let mut pairs = self.iter();
        let mut removed = 0;
        while let Some(is_removed) =
            pairs.next_by(|key, value| self.remove_unless(key, value, &mut keep))
        {
            removed += u64::from(is_removed??);
        }
        Ok(removed)
    }

    /// Removes `key`, which had this value, unless `keep` accepts that value, or the one that the key has by then.
    fn remove_unless(
        &self,
        key: &[u8],
        value: &[u8],
        keep: &mut impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        if keep(key, value) {
            return Ok(false);
        }
        let mut state = match self.remove_if(key, value)? {
            Ok(()) => return Ok(true),
            Err(found) => found,
        };
        while let Some(value) = state.filter(|value| !keep(key, value)) {
            match self.remove_if(key, &value)? {
                Ok(()) => return Ok(true),
                Err(found) => state = found,
            }
        }
        Ok(false)
    }

    /// Removes all pairs and returns how many, as [`Table::clear`](crate::Table::clear) does.
    pub fn clear(&self) -> Result<u64> {
        let mut keys = self.keys();
        let mut removed = 0;
        loop {
            let batch = keys.by_ref().take(BATCH).collect::<Result<Vec<_>>>()?;
            if batch.is_empty() {
                return Ok(removed);
            }
            removed += self.remove_many(&batch)?.iter().flatten().count() as u64;
        }
    }

    /// [`Store::put`] for each pair, in order and in batches, as [`Table::extend`](crate::Table::extend) does.
    /// If a key or value is too long, no pair of its batch is stored.
    pub fn extend<Q: AsRef<[u8]>, T: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (Q, T)>,
    ) -> std::result::Result<(), BatchError> {
        let mut pairs = pairs.into_iter();
        let mut batch = Vec::with_capacity(BATCH);
        let mut stored = 0;
        loop {
            batch.clear();
            let mut bytes = 0;
            while batch.len() < BATCH
                && bytes < BATCH_BYTES
                && let Some((key, value)) = pairs.next()
            {
                bytes += value.as_ref().len();
                batch.push((key, value));
            }
            if batch.is_empty() {
                return Ok(());
            }
            self.put_many(&batch).map_err(|error| error.behind(stored))?;
            stored += batch.len();
        }
    }

    /// The entry of `key`, to fill or change in one atomic step.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let log = firndex::Store::in_memory()?;
    /// log.entry("today").and_modify(|text| text.extend(b"two\n")).or_insert("one\n")?;
    /// let text = log.entry("today").and_modify(|text| text.extend(b"two\n")).or_insert("one\n")?;
    /// assert_eq!(text, b"one\ntwo\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn entry<Q: AsRef<[u8]>>(&self, key: Q) -> StoreEntry<'_, Q> {
        StoreEntry::new(self, key)
    }
}

/// Most bytes of values that [`Store::extend`] collects before it stores them.
const BATCH_BYTES: usize = 4 << 20;
