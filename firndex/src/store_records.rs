//! The engine under a store.

use engines::clevel::{Clevel, Searches};
use index::{ItemError, Record, Records};
use pmem::medium::{KernelKeeps, Memory};
use std::ops::Deref;

/// An engine behind one virtual call; on the usual media Clevel hashing's look-ups are compiled into the
/// store's, and so into their callers.
pub(crate) struct StoreRecords {
    /// Of the same store.
    inlined: Option<Searches<Memory<KernelKeeps>>>,
    any: Box<dyn Records>,
}

impl StoreRecords {
    pub(crate) fn new(any: Box<dyn Records>) -> Self {
        StoreRecords { inlined: None, any }
    }

    pub(crate) fn clevel(clevel: Clevel<Memory<KernelKeeps>>) -> Self {
        StoreRecords { inlined: Some(clevel.searches()), any: Box::new(clevel) }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        match &self.inlined {
            Some(searches) => searches.get(key),
            None => self.any.get(key),
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
