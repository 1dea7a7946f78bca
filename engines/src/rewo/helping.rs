//! What helpers do: they empty buckets during a resize, and have the next data table at hand.

use super::geometry::Geometry;
use super::layout::{BUCKET_BYTES, LOG2_MAX, RECORD_WORDS, TABLES};
use super::{Core, NO_BASE, base_of};
use crate::helper::{Background, Refused, Signal};
use index::Fixed;
use pmem::Medium;
use pmem::sync::Ordering;

/// Buckets that a helper empties with one right to write: some 20 us of work, for which a sync waits.
const BUCKETS_PER_TURN: u64 = 16;
/// How far below the load factor of an extension the next data table is asked for.
const PREPARE_WITHIN: f64 = 0.1;

impl<M: Medium, K: Fixed, V: Fixed> Background for Core<M, K, V> {
    /// Some 150 us of work.
    const TURNS_AT_ONCE: Option<u32> = Some(8);

    fn signal(&self) -> &Signal {
        &self.signal
    }

    fn is_resizing(&self) -> bool {
        self.geometry().is_resizing()
    }

    fn take_turn(&self) -> Result<(), Refused> {
        let _write = self.pool.write().map_err(|_| Refused)?;
        self.empty_next(BUCKETS_PER_TURN);
        Ok(())
    }

    fn prepare(&self) {
        let geometry = self.geometry();
        if self.has_next_table(geometry) {
            return;
        }
        // Refused now, it is asked for again when the extension is due, and reported there.
        let _ = self.pool.prepare(BUCKET_BYTES << geometry.log2());
    }

    fn take_space(&self) -> Result<(), Refused> {
        let geometry = self.geometry();
        if self.has_next_table(geometry) {
            return Ok(());
        }
        let _write = self.pool.write().map_err(|_| Refused)?;
        let _beginning = self.beginning.lock();
        if self.geometry() != geometry || self.has_next_table(geometry) {
            return Ok(());
        }
        let (table, log2) = (self.next_table(geometry), geometry.log2());
        let extent = self
            .pool
            .extend(|draft| draft.take_extent(TABLES, table as u8, BUCKET_BYTES << log2))
            .map_err(|_| Refused)?;
        let base = base_of(table, &self.shape, extent.start);
        self.bases[table].store(base, Ordering::Release);
        let records = RECORD_WORDS << log2;
        self.records.advise(records..2 * records, true);
        Ok(())
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// The data table that an extension adds.
    fn next_table(&self, geometry: Geometry) -> usize {
        1 + (geometry.log2() - self.shape.initial_log2) as usize
    }

    /// Whether the next data table has its extent, or there can be none.
    fn has_next_table(&self, geometry: Geometry) -> bool {
        geometry.is_resizing()
            || geometry.log2() >= LOG2_MAX
            || RECORD_WORDS << (geometry.log2() + 1) > self.records.len()
            || self.bases[self.next_table(geometry)].load(Ordering::Acquire) != NO_BASE
    }

    /// Asks a helper for the next data table if an extension is near.
    pub(super) fn prepare_if_near(&self, geometry: Geometry, load_factor: f64) {
        let resize_at = self.settings.resize_at;
        if self.signal.has_helper()
            && resize_at <= 1.0
            && load_factor >= resize_at - PREPARE_WITHIN
            && !self.has_next_table(geometry)
        {
            self.signal.ask_to_prepare();
        }
    }
}
