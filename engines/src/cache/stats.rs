//! Figures of a cache.

use std::ops::Sub;
use std::time::Duration;

/// Figures of a cache. Counts are of this process, since the cache was opened; the difference of two is of the time
/// between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// Look-ups that found a value.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Values that were put.
    pub insertions: u64,
    /// Entries that made room for others.
    pub evictions: u64,
    /// Entries that were removed since their time was over.
    pub expired: u64,
    /// Puts that were refused: too large an entry, or nothing could make room.
    pub refused: u64,
    /// Entries that were copied to stay.
    pub kept: u64,
    /// Look-ups that found a value, by this process and those that have closed the cache before.
    pub hits_ever: u64,
    /// Look-ups that found none, by the same.
    pub misses_ever: u64,
    /// Entries now, those whose time is over and which are not removed yet among them.
    pub entries: u64,
    /// Bytes of these entries: key, value, and what belongs to each in the pool.
    pub entry_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Most bytes that it may have.
    pub capacity_bytes: u64,
    /// Bytes of memory beside the pool.
    pub volatile_bytes: u64,
    /// How long ago the oldest entries were put that have not been kept since. In a full cache this is about how long
    /// an entry stays that nobody asks for.
    pub oldest_put: Duration,
    /// How long ago the oldest entries were kept of those that were: about how often it is decided anew whether they
    /// stay.
    pub oldest_kept: Duration,
}

impl CacheStats {
    /// The part of look-ups that found a value, 0 to 1; 0 if there were none.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// Counts of the time between; all else is as it is now.
impl Sub for CacheStats {
    type Output = CacheStats;

    fn sub(self, before: CacheStats) -> CacheStats {
        CacheStats {
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            insertions: self.insertions.saturating_sub(before.insertions),
            evictions: self.evictions.saturating_sub(before.evictions),
            expired: self.expired.saturating_sub(before.expired),
            refused: self.refused.saturating_sub(before.refused),
            kept: self.kept.saturating_sub(before.kept),
            ..self
        }
    }
}
