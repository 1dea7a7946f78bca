//! Blocks of 256 bytes, in which Optane-like media are read and written: for [`Delay`](super::Delay).

use super::near::Near;
use super::ticks;
use crate::offset::{LINE, MEDIA_BLOCK};
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that a thread's share of the modules' buffers holds, as [`MediaWrites`](super::MediaWrites) has it.
pub(super) const BUFFER_BLOCKS: usize = 64;
/// The longest queue of blocks that a read waits for: a guard against counters that differ between processors.
const QUEUE_BLOCKS_MAX: u64 = 1024;

/// Media that are read and written in blocks of 256 bytes.
///
/// * **Buffer.** Each thread remembers the last 64 blocks that it read, direct-mapped. A line of such a block takes
///   `near_read_ns` instead of [`Latency::read_ns`](super::Latency), but arrives no sooner than its block does.
/// * **Bandwidth of reads.** All threads share a clock: a block that is read keeps the media busy for `read_busy_ns`,
///   and a line waits for the blocks that were asked for before its own.
/// * **Bandwidth of writes.** Likewise with `write_busy_ns` for each block that a flushed line belongs to, unless it
///   is among the last 64 blocks that the thread wrote back: then it is combined with that. A flush itself waits only
///   while more than 64 blocks are in front of it.
///
/// Not modelled: reads and writes do not slow each other down; a line just written is not read any faster; real
/// threads share the buffers and combine less or more; modules are not told apart, so none of them is a bottleneck
/// before the others; whether a flushed line was dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Nanoseconds until a line arrives whose block the thread read lately.
    pub near_read_ns: u64,
    /// Nanoseconds that all media together are busy with reading a block; 0: no limit.
    pub read_busy_ns: u64,
    /// Nanoseconds that all media together are busy with writing a block; 0: no limit.
    pub write_busy_ns: u64,
}

impl Blocks {
    /// Six modules of Optane's first generation, after Yang et al., *An Empirical Guide to the Behavior and Use of
    /// Scalable Persistent Memory* (FAST 2020): 6.6 GB/s of reads and 2.3 GB/s of writes a module, and sequential
    /// reads 70 ns slower than DRAM's.
    pub const SIX_OPTANE_MODULES: Blocks =
        Blocks { near_read_ns: 70, read_busy_ns: 6, write_busy_ns: 19 };

    /// The longest that a read waits for other blocks.
    pub(super) fn queue_ticks_max(&self) -> u64 {
        ticks::from_ns(self.read_busy_ns * QUEUE_BLOCKS_MAX)
    }
}

thread_local! {
    static READ: Near<BUFFER_BLOCKS> = const { Near::new() };
    static WRITTEN: Near<BUFFER_BLOCKS> = const { Near::new() };
}

/// The blocks of one medium, as its threads share them.
#[derive(Debug)]
pub(super) struct MediaBlocks {
    near_ticks: u64,
    reads: Queue,
    writes: Queue,
}

impl MediaBlocks {
    pub(super) fn new(blocks: &Blocks) -> MediaBlocks {
        MediaBlocks {
            near_ticks: ticks::from_ns(blocks.near_read_ns),
            reads: Queue::new(blocks.read_busy_ns),
            writes: Queue::new(blocks.write_busy_ns),
        }
    }

    /// When a line arrives that is requested now; one of a block that is not near takes `read_ticks`.
    pub(super) fn read(&self, line: u64, now: u64, read_ticks: u64) -> u64 {
        READ.with(|near| {
            let arrival =
                near.request(block_of(line), || self.reads.join(now).wrapping_add(read_ticks));
            arrival.max(now.wrapping_add(self.near_ticks))
        })
    }

    /// Takes a line that is written back; returns for how many ticks there is no room for it.
    pub(super) fn write_back(&self, line: u64, now: u64) -> u64 {
        if WRITTEN.with(|near| near.touch(block_of(line))) {
            return 0;
        }
        let room = BUFFER_BLOCKS as u64 * self.writes.ticks_each;
        self.writes.join(now).saturating_sub(now).saturating_sub(room)
    }
}

fn block_of(line: u64) -> u64 {
    line / (MEDIA_BLOCK / LINE)
}

/// Work that is done one after another, for all threads.
#[derive(Debug)]
struct Queue {
    ticks_each: u64,
    /// Tick at which everything is done that was asked for.
    busy_until: AtomicU64,
}

impl Queue {
    fn new(ns_each: u64) -> Queue {
        Queue { ticks_each: ticks::from_ns(ns_each), busy_until: AtomicU64::new(0) }
    }

    /// The tick at which what is asked for now begins.
    fn join(&self, now: u64) -> u64 {
        if self.ticks_each == 0 {
            return now;
        }
        let after = |until: u64| Some(until.max(now).wrapping_add(self.ticks_each));
        // Relaxed: the word is a clock, nothing is published by it.
        let before = self.busy_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        before.unwrap_or_else(|until| until).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES_PER_BLOCK: u64 = MEDIA_BLOCK / LINE;
    const NOW: u64 = 1 << 40;
    const READ_TICKS: u64 = 5000;

    fn media(read_busy_ns: u64, write_busy_ns: u64) -> MediaBlocks {
        MediaBlocks::new(&Blocks { near_read_ns: 100, read_busy_ns, write_busy_ns })
    }

    #[test]
    fn further_lines_of_a_block_come_from_its_buffer() {
        let media = media(0, 0);
        let line = 7 * LINES_PER_BLOCK;
        let arrival = NOW + READ_TICKS;
        assert_eq!(media.read(line, NOW, READ_TICKS), arrival);
        // No sooner than the block.
        assert_eq!(media.read(line + 1, NOW, READ_TICKS), arrival);
        let later = arrival + 1;
        assert_eq!(media.read(line + 2, later, READ_TICKS), later + ticks::from_ns(100));
        let next_block = line + LINES_PER_BLOCK;
        assert_eq!(media.read(next_block, later, READ_TICKS), later + READ_TICKS);
    }

    #[test]
    fn blocks_are_read_one_after_another() {
        let arrivals = |media: &MediaBlocks| -> Vec<u64> {
            let lines = (100..108).map(|block| block * LINES_PER_BLOCK);
            lines.map(|line| media.read(line, NOW, READ_TICKS)).collect()
        };
        let busy = ticks::from_ns(50);
        let queued: Vec<u64> = (0..8).map(|nth| NOW + nth * busy + READ_TICKS).collect();
        assert_eq!(arrivals(&media(50, 0)), queued);
        // Another thread's buffer: those blocks are near by now.
        let unlimited = std::thread::spawn(move || arrivals(&media(0, 0))).join().unwrap();
        assert_eq!(unlimited, [NOW + READ_TICKS; 8]);
    }

    #[test]
    fn write_backs_wait_once_the_buffer_is_full() {
        let media = media(0, 50);
        let busy = ticks::from_ns(50);
        let full = BUFFER_BLOCKS as u64;
        for block in 0..full + 8 {
            let waits = media.write_back((500 + block) * LINES_PER_BLOCK, NOW);
            assert_eq!(waits, block.saturating_sub(full) * busy, "block {block}");
        }
        // One block, over and over, is combined.
        assert_eq!(media.write_back((507 + full) * LINES_PER_BLOCK + 1, NOW), 0);
        // What was asked for is done after a while.
        assert_eq!(media.write_back(1000 * LINES_PER_BLOCK, NOW + (full + 8) * busy), 0);
    }
}
