//! What every table of buckets has besides them.

use super::hash::HOMES;
use super::log::Log;
use super::scans::Scans;
use index::Fixed;
use index::hash::Hasher;
use pmem::sync::{Array, AtomicU64};
use pmem::{Offset, OpenError};
use std::io;

/// Hash functions, homes, log and scans.
pub(crate) struct Shared<K> {
    pub(crate) hasher: Hasher,
    pub(crate) homes: Array<AtomicU64>,
    pub(crate) log: Log,
    pub(crate) scans: Scans<K>,
}

impl<K: Fixed> Shared<K> {
    /// With the log at an offset, for values `V`.
    pub(crate) fn new<V: Fixed>(hash_seed: u64, log: Offset) -> Result<Self, OpenError> {
        let hasher = Hasher::new(hash_seed);
        Ok(Shared {
            homes: Array::reserve(HOMES, HOMES).map_err(no_sidecar)?,
            log: Log::new::<V>(log, hasher),
            scans: Scans::default(),
            hasher,
        })
    }
}

/// The system grants no memory.
pub(crate) fn no_sidecar(source: io::Error) -> OpenError {
    OpenError::Io { action: "reserving memory for", path: "the table's sidecar".into(), source }
}
