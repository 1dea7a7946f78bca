//! Single calls where what is compiled into their callers does not suffice.

use super::Table;
use crate::Result;
use index::Fixed;
use pmem::Write;

impl<K: Fixed, V: Fixed> Table<K, V> {
    // The rest of calls that have the right to write and have done nothing yet: on engines without a hot path, and in
    // cases that it leaves out. Behind a call, errors do not take the results of the hot path through memory.

    #[inline(never)]
    pub(super) fn put_by_call(&self, write: Write<'_>, key: K, value: V) -> Result<Option<V>> {
        let replaced = self.index.upsert(key, value)?;
        self.handle.end(write)?;
        Ok(replaced)
    }

    #[inline(never)]
    pub(super) fn insert_by_call(&self, write: Write<'_>, key: K, value: V) -> Result<Option<V>> {
        let found = self.index.insert(key, value)?;
        self.handle.end(write)?;
        Ok(found)
    }

    #[inline(never)]
    pub(super) fn update_by_call(&self, write: Write<'_>, key: K, value: V) -> Result<Option<V>> {
        let replaced = self.index.update(key, value)?;
        self.handle.end(write)?;
        Ok(replaced)
    }

    #[inline(never)]
    pub(super) fn remove_by_call(&self, write: Write<'_>, key: K) -> Result<Option<V>> {
        let removed = self.index.remove(key)?;
        self.handle.end(write)?;
        Ok(removed)
    }

    // Calls of a pool that is watched, or after a fork or a bus error that may concern another pool. They are batches
    // of one, so that the hot path is not compiled once more.

    #[cold]
    #[inline(never)]
    pub(super) fn get_disturbed(&self, key: K) -> Result<Option<V>> {
        let mut value = [None];
        self.get_many_into(&[key], &mut value)?;
        Ok(value[0])
    }

    #[cold]
    #[inline(never)]
    pub(super) fn put_disturbed(&self, key: K, value: V) -> Result<Option<V>> {
        let mut replaced = [None];
        self.put_many_into(&[(key, value)], &mut replaced)?;
        Ok(replaced[0])
    }

    #[cold]
    #[inline(never)]
    pub(super) fn insert_disturbed(&self, key: K, value: V) -> Result<Option<V>> {
        let mut found = [None];
        self.insert_many_into(&[(key, value)], &mut found)?;
        Ok(found[0])
    }

    #[cold]
    #[inline(never)]
    pub(super) fn update_disturbed(&self, key: K, value: V) -> Result<Option<V>> {
        let mut replaced = [None];
        self.update_many_into(&[(key, value)], &mut replaced)?;
        Ok(replaced[0])
    }

    #[cold]
    #[inline(never)]
    pub(super) fn remove_disturbed(&self, key: K) -> Result<Option<V>> {
        let mut removed = [None];
        self.remove_many_into(&[key], &mut removed)?;
        Ok(removed[0])
    }
}
