//! Flushes and fences where there is something to do.

use super::{LINE_LOG2, Memory};
use crate::line_log::{Flushed, Sequence};
use crate::medium::Medium;
use crate::offset::{LINE, Offset, WORD};

impl Memory {
    /// A call where there is something to do: it takes far less than that, and less room in every engine.
    #[inline(never)]
    pub(super) fn flush_range_by_call(&self, at: Offset, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(log) = &self.log {
            let first = at.0 / WORD;
            let words = at.add(bytes).0.div_ceil(WORD) - first;
            return log.note(Offset(first * WORD), words, |at| self.load(at));
        }
        for line in at.line()..=at.add(bytes - 1).line() {
            let line = self.aligned::<LINE_LOG2>(Offset(line * LINE));
            // SAFETY: `aligned` has checked that the line lies in the reservation; a line without
            // memory behind it faults and harms nothing.
            unsafe { self.flush.flush(line.cast()) };
        }
    }

    /// As above.
    #[inline(never)]
    pub(super) fn fence_by_call(&self) {
        match &self.log {
            Some(log) => log.fence(|at| self.load(at)),
            None => self.flush.fence(),
        }
    }

    /// As above.
    #[inline(never)]
    pub(super) fn flush_pair_by_call(&self, at: Offset, sequence: Sequence) {
        match &self.log {
            Some(log) => log.note_pair(at, sequence, |at| self.load(at)),
            None => self.flush_range_by_call(at, 2 * WORD),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn persist_observed_by_call(&self, at: Offset) {
        if let Some(log) = &self.log {
            log.append_observed(&[Flushed { at, words: 2 }], |at| self.load(at));
        }
    }

    /// As above.
    #[inline(never)]
    pub(super) fn persist_pair_by_call(&self, at: Offset, sequence: Sequence) {
        if let Some(log) = &self.log {
            // Word by word: a load of both would wait until a store to one of them has left the store buffer.
            return log.append_pair(at, sequence, |at| self.load_two(at));
        }
        self.flush_range_by_call(at, 2 * WORD);
        self.fence_by_call();
    }
}
