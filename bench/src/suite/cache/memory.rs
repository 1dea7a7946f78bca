//! What a cache takes beside keys and values.

use super::{Trial, room_for};
use crate::cache::{Cache, Room};
use crate::row::Row;
use crate::suite::space::resident_bytes;
use anyhow::Result;
use workload::trace::PAIR_BYTES;

/// A cache has room for this part of the pairs that are put.
const PART: u64 = 2;

impl Trial<'_> {
    /// Fills a cache, and looks what it takes: as it tells, or the anonymous memory of this process less what it was
    /// before. The latter misses what an earlier cache has left behind in the allocator.
    pub(super) fn memory<C: Cache>(&self, make: &impl Fn(Room) -> Result<C>) -> Result<Vec<Row>> {
        let numbers: Vec<u64> = (0..self.setting.pairs).collect();
        let before = resident_bytes()?;
        let cache = make(room_for((self.setting.pairs / PART).max(1)))?;
        self.pairs.put_all(&cache, &numbers)?;
        cache.settle()?;
        let bytes = match cache.bytes()? {
            Some(bytes) => bytes,
            None => resident_bytes()?.saturating_sub(before),
        };
        let pairs = self.pairs.get_all(&cache, &numbers)?.hits;
        let beside = bytes as f64 / pairs.max(1) as f64 - f64::from(PAIR_BYTES);
        // Less than keys and values take cannot be all.
        let beside_bytes_per_pair = (beside >= 0.0).then_some(beside);
        Ok(vec![Row { pairs: Some(pairs), beside_bytes_per_pair, ..self.row("memory") }])
    }
}
