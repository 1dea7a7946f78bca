//! The engine under a table.

use crate::word_types::{self, of_word};
use engines::iceberg;
use index::{Error, Fixed, Index};
use pmem::medium::{KernelKeeps, Memory};
use std::ops::Deref;

/// An engine behind one virtual call; the usual one, on the usual media, has its operations on
/// single pairs compiled into the table's, and so into their callers.
pub(crate) struct TableIndex<K, V> {
    /// Of the same table; only where keys and values have 8 bytes.
    usual: Option<iceberg::Singles<Memory<KernelKeeps>>>,
    any: Box<dyn Index<K, V>>,
}

impl<K: Fixed, V: Fixed> TableIndex<K, V> {
    pub(crate) fn new(any: Box<dyn Index<K, V>>) -> Self {
        TableIndex { usual: None, any }
    }

    pub(crate) fn usual(iceberg: iceberg::Iceberg<Memory<KernelKeeps>>) -> Self {
        TableIndex { usual: Some(iceberg.singles()), any: word_types::boxed(iceberg) }
    }

    /// Keys and values of other sizes compile to the virtual call alone.
    #[inline(always)]
    fn singles(&self) -> Option<&iceberg::Singles<Memory<KernelKeeps>>> {
        match (K::BYTES, V::BYTES) {
            (8, 8) => self.usual.as_ref(),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: K) -> Option<V> {
        match self.singles() {
            Some(usual) => usual.get(key.word(0)).map(of_word),
            None => self.any.get(key),
        }
    }

    #[inline(always)]
    pub(crate) fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        match self.singles() {
            Some(usual) => usual.insert(key.word(0), value.word(0)).map(of_words),
            None => self.any.insert(key, value),
        }
    }

    #[inline(always)]
    pub(crate) fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        match self.singles() {
            Some(usual) => usual.update(key.word(0), value.word(0)).map(of_words),
            None => self.any.update(key, value),
        }
    }

    #[inline(always)]
    pub(crate) fn upsert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        match self.singles() {
            Some(usual) => usual.upsert(key.word(0), value.word(0)).map(of_words),
            None => self.any.upsert(key, value),
        }
    }

    #[inline(always)]
    pub(crate) fn remove(&self, key: K) -> Result<Option<V>, Error> {
        match self.singles() {
            Some(usual) => usual.remove(key.word(0)).map(of_words),
            None => self.any.remove(key),
        }
    }
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
