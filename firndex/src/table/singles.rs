//! Changes and look-ups of single keys.

use super::Table;
use super::here::Here;
use crate::Result;
use index::{Fixed, Index};
use pmem::sync::Numbered;

impl<K: Fixed, V: Fixed> Table<K, V> {
    /// `None`: call [`Table::change`], as if what is here does not suffice.
    #[inline(always)]
    pub(super) fn here(&self) -> Option<Here<'_>> {
        let hot = self.index.changes()?;
        let thread = Numbered::this_thread()?;
        let write = self.pool.handle.enter_here(thread, hot.asymmetric)?;
        Some(Here { hot, thread, write })
    }

    /// Any change.
    #[inline(always)]
    pub(super) fn change(
        &self,
        change: impl FnOnce(&dyn Index<K, V>) -> std::result::Result<Option<V>, index::Error>,
    ) -> Result<Option<V>> {
        self.pool.handle.mutate(|| Ok(change(&*self.index)?))
    }

    /// A look-up of a handle that is watched, or after a fork or a bus error that may concern another one.
    #[cold]
    #[inline(never)]
    pub(super) fn get_disturbed(&self, key: K) -> Result<Option<V>> {
        if let Some(found) = self.index.see(key) {
            return Ok(found);
        }
        self.pool.handle.look(|| Ok(self.index.get(key)))
    }
}
