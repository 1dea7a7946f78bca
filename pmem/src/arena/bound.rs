//! How many segments a cache may have, and which ones it does without.

use super::{OWNER, SEGMENT_LOG2_MAX, SEGMENT_LOG2_MIN};
use crate::superblock::{PoolKind, Superblock};
use std::ops::Range;

/// Which of the engine's roots is the capacity of the cache in bytes. 0: none was set yet.
pub const CAPACITY_ROOT: usize = 1;
/// Which of the engine's parameters is the size of segments.
pub const SEGMENT_PARAMETER: usize = 0;
/// Fewest segments of a cache.
pub const SEGMENTS_MIN: u64 = if cfg!(feature = "simulated") { 8 } else { 48 };

/// What a pool has beside its segments, if it is small and if it is large.
pub const BESIDE_BYTES: u64 = 16 << 10;
const BESIDE_BYTES_LARGE: u64 = 3 << 20;
/// From which size on it is large.
const LARGE_BYTES: u64 = 256 << 20;

/// How many segments a cache of this capacity may have.
pub fn segments_within(capacity_bytes: u64, segment_log2: u32) -> u32 {
    let beside = if capacity_bytes < LARGE_BYTES { BESIDE_BYTES } else { BESIDE_BYTES_LARGE };
    let limit = u32::try_from(capacity_bytes.saturating_sub(beside) >> segment_log2);
    limit.unwrap_or(u32::MAX).max(SEGMENTS_MIN as u32)
}

/// Of a closed or crashed cache whose capacity has become smaller: what lies beyond it, and needs no space.
pub(crate) fn vacant_range(superblock: &Superblock) -> Option<Range<u64>> {
    let segment_log2 = u32::try_from(superblock.engine_params[SEGMENT_PARAMETER]).ok()?;
    let capacity_bytes = superblock.engine_roots[CAPACITY_ROOT];
    let is_known =
        capacity_bytes > 0 && (SEGMENT_LOG2_MIN..=SEGMENT_LOG2_MAX).contains(&segment_log2);
    if superblock.kind != PoolKind::Cache || !is_known {
        return None;
    }
    let extent = superblock.extents.iter().find(|extent| extent.owner == OWNER)?;
    let limit = u64::from(segments_within(capacity_bytes, segment_log2)) << segment_log2;
    let end = extent.start.0.checked_add(extent.bytes)?;
    let start = extent.start.0.checked_add(limit)?;
    (start < end && end <= superblock.end).then_some(start..end)
}
