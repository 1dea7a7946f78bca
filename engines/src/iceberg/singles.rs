//! Operations on single pairs.

use super::Core;
use index::{Change, Error, Exchange, is_same_state};
use pmem::Medium;
use std::sync::Arc;

/// A handle to an open [`Iceberg`](super::Iceberg) for operations on single pairs, which are
/// compiled into their callers.
///
/// How many operations a processor overlaps depends on how few instructions each takes, and a
/// virtual call adds what it saves and passes. Everything is as promised by
/// [`Index`](index::Index).
pub struct Singles<M: Medium>(pub(super) Arc<Core<M>>);

impl<M: Medium> std::fmt::Debug for Singles<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Singles").finish_non_exhaustive()
    }
}

impl<M: Medium> Singles<M> {
    /// [`Index::get`](index::Index::get).
    #[inline(always)]
    pub fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key)
    }

    /// [`Index::insert`](index::Index::insert).
    #[inline(always)]
    pub fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.0.insert(key, value)
    }

    /// [`Index::update`](index::Index::update).
    #[inline(always)]
    pub fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.0.update(key, value)
    }

    /// [`Index::upsert`](index::Index::upsert).
    #[inline(always)]
    pub fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.0.upsert(key, value)
    }

    /// [`Index::remove`](index::Index::remove).
    #[inline(always)]
    pub fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        self.0.remove(key)
    }
}

impl<M: Medium> Core<M> {
    #[inline(always)]
    pub(super) fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |found| Change::if_absent(found, value))
    }

    #[inline(always)]
    pub(super) fn update(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |found| Change::if_present(found, value))
    }

    #[inline(always)]
    pub(super) fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |_| Change::Put(value))
    }

    #[inline(always)]
    pub(super) fn remove(&self, key: u64) -> Result<Option<u64>, Error> {
        self.mutate(key, |_| Change::Remove)
    }

    #[inline(always)]
    pub(super) fn compare_exchange(
        &self,
        key: u64,
        expected: Option<u64>,
        new: Option<u64>,
    ) -> Result<Exchange<u64>, Error> {
        let found =
            self.mutate(key, |found| Change::if_expected(is_same_state(found, expected), new))?;
        Ok(if is_same_state(found, expected) { Ok(()) } else { Err(found) })
    }
}
