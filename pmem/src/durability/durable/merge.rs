//! Merges the log into the checkpoint that it continues.
//!
//! Replaying the log sets each word that it has to the value that it last had. So whatever part of that is in the
//! image already, the whole log leads from there to the same end: an image into which the log is being written is a
//! base at every moment, as long as the log is there. Then only the log behind it is needed.
//!
//! What is written comes from the log alone. Words that are read from the pool may be newer than the log on the device.
//! Nothing would take them back, and what they rest on might be missing.

use super::super::held;
use super::{Rejoining, Shared, State};
use crate::durability::{LogError, SafeCopy};
use crate::offset::LINE;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Merging keeps no more lines in memory than this part of the pool's, but for the least of them,
const LINES_PART: u64 = 32;
/// and no more than these: some 100 MiB.
const LINES_MAX: u64 = 1 << 20;

impl Shared {
    /// Merges the log into the checkpoint there is, whatever that writes; whether it could be done.
    pub(super) fn merge(&self) -> Result<bool, LogError> {
        self.merge_as(&held(&self.checkpointing), false)
    }

    /// The same for who is the one to do it. If `is_choice`, only if a copy would not write as little.
    ///
    /// No backup is reading: it would hold what `one` does.
    pub(super) fn merge_as(
        &self,
        _one: &MutexGuard<'_, ()>,
        is_choice: bool,
    ) -> Result<bool, LogError> {
        loop {
            match self.merge_some(is_choice)? {
                Merged::All => return Ok(true),
                Merged::Some => {}
                Merged::Nothing => return Ok(false),
            }
        }
    }

    /// How many lines of an image of so many bytes memory is taken for.
    pub(super) fn lines_max(&self, image_bytes: u64) -> usize {
        let lines = image_bytes / LINE / LINES_PART;
        lines.clamp(self.segments.sizes.lines_min, LINES_MAX) as usize
    }

    fn merge_some(&self, is_choice: bool) -> Result<Merged, LogError> {
        let is_based = held(&self.waiting).state == State::Based;
        // What is in the log by now. Nothing has to be written for it.
        let (generation, epoch, log_bytes, is_behind) = {
            let writing = held(&self.writing);
            let writer = &writing.writer;
            let is_behind = writing.rejoining == Rejoining::Behind;
            // Later ones have no end yet.
            let epoch = if is_behind { writing.epochs_before } else { writer.epoch() };
            (writer.generation(), epoch, writer.written_bytes(), is_behind)
        };
        if !is_based && !is_behind || self.is_in_doubt.load(Ordering::Relaxed) {
            return Ok(Merged::Nothing);
        }
        let Some(merge) = self.places.merge(generation, self.image.bytes(), epoch)? else {
            return Ok(Merged::Nothing);
        };
        let lines_max = self.lines_max(merge.image_bytes());
        // A log that cannot be read is needed no more when there is a copy.
        let safe = SafeCopy::up_to(Arc::clone(&self.segments.disk), epoch);
        let Ok(Some((changes, to))) = safe.and_then(|safe| safe.changes(lines_max)) else {
            return Ok(Merged::Nothing);
        };
        if changes.end() > merge.image_bytes() {
            return Ok(Merged::Nothing);
        }
        let changes = changes.in_order();
        let is_all = to.epoch == epoch;
        // A copy writes the pages that differ from an older image, with longer gaps between them. It reads that image
        // and the pool, but leaves the checkpoint as it is until it is whole.
        let bytes = changes.bytes(merge.chunk_bytes());
        if is_choice && (!is_all || bytes > merge.image_bytes() / 4 * 3) {
            return Ok(Merged::Nothing);
        }
        let segment = to.log.segment;
        let written = merge.write(&changes, to, || drop(self.provide_spare_if_lacking()))?;
        self.checkpoint_written_bytes.fetch_add(written, Ordering::Relaxed);
        if is_behind {
            // It does not have what this process has found in the pool, or done.
            held(&self.writing).obsolete_before = segment;
        } else {
            if is_all {
                self.count_checkpoint(log_bytes);
            }
            self.continue_from(generation, segment);
        }
        // All of the log may be of no use by now. If no segment can be made, the keeper says so.
        let _ = self.provide_spare();
        Ok(if is_all { Merged::All } else { Merged::Some })
    }
}

/// How much of a log was merged.
enum Merged {
    All,
    /// As much as memory is taken for.
    Some,
    Nothing,
}
