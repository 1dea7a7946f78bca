//! The engine under a table.

use crate::handle::PoolHandle;
use crate::word_types::{self, of_word};
use engines::iceberg;
use engines::level::{LevelHashing, Searches};
use index::{Error, Fixed, Index};
use pmem::OpenError;
use pmem::medium::{KernelKeeps, Memory};
use std::ops::Deref;
use std::sync::Arc;

/// The usual media.
type Usual = Memory<KernelKeeps>;

/// What is compiled into the table's operations, and so into their callers.
enum Inlined {
    Nothing,
    /// All operations on single pairs.
    Iceberg(iceberg::Singles<Usual>),
    /// Look-ups.
    Level(Searches<Usual, u64, u64>),
}

/// An engine behind one virtual call; on the usual media some operations are inlined.
pub(crate) struct TableIndex<K: Fixed, V: Fixed> {
    /// Of the same table; only where keys and values have 8 bytes.
    inlined: Inlined,
    any: Box<dyn Index<K, V>>,
    /// The pool that is told, in the end, how many pairs there are.
    pool: Option<Arc<dyn PoolHandle>>,
}

impl<K: Fixed, V: Fixed> TableIndex<K, V> {
    pub(crate) fn new(any: Box<dyn Index<K, V>>) -> Self {
        TableIndex { inlined: Inlined::Nothing, any, pool: None }
    }

    pub(crate) fn iceberg(iceberg: iceberg::Iceberg<Usual>) -> Self {
        let inlined = Inlined::Iceberg(iceberg.singles());
        TableIndex { inlined, any: word_types::boxed(iceberg), pool: None }
    }

    pub(crate) fn level(level: LevelHashing<Usual>) -> Self {
        let inlined = Inlined::Level(level.searches());
        TableIndex { inlined, any: word_types::boxed(level), pool: None }
    }

    /// Compares the number of pairs with the one that `pool` had when it was closed, and from now on tells
    /// it.
    pub(crate) fn count_in(&mut self, pool: &Arc<dyn PoolHandle>) -> Result<(), OpenError> {
        pool.compare_pairs(&|| self.any.len())?;
        self.pool = Some(Arc::clone(pool));
        Ok(())
    }

    /// Keys and values of other sizes compile to the virtual call alone.
    #[inline(always)]
    fn singles(&self) -> Option<&iceberg::Singles<Usual>> {
        match (&self.inlined, K::BYTES, V::BYTES) {
            (Inlined::Iceberg(singles), 8, 8) => Some(singles),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: K) -> Option<V> {
        match (&self.inlined, K::BYTES, V::BYTES) {
            (Inlined::Iceberg(singles), 8, 8) => singles.get(key.word(0)).map(of_word),
            (Inlined::Level(searches), 8, 8) => searches.get(key.word(0)).map(of_word),
            _ => self.any.get(key),
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

impl<K: Fixed, V: Fixed> Drop for TableIndex<K, V> {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.record_pairs(&|| self.any.len());
        }
    }
}

/// Everything else.
impl<K: Fixed, V: Fixed> Deref for TableIndex<K, V> {
    type Target = dyn Index<K, V>;

    fn deref(&self) -> &Self::Target {
        &*self.any
    }
}
