//! The engine under a table.

use engines::iceberg;
use index::{Error, Fixed, Index};
use pmem::medium::{KernelKeeps, Memory};
use std::ops::Deref;

/// An engine behind one virtual call; the usual one, on the usual media, has its operations on
/// single pairs compiled into the table's, and so into their callers.
pub(crate) struct TableIndex<K, V> {
    /// Of the same table; only where keys and values are words.
    usual: Option<iceberg::Singles<Memory<KernelKeeps>>>,
    any: Box<dyn Index<K, V>>,
}

impl<K: Fixed, V: Fixed> TableIndex<K, V> {
    pub(crate) fn new(any: Box<dyn Index<K, V>>) -> Self {
        TableIndex { usual: None, any }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: K) -> Option<V> {
        match &self.usual {
            Some(usual) => usual.get(key.word(0)).map(of_word),
            None => self.any.get(key),
        }
    }

    #[inline(always)]
    pub(crate) fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        match &self.usual {
            Some(usual) => usual.insert(key.word(0), value.word(0)).map(of_words),
            None => self.any.insert(key, value),
        }
    }

    #[inline(always)]
    pub(crate) fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        match &self.usual {
            Some(usual) => usual.update(key.word(0), value.word(0)).map(of_words),
            None => self.any.update(key, value),
        }
    }

    #[inline(always)]
    pub(crate) fn upsert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        match &self.usual {
            Some(usual) => usual.upsert(key.word(0), value.word(0)).map(of_words),
            None => self.any.upsert(key, value),
        }
    }

    #[inline(always)]
    pub(crate) fn remove(&self, key: K) -> Result<Option<V>, Error> {
        match &self.usual {
            Some(usual) => usual.remove(key.word(0)).map(of_words),
            None => self.any.remove(key),
        }
    }
}

impl TableIndex<u64, u64> {
    pub(crate) fn usual(iceberg: iceberg::Iceberg<Memory<KernelKeeps>>) -> Self {
        TableIndex { usual: Some(iceberg.singles()), any: Box::new(iceberg) }
    }
}

#[inline(always)]
fn of_word<V: Fixed>(word: u64) -> V {
    V::of_words(|_| word)
}

#[inline(always)]
fn of_words<V: Fixed>(found: Option<u64>) -> Option<V> {
    found.map(of_word)
}

/// Everything else.
impl<K, V> Deref for TableIndex<K, V> {
    type Target = dyn Index<K, V>;

    fn deref(&self) -> &Self::Target {
        &*self.any
    }
}
