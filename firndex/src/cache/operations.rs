//! What a cache does, whoever does it: this process, or the pool's owner for it.

use crate::store::Record;
use crate::{CacheStats, Error, Result};
pub(crate) use engines::cache::Demand;
use engines::cache::{self, CacheError, KEYS_AHEAD, Walk};
use index::{CheckReport, Done, Unfinished};
use pmem::medium::Memory;
use std::sync::Arc;
use std::time::Duration;

/// When an entry is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Never,
    /// So many milliseconds from now on. What time it is now, the owner says: its clock does not go back.
    AfterMs(u64),
    /// In milliseconds since 1970.
    AtMs(u64),
}

impl End {
    pub(crate) fn after(time: Duration) -> End {
        End::AfterMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// The moment, in milliseconds since 1970; 0 stands for no end.
    fn moment(self, cache: &Owned) -> u64 {
        match self {
            End::Never => 0,
            End::AfterMs(ms) => cache.now_ms().saturating_add(ms).max(1),
            End::AtMs(ms) => ms.max(1),
        }
    }
}

/// The owner's operations.
pub(crate) type Owned = cache::Cache<Memory>;

/// A walk over all entries.
pub(crate) trait Entries {
    /// Adds the next few keys and values. Returns whether there may be more.
    fn take_some(&mut self, entries: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<bool>;
}

/// Operations of a cache, as the methods of [`Cache`](crate::Cache) say.
pub(crate) trait CacheOperations: Send + Sync {
    fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>>;
    fn get_many<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Option<Record<'a>>>>;
    /// As [`get`](CacheOperations::get), but it is no hit.
    fn peek(&self, key: &[u8]) -> Result<Option<Record<'_>>>;
    fn put(&self, key: &[u8], value: &[u8], end: End) -> Result<()>;
    /// As [`put`](CacheOperations::put), if what is there is as demanded; whether it was.
    fn put_if(&self, key: &[u8], value: &[u8], end: End, demand: Demand<'_>) -> Result<bool>;
    fn put_many(&self, pairs: &[(&[u8], &[u8])])
    -> std::result::Result<(), Unfinished<Box<Error>>>;
    fn touch(&self, key: &[u8], end: End) -> Result<bool>;
    /// `None`: it is not there; `Some(None)`: it has no end.
    fn time_left(&self, key: &[u8]) -> Result<Option<Option<Duration>>>;
    fn remove(&self, key: &[u8]) -> Result<bool>;
    /// Whether each key was there.
    fn remove_many(&self, keys: &[&[u8]])
    -> std::result::Result<Vec<bool>, Unfinished<Box<Error>>>;
    fn clear(&self) -> Result<()>;
    fn entries(&self) -> Box<dyn Entries + '_>;
    fn stats(&self) -> Result<CacheStats>;
    fn len(&self) -> u64;
    fn check(&self) -> CheckReport;

    /// The engine, if this process opened the pool as its owner.
    fn owned(self: Arc<Self>) -> Option<Arc<Owned>>;
}

impl CacheOperations for Owned {
    fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>> {
        Ok(Owned::get(self, key).map(Record::new))
    }

    fn get_many<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Option<Record<'a>>>> {
        Ok(Owned::get_many(self, keys).into_iter().map(|found| found.map(Record::new)).collect())
    }

    fn peek(&self, key: &[u8]) -> Result<Option<Record<'_>>> {
        Ok(Owned::peek(self, key).map(Record::new))
    }

    fn put(&self, key: &[u8], value: &[u8], end: End) -> Result<()> {
        Ok(Owned::put(self, key, value, end.moment(self))?)
    }

    fn put_if(&self, key: &[u8], value: &[u8], end: End, demand: Demand<'_>) -> Result<bool> {
        Ok(Owned::put_if(self, key, value, end.moment(self), demand)?)
    }

    fn put_many(
        &self,
        pairs: &[(&[u8], &[u8])],
    ) -> std::result::Result<(), Unfinished<Box<Error>>> {
        for (place, (key, value)) in pairs.iter().enumerate() {
            if place % KEYS_AHEAD == 0 {
                self.fetch(pairs[place..].iter().map(|(key, _)| *key));
            }
            CacheOperations::put(self, key, value, End::Never).map_err(|error| Unfinished {
                error: error.into(),
                failed: place,
                done: Done::first(place),
            })?;
        }
        Ok(())
    }

    fn touch(&self, key: &[u8], end: End) -> Result<bool> {
        Ok(Owned::touch(self, key, end.moment(self)))
    }

    fn time_left(&self, key: &[u8]) -> Result<Option<Option<Duration>>> {
        let left = |expires_ms: u64| match expires_ms {
            0 => None,
            _ => Some(Duration::from_millis(expires_ms.saturating_sub(self.now_ms()))),
        };
        Ok(self.expires_ms(key).map(left))
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(Owned::remove(self, key))
    }

    fn remove_many(
        &self,
        keys: &[&[u8]],
    ) -> std::result::Result<Vec<bool>, Unfinished<Box<Error>>> {
        Ok(keys.iter().map(|key| Owned::remove(self, key)).collect())
    }

    fn clear(&self) -> Result<()> {
        Owned::clear(self).map_err(Error::PoolFull)
    }

    fn entries(&self) -> Box<dyn Entries + '_> {
        Box::new(OwnEntries { cache: self, walk: Walk::new() })
    }

    fn stats(&self) -> Result<CacheStats> {
        Ok(Owned::stats(self))
    }

    fn len(&self) -> u64 {
        Owned::len(self)
    }

    fn check(&self) -> CheckReport {
        Owned::check(self)
    }

    fn owned(self: Arc<Self>) -> Option<Arc<Owned>> {
        Some(self)
    }
}

struct OwnEntries<'a> {
    cache: &'a Owned,
    walk: Walk,
}

impl Entries for OwnEntries<'_> {
    fn take_some(&mut self, entries: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<bool> {
        let mut add = |key: &[u8], value: &[u8]| entries.push((key.to_vec(), value.to_vec()));
        Ok(self.cache.walk_on(&mut self.walk, &mut add))
    }
}

impl From<CacheError> for Error {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::KeyTooLong { found, limit } => {
                Error::Limit(index::ItemError::KeyTooLong { found, limit })
            }
            CacheError::TooLarge { found, limit } => Error::TooLarge { found, limit },
            CacheError::Space(full) => Error::PoolFull(full),
            _ => Error::CacheHeld,
        }
    }
}
