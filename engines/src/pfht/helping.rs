//! What helpers do: they empty buckets during a resize, and have memory at hand for the next data table.

use super::Core;
use super::layout::{BUCKET_BYTES, RECORD_WORDS};
use crate::directory::Geometry;
use crate::helper::{Background, Refused, Signal};
use index::Fixed;
use pmem::Medium;
use pmem::sync::Ordering;

/// Buckets that a helper empties with one right to write: some 20 us of work, for which a sync waits.
const BUCKETS_PER_TURN: u64 = 16;
/// How far below the load factor of an extension the memory for it is asked for.
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
        let geometry = self.geometry();
        let undrained = self.progress.undrained(geometry.generation());
        self.empty_next(BUCKETS_PER_TURN);
        if self.geometry() != geometry
            || self.progress.undrained(geometry.generation()) != undrained
        {
            self.visited_in_vain.store(0, Ordering::Relaxed);
            return Ok(());
        }
        // Once around, and nothing could be moved: what is left waits for room, which only writers make.
        let visited = self.visited_in_vain.fetch_add(BUCKETS_PER_TURN, Ordering::Relaxed);
        let sources = geometry.sources();
        if visited + BUCKETS_PER_TURN < sources.end - sources.start {
            return Ok(());
        }
        self.visited_in_vain.store(0, Ordering::Relaxed);
        Err(Refused)
    }

    fn prepare(&self) {
        let log2 = self.geometry().log2();
        // Refused now, it is asked for again when the extension is due, and reported there.
        let table = 1 + (log2 - self.shape.initial_log2) as usize;
        let _ = self.pool.prepare((BUCKET_BYTES << log2) + self.stash.bytes_of(table));
        let records = RECORD_WORDS << log2;
        if 2 * records <= self.records.len() {
            self.records.advise(records..2 * records, true);
        }
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Asks a helper for the space of the next data table if an extension is near; once for each.
    pub(super) fn prepare_if_near(&self, geometry: Geometry, load_factor: f64) {
        let (resize_at, next_log2) = (self.settings.resize_at, u64::from(geometry.log2()) + 1);
        if self.signal.has_helper()
            && resize_at <= 1.0
            && load_factor >= resize_at - PREPARE_WITHIN
            && self.prepared_log2.swap(next_log2, Ordering::Relaxed) != next_log2
        {
            self.signal.ask_to_prepare();
        }
    }
}
