//! Single calls where what is compiled into their callers does not suffice.

use super::Table;
use crate::{Error, Result};
use index::{Fixed, Index};
use pmem::Write;

impl<K: Fixed, V: Fixed> Table<K, V> {
    /// A change for which the hot path does not suffice, and of which it has done nothing. Out of line: so its error
    /// does not take the results of the hot path through memory.
    #[cold]
    #[inline(never)]
    pub(super) fn by_call(
        &self,
        write: Write<'_>,
        change: impl FnOnce(&dyn Index<K, V>) -> std::result::Result<Option<V>, index::Error>,
    ) -> Result<Option<V>> {
        let found = change(&*self.index)?;
        self.handle.end(write)?;
        Ok(found)
    }
}

/// A call of a pool that is watched, or after a fork or a bus error that may concern another pool. It is made as a
/// batch of one, so that the hot path is not compiled once more.
#[cold]
#[inline(never)]
pub(super) fn as_batch<V: Fixed, E: Into<Error>>(
    batch: impl FnOnce(&mut [Option<V>]) -> std::result::Result<(), E>,
) -> Result<Option<V>> {
    let mut found = [None];
    batch(&mut found).map_err(E::into)?;
    Ok(found[0])
}
