//! Entries, as `HashMap::entry` has them. An entry holds no lock: it collects what to do, and does it in one step at
//! the end.

use crate::{Result, Store, Table};
use index::Fixed;
use std::cell::LazyCell;

/// The entry of a key in a table: [`Table::entry`].
#[must_use = "nothing is done before `or_insert`, `or_insert_with` or `or_default`"]
#[derive(Debug)]
pub struct Entry<'a, K: Fixed, V: Fixed, F = fn(&mut V)> {
    table: &'a Table<K, V>,
    key: K,
    change: Option<F>,
}

impl<'a, K: Fixed, V: Fixed> Entry<'a, K, V> {
    pub(super) fn new(table: &'a Table<K, V>, key: K) -> Self {
        Entry { table, key, change: None }
    }

    /// Changes the value if there is one. `change` runs outside every lock, and may run several times; its last call is
    /// the one that took effect.
    pub fn and_modify<F: FnMut(&mut V)>(self, change: F) -> Entry<'a, K, V, F> {
        Entry { table: self.table, key: self.key, change: Some(change) }
    }
}

impl<K: Fixed, V: Fixed, F: FnMut(&mut V)> Entry<'_, K, V, F> {
    /// The key.
    pub fn key(&self) -> K {
        self.key
    }

    /// Stores `value` if the key is absent. Returns the value that is there afterwards.
    pub fn or_insert(self, value: V) -> Result<V> {
        self.or_insert_with(|| value)
    }

    /// Stores the result of `make` if the key is absent. Returns the value that is there afterwards. `make` runs at
    /// most once.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Result<V> {
        let Entry { table, key, change } = self;
        let Some(mut change) = change else {
            return table.get_or_insert_with(key, make);
        };
        let made = LazyCell::new(make);
        let mut before = table.get(key)?;
        loop {
            let after = match before {
                Some(mut value) => {
                    change(&mut value);
                    value
                }
                None => *made,
            };
            match table.compare_exchange(key, before, Some(after))? {
                Ok(()) => return Ok(after),
                Err(found) => before = found,
            }
        }
    }

    /// Stores the type's default if the key is absent. Returns the value that is there afterwards.
    pub fn or_default(self) -> Result<V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

/// The entry of a key in a store: [`Store::entry`].
#[must_use = "nothing is done before `or_insert`, `or_insert_with` or `or_default`"]
#[derive(Debug)]
pub struct StoreEntry<'a, Q, F = fn(&mut Vec<u8>)> {
    store: &'a Store,
    key: Q,
    change: Option<F>,
}

impl<'a, Q: AsRef<[u8]>> StoreEntry<'a, Q> {
    pub(super) fn new(store: &'a Store, key: Q) -> Self {
        StoreEntry { store, key, change: None }
    }

    /// Changes the value if there is one, as [`Entry::and_modify`] does.
    pub fn and_modify<F: FnMut(&mut Vec<u8>)>(self, change: F) -> StoreEntry<'a, Q, F> {
        StoreEntry { store: self.store, key: self.key, change: Some(change) }
    }
}

impl<Q: AsRef<[u8]>, F: FnMut(&mut Vec<u8>)> StoreEntry<'_, Q, F> {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.key.as_ref()
    }

    /// Stores `value` if the key is absent. Returns a copy of the value that is there afterwards.
    pub fn or_insert(self, value: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.or_insert_with(|| value)
    }

    /// Stores the result of `make` if the key is absent. Returns a copy of the value that is there afterwards. `make`
    /// runs at most once.
    pub fn or_insert_with<T: AsRef<[u8]>>(self, make: impl FnOnce() -> T) -> Result<Vec<u8>> {
        let StoreEntry { store, key, change } = self;
        let Some(mut change) = change else {
            return Ok(store.get_or_insert_with(key, make)?.to_vec());
        };
        let made = LazyCell::new(make);
        let mut after = Vec::new();
        store.modify(key, |before| {
            after.clear();
            match before {
                Some(value) => {
                    after.extend_from_slice(value);
                    change(&mut after);
                }
                None => after.extend_from_slice((*made).as_ref()),
            }
            Some(after.clone())
        })?;
        Ok(after)
    }

    /// Stores the empty value if the key is absent. Returns a copy of the value that is there afterwards.
    pub fn or_default(self) -> Result<Vec<u8>> {
        self.or_insert([])
    }
}
