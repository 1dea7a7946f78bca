//! The engine under a store.

use crate::handle::PoolHandle;
use engines::clevel::{Clevel, Searches};
use index::{ItemError, Record, Records};
use pmem::OpenError;
use pmem::medium::{KernelKeeps, Memory};
use std::ops::Deref;
use std::sync::Arc;

/// An engine behind one virtual call; on the usual media Clevel hashing's look-ups are compiled into the
/// store's, and so into their callers.
pub(crate) struct StoreRecords {
    /// Of the same store.
    inlined: Option<Searches<Memory<KernelKeeps>>>,
    any: Box<dyn Records>,
    /// The pool that is told, in the end, how many keys there are.
    pool: Option<Arc<dyn PoolHandle>>,
}

impl StoreRecords {
    pub(crate) fn new(any: Box<dyn Records>) -> Self {
        StoreRecords { inlined: None, any, pool: None }
    }

    pub(crate) fn clevel(clevel: Clevel<Memory<KernelKeeps>>) -> Self {
        StoreRecords { inlined: Some(clevel.searches()), any: Box::new(clevel), pool: None }
    }

    /// Compares the number of keys with the one that `pool` had when it was closed, and from now on tells
    /// it.
    pub(crate) fn count_in(&mut self, pool: &Arc<dyn PoolHandle>) -> Result<(), OpenError> {
        pool.compare_pairs(&|| self.any.len())?;
        self.pool = Some(Arc::clone(pool));
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        match &self.inlined {
            Some(searches) => searches.get(key),
            None => self.any.get(key),
        }
    }
}

impl Drop for StoreRecords {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.record_pairs(&|| self.any.len());
        }
    }
}

/// Everything else.
impl Deref for StoreRecords {
    type Target = dyn Records;

    fn deref(&self) -> &Self::Target {
        &*self.any
    }
}
