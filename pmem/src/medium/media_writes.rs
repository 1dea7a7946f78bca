//! What reaches Optane-like media, which write blocks of 256 bytes, when lines of 64 are written
//! back.

use crate::offset::{LINE, MEDIA_BLOCK};
use std::collections::HashSet;

/// Entries of the write-combining buffer.
const BUFFER_BLOCKS: usize = 64;

/// What was written back, and what Optane-like media, which write blocks of 256 bytes, made of it,
/// by a model of the small write-combining buffer in front of them.
///
/// A line that is written back goes into the buffer, into the entry of its media block. The
/// buffer has 64 entries (16 KiB, the size that measurements of the first generation of Optane
/// modules found). A line whose block has no entry takes a new one; when none is left the least
/// recently written block is evicted, and an evicted block is one write of 256 bytes, however many
/// of its lines were written back meanwhile. At the end the buffer is drained likewise.
///
/// What was chosen, and why:
///
/// * A line is written back when it is flushed having been stored to since its last flush. A flush
///   of a clean line moves nothing on real hardware, and is not counted.
/// * Lines that are stored to and never flushed do not count. The caches will evict them some time,
///   in an order that only the processor knows, and a guess would hide what the code itself does.
/// * A block whose four lines are all there stays in the buffer like any other, so that a counter or
///   header that is written back over and over costs the media little, as it does in truth.
/// * Each thread has a buffer of its own and knows its own stores, so that counting needs no lock and
///   the result depends on no schedule. Real threads share the modules' buffers, and combine less
///   where their blocks are apart and more where they meet: added up over threads the counts are an
///   estimate. A line that another thread stored to is clean to the one that flushes it.
/// * A compare-and-swap counts as a store even if it fails: on x86-64 it writes back what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MediaWrites {
    /// Lines that were flushed having been stored to since their last flush.
    pub line_write_backs: u64,
    /// Media blocks of 256 bytes that were written.
    pub block_writes: u64,
}

impl MediaWrites {
    /// Bytes that the media wrote per byte written back: 4 where each line goes to a block of its
    /// own, 1 where blocks are filled in sequence, less where lines are written back again before
    /// the media have them. 1 if nothing was written back.
    pub fn amplification(&self) -> f64 {
        match self.line_write_backs {
            0 => 1.0,
            lines => (self.block_writes * MEDIA_BLOCK) as f64 / (lines * LINE) as f64,
        }
    }
}

impl std::ops::AddAssign for MediaWrites {
    fn add_assign(&mut self, other: MediaWrites) {
        self.line_write_backs += other.line_write_backs;
        self.block_writes += other.block_writes;
    }
}

/// The model, for the lines that one thread writes.
#[derive(Debug, Default)]
pub(super) struct WriteCombining {
    /// Lines stored to since their last flush.
    dirty: HashSet<u64>,
    /// Blocks in the buffer, the one written last at the end.
    buffer: Vec<u64>,
    writes: MediaWrites,
}

impl WriteCombining {
    pub(super) fn store(&mut self, line: u64) {
        self.dirty.insert(line);
    }

    pub(super) fn flush(&mut self, line: u64) {
        if !self.dirty.remove(&line) {
            return;
        }
        self.writes.line_write_backs += 1;
        let block = line / (MEDIA_BLOCK / LINE);
        if let Some(position) = self.buffer.iter().rposition(|&buffered| buffered == block) {
            self.buffer[position..].rotate_left(1);
            return;
        }
        if self.buffer.len() == BUFFER_BLOCKS {
            self.writes.block_writes += 1;
            self.buffer.remove(0);
        }
        self.buffer.push(block);
    }

    pub(super) fn drain(self) -> MediaWrites {
        let mut writes = self.writes;
        writes.block_writes += self.buffer.len() as u64;
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_LINES: u64 = MEDIA_BLOCK / LINE;

    /// Stores to each line and flushes it, one after another.
    fn write_back(lines: impl IntoIterator<Item = u64>) -> MediaWrites {
        let mut model = WriteCombining::default();
        for line in lines {
            model.store(line);
            model.flush(line);
        }
        model.drain()
    }

    #[test]
    fn lines_of_one_block_in_sequence_are_one_write() {
        let writes = write_back(0..4);
        assert_eq!(writes, MediaWrites { line_write_backs: 4, block_writes: 1 });
        assert_eq!(writes.amplification(), 1.0);
        let long = write_back(0..100_000);
        assert_eq!((long.block_writes, long.amplification()), (25_000, 1.0));
    }

    #[test]
    fn a_line_of_each_block_is_a_write_each() {
        // Twice through more blocks than the buffer has entries: each is evicted in between.
        let strided = (0..2).flat_map(|_| (0..65).map(|block| block * BLOCK_LINES));
        let writes = write_back(strided);
        assert_eq!(writes, MediaWrites { line_write_backs: 130, block_writes: 130 });
        assert_eq!(writes.amplification(), 4.0);
    }

    #[test]
    fn blocks_that_fit_the_buffer_are_written_once() {
        let strided = (0..4).flat_map(|line| (0..64).map(move |block| block * BLOCK_LINES + line));
        let writes = write_back(strided);
        assert_eq!(writes, MediaWrites { line_write_backs: 256, block_writes: 64 });
        let header = write_back(std::iter::repeat_n(7, 1000));
        assert_eq!(header, MediaWrites { line_write_backs: 1000, block_writes: 1 });
        assert_eq!(header.amplification(), 0.004);
    }

    #[test]
    fn the_block_evicted_is_the_one_longest_unwritten() {
        let fill = (0..64).map(|block| block * BLOCK_LINES);
        // Block 0 is written again, so block 1 makes room for block 64; block 0 is still there.
        let writes = write_back(fill.clone().chain([1, 64 * BLOCK_LINES, 2]));
        assert_eq!(writes, MediaWrites { line_write_backs: 67, block_writes: 65 });
        // Without that, block 0 makes room, and has to come in again, which evicts block 1.
        let writes = write_back(fill.chain([64 * BLOCK_LINES, 2]));
        assert_eq!(writes, MediaWrites { line_write_backs: 66, block_writes: 66 });
    }

    #[test]
    fn only_what_was_stored_and_then_flushed_counts() {
        let mut model = WriteCombining::default();
        model.flush(3);
        model.store(0);
        model.store(0);
        model.store(BLOCK_LINES);
        model.flush(0);
        model.flush(0);
        let writes = model.drain();
        assert_eq!(writes, MediaWrites { line_write_backs: 1, block_writes: 1 });
        assert_eq!(WriteCombining::default().drain().amplification(), 1.0);
    }
}
