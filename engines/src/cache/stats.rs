//! Figures of a cache.

use super::segments::{Lists, Queue};
use super::{Cache, Count};
use pmem::Medium;
use pmem::sync::Ordering;
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

impl<M: Medium> Cache<M> {
    /// Figures of the cache. What an opening has found is [counted](Cache::count_all) before.
    pub fn stats(&self) -> CacheStats {
        self.count_all();
        let with_items = self.segments.iter().filter(|one| one.has_items());
        let entry_bytes = with_items.map(|one| one.live_bytes.load(Ordering::Relaxed)).sum();
        let (index_segments, [oldest_put, oldest_kept]) = {
            let lists = self.lists.lock();
            (lists.index_segments, [Queue::Small, Queue::Main].map(|queue| self.age(&lists, queue)))
        };
        let bytes = self.arena.segment_bytes();
        CacheStats {
            hits: self.counted(Count::Hits),
            misses: self.counted(Count::Misses),
            insertions: self.counted(Count::Insertions),
            evictions: self.counted(Count::Evictions),
            expired: self.counted(Count::Expired),
            refused: self.counted(Count::Refused),
            kept: self.counted(Count::Kept),
            hits_ever: self.looked_up()[0],
            misses_ever: self.looked_up()[1],
            entries: self.len(),
            entry_bytes,
            index_bytes: u64::from(index_segments) * bytes,
            pool_bytes: self.arena.pool().superblock().end,
            capacity_bytes: self.settings.capacity_bytes,
            volatile_bytes: self.hits.bytes()
                + self.sketch.bytes()
                + self.wheel.bytes()
                + size_of_val(&*self.segments) as u64,
            oldest_put,
            oldest_kept,
        }
    }

    /// How long ago the oldest segment of a queue was begun that has items.
    fn age(&self, lists: &Lists, queue: Queue) -> Duration {
        let has_items = |&&(number, sequence): &&(u32, u64)| {
            let segment = &self.segments[number as usize];
            segment.sequence.load(Ordering::Relaxed) == sequence
                && segment.has_items()
                && segment.live.load(Ordering::Relaxed) > 0
        };
        let oldest = lists.queues[queue as usize].iter().find(has_items);
        oldest.map_or(Duration::ZERO, |&(number, _)| {
            Duration::from_millis(self.now_ms().saturating_sub(self.arena.time(number)))
        })
    }
}
