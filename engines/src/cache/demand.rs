//! Puts that depend on what is there.

use super::Cache;
use pmem::Medium;
use pmem::arena::Entry;

/// What has to be there for a [put](Cache::put_if).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand<'a> {
    /// Whatever there is.
    Nothing,
    /// The key is not there.
    Absent,
    /// This value.
    Value(&'a [u8]),
}

impl<M: Medium> Cache<M> {
    pub(super) fn meets(&self, demand: Demand<'_>, hash: u64, key: &[u8]) -> bool {
        let guard = self.epochs.pin();
        let found = self.find(hash, key, &guard).map(|(_, _, entry)| entry);
        self.is_met(demand, found.as_ref())
    }

    /// Whether a demand is met by what was found.
    pub(super) fn is_met(&self, demand: Demand<'_>, found: Option<&Entry<'_>>) -> bool {
        let current = found.filter(|entry| self.is_current(entry.stamp));
        match demand {
            Demand::Nothing => true,
            Demand::Absent => current.is_none(),
            Demand::Value(expected) => current.is_some_and(|entry| entry.value == expected),
        }
    }
}
