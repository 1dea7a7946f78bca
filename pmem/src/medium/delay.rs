//! A medium that is slower than the one it wraps: persistent memory on a machine that has none.

use super::blocks::{Blocks, MediaBlocks};
use super::lines::Lines;
use super::near::Near;
use super::{Medium, MediumKind, ticks};
use crate::error::SpaceError;
use crate::offset::Offset;
use crate::view::View;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What [`Delay`] adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// Nanoseconds until a line that was not touched lately arrives.
    pub read_ns: u64,
    /// Nanoseconds that each flush of a line takes.
    pub write_back_ns: u64,
    /// What lies behind the lines; `None`: lines are all there is.
    pub blocks: Option<Blocks>,
}

impl Latency {
    /// As fast to write as to read. This and the next two are the settings at which Zuo, Hua and
    /// Wu compare tables (ACM Transactions on Storage 15(2), figure 11).
    pub const READ_200_WRITE_200_NS: Latency = Latency::of_lines(200, 200);
    /// The usual setting of papers on tables in emulated persistent memory.
    pub const READ_200_WRITE_600_NS: Latency = Latency::of_lines(200, 600);
    /// Slow to write.
    pub const READ_200_WRITE_1000_NS: Latency = Latency::of_lines(200, 1000);
    /// Six Optane modules, by what is published of them. A random read takes three times DRAM's 85 ns (Li and
    /// Huang, figure 2). A write-back costs no more than DRAM's, since the modules' buffers take it.
    pub const OPTANE: Latency =
        Latency { read_ns: 170, write_back_ns: 0, blocks: Some(Blocks::SIX_OPTANE_MODULES) };

    /// Latencies of lines, without blocks.
    pub const fn of_lines(read_ns: u64, write_back_ns: u64) -> Latency {
        Latency { read_ns, write_back_ns, blocks: None }
    }
}

/// Adds latencies to a medium, as the papers' emulators do, by spinning on the processor's
/// time-stamp counter. They come on top of what the wrapped medium costs.
///
/// * **Reads.** Each thread remembers the lines it touched last, in a direct-mapped table of 512
///   that stands for its cache (32 KiB, as a first-level cache). A load of a line that is there
///   costs nothing. A load of another waits `read_ns` for it. A prefetch does not wait: it notes
///   when the line will have arrived, and a load waits for the rest of that time, so that lines
///   in flight overlap as they do in hardware. The lines of a range ([`Medium::bytes`]) are
///   requested together and overlap likewise; loads of single lines do not, although a processor
///   would overlap some of them by itself.
/// * **Stores** do not wait: the processor fetches the line behind a store buffer. They request the
///   line as a prefetch does, so a load soon after waits for it. A compare-and-swap needs the line
///   and waits like a load.
/// * **Flushes** spin `write_back_ns` per line, dirty or not, one after another (as papers do that
///   delay each `clflush`); a fence adds nothing. The line stays in the table, as with `clwb`.
/// * **Blocks** of 256 bytes, if [`Latency::blocks`] is set: [`Blocks`] says what they are.
///
/// Not modelled: lines that another thread's write takes away, and larger caches; without blocks, bandwidth.
#[derive(Debug)]
pub struct Delay<M: Medium> {
    inner: M,
    lines: Lines,
    read_ticks: u64,
    write_back_ticks: u64,
    /// The longest that a line is under way.
    read_ticks_max: u64,
    blocks: Option<MediaBlocks>,
}

/// Loads by the calling thread that waited for a line to arrive, so far, on all [`Delay`] media.
pub fn delayed_reads() -> u64 {
    DELAYED_READS.get()
}

/// How many lines a thread remembers.
const NEAR_LINES: usize = 512;
/// Arrival time of a line that is known to have arrived.
const HERE: u64 = 0;

thread_local! {
    /// The lines that a thread touched last: the model of its cache.
    static NEAR: Near<NEAR_LINES> = const { Near::new() };
    static DELAYED_READS: Cell<u64> = const { Cell::new(0) };
}

/// Without the processor's hint that it is spinning, which on some takes 40 ns or more: too coarse
/// for what is measured out here.
fn spin_ticks(from: u64, ticks: u64) {
    // Also ends if the counter steps back on a change of processor.
    while ticks::now().wrapping_sub(from) < ticks {}
}

impl<M: Medium> Delay<M> {
    /// Adds `latency` to what is done to `inner`.
    pub fn new(inner: M, latency: Latency) -> Self {
        Delay {
            inner,
            lines: Lines::new(),
            read_ticks: ticks::from_ns(latency.read_ns),
            write_back_ticks: ticks::from_ns(latency.write_back_ns),
            read_ticks_max: ticks::from_ns(latency.read_ns)
                + latency.blocks.as_ref().map_or(0, Blocks::queue_ticks_max),
            blocks: latency.blocks.as_ref().map(MediaBlocks::new),
        }
    }

    #[inline(always)]
    fn request(&self, near: &Near<NEAR_LINES>, line: u64) -> u64 {
        near.request(line, || match &self.blocks {
            None => ticks::now().wrapping_add(self.read_ticks),
            Some(blocks) => blocks.read(line, ticks::now(), self.read_ticks),
        })
    }

    /// Requests lines without waiting for them.
    #[inline(always)]
    fn approach(&self, lines: Range<u64>) {
        // The account of lines costs more than a load where none is far away.
        if self.read_ticks_max == 0 {
            return;
        }
        NEAR.with(|near| {
            for line in lines {
                self.request(near, line);
            }
        });
    }

    /// Requests lines, all at once, and waits until the last has arrived.
    #[inline(always)]
    fn arrive(&self, lines: Range<u64>) {
        if self.read_ticks_max == 0 {
            return;
        }
        NEAR.with(|near| {
            let last = lines.clone().map(|line| self.request(near, line)).max();
            if let Some(arrival) = last.filter(|&arrival| arrival != HERE) {
                self.wait(near, lines, arrival);
            }
        });
    }

    #[inline(never)]
    fn wait(&self, near: &Near<NEAR_LINES>, lines: Range<u64>, arrival: u64) {
        let now = ticks::now();
        // No line is further away than this, whatever a processor with another counter noted.
        let rest = arrival.saturating_sub(now).min(self.read_ticks_max);
        if rest > 0 {
            spin_ticks(now, rest);
            DELAYED_READS.set(DELAYED_READS.get() + 1);
        }
        lines.for_each(|line| near.set(line, HERE));
    }
}

impl<M: Medium> Medium for Delay<M> {
    fn kind(&self) -> MediumKind {
        self.inner.kind()
    }

    fn reads_slowly(&self) -> bool {
        true
    }

    #[inline]
    fn load(&self, at: Offset) -> u64 {
        self.arrive(self.lines.range(at, 8));
        self.inner.load(at)
    }

    #[inline]
    fn store(&self, at: Offset, value: u64) {
        self.approach(self.lines.range(at, 8));
        self.inner.store(at, value);
    }

    #[inline]
    fn store_release(&self, at: Offset, value: u64) {
        self.approach(self.lines.range(at, 8));
        self.inner.store_release(at, value);
    }

    #[inline]
    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.arrive(self.lines.range(at, 8));
        self.inner.compare_exchange(at, current, new)
    }

    #[inline]
    fn load_pair(&self, at: Offset) -> (u64, u64) {
        self.arrive(self.lines.range(at, 16));
        self.inner.load_pair(at)
    }

    #[inline]
    fn prefetch(&self, at: Offset) {
        self.approach(self.lines.range(at, 1));
        self.inner.prefetch(at);
    }

    #[inline]
    fn prefetch_write(&self, at: Offset) {
        self.approach(self.lines.range(at, 1));
        self.inner.prefetch_write(at);
    }

    #[inline]
    fn flush(&self, at: Offset) {
        self.inner.flush(at);
        let now = ticks::now();
        let full_ticks = self.blocks.as_ref().map_or(0, |b| b.write_back(self.lines.at(at), now));
        spin_ticks(now, self.write_back_ticks + full_ticks);
    }

    #[inline]
    fn fence(&self) {
        self.inner.fence();
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        self.approach(self.lines.range(at, bytes.len() as u64));
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.copy_in(at, bytes) };
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        // SAFETY: the caller's promise is passed on.
        let bytes = unsafe { self.inner.bytes(at, len) }?;
        // Only now is it known that there are that many lines.
        self.arrive(self.lines.range(at, len));
        Some(bytes)
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn limit(&self) -> u64 {
        self.inner.limit()
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        self.inner.grow(size)
    }

    fn cut(&self, size: u64) {
        self.inner.cut(size);
    }

    fn give_back(&self, range: Range<u64>) -> bool {
        self.inner.give_back(range)
    }

    fn take_back(&self, range: Range<u64>) -> Result<(), SpaceError> {
        self.inner.take_back(range)
    }

    fn populate(&self, range: Range<u64>) {
        self.inner.populate(range);
    }

    fn read_ahead(&self, range: Range<u64>) {
        self.inner.read_ahead(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.sync(range)
    }

    fn has_failed(&self) -> bool {
        self.inner.has_failed()
    }

    fn close_on_failure(&self, view: &Arc<View>) {
        self.inner.close_on_failure(view);
    }

    fn read_two(&self, at: Offset) -> Option<[u64; 2]> {
        self.inner.read_two(at)
    }

    fn fail(&self) {
        self.inner.fail();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{Dram, Memory};
    use crate::offset::LINE;
    use std::time::{Duration, Instant};

    /// So long that no test passes by its own slowness.
    const SLOW: Latency = Latency::of_lines(4_000_000, 3_000_000);

    fn slow() -> Delay<Dram> {
        let medium = Delay::new(Memory::dram(1 << 20).unwrap(), SLOW);
        medium.grow(1 << 20).unwrap();
        medium
    }

    /// Runs `action`, which takes no less than `ns` but for the error of the counter's rate, and
    /// returns how many reads were delayed.
    #[track_caller]
    fn delays<R>(ns_min: u64, action: impl FnOnce() -> R) -> u64 {
        let (started, before) = (Instant::now(), delayed_reads());
        action();
        let elapsed = started.elapsed();
        assert!(elapsed >= Duration::from_nanos(ns_min / 100 * 99), "{elapsed:?} for {ns_min} ns");
        delayed_reads() - before
    }

    #[test]
    fn the_first_read_of_a_line_waits() {
        let medium = slow();
        medium.inner.store(Offset(8), 5);
        assert_eq!(delays(SLOW.read_ns, || assert_eq!(medium.load(Offset(8)), 5)), 1);
        let again = delays(0, || {
            assert_eq!(medium.load_pair(Offset(0)), (0, 5));
            assert_eq!(medium.compare_exchange(Offset(8), 5, 6), Ok(5));
            medium.flush(Offset(0));
            assert_eq!(medium.load(Offset(56)), 0);
        });
        assert_eq!(again, 0);
        let others = delays(2 * SLOW.read_ns, || {
            medium.load_pair(Offset(64));
            medium.compare_exchange(Offset(128), 0, 1).unwrap();
        });
        assert_eq!(others, 2);
    }

    #[test]
    fn each_medium_and_each_thread_waits_for_its_own_lines() {
        let (one, other) = (slow(), slow());
        let read_both = || {
            one.load(Offset(0));
            other.load(Offset(0));
        };
        assert_eq!(delays(2 * SLOW.read_ns, read_both), 2);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(delays(SLOW.read_ns, || one.load(Offset(0))), 1));
        });
    }

    #[test]
    fn requested_lines_arrive_meanwhile() {
        let medium = slow();
        let requests: [fn(&Delay<Dram>, Offset); 5] = [
            |medium, at| medium.prefetch(at),
            |medium, at| medium.prefetch_write(at),
            |medium, at| medium.store(at, 1),
            |medium, at| medium.store_release(at, 1),
            // SAFETY: nobody else uses the memory.
            |medium, at| unsafe { medium.copy_in(at, &[1; 8]) },
        ];
        for (request, number) in requests.into_iter().zip(0..) {
            let at = Offset(number * 2 * LINE);
            assert_eq!(delays(0, || request(&medium, at)), 0, "request {number}");
            std::thread::sleep(Duration::from_nanos(2 * SLOW.read_ns));
            assert_eq!(delays(0, || medium.load(at)), 0, "request {number}");
            // Read at once, it has to come all the way.
            let at = at.add(LINE);
            delays(SLOW.read_ns, || {
                request(&medium, at);
                medium.load(at);
            });
        }
    }

    #[test]
    fn the_lines_of_a_range_arrive_together() {
        let medium = slow();
        let read = |at, len| {
            // SAFETY: nobody stores meanwhile.
            assert_eq!(unsafe { medium.bytes(at, len) }.unwrap().len() as u64, len);
        };
        assert_eq!(delays(SLOW.read_ns, || read(Offset(100), 1000)), 1);
        assert_eq!(delays(0, || read(Offset(64), 0)), 0);
        assert_eq!(delays(0, || read(Offset(64), 1088)), 0);
        assert_eq!(delays(SLOW.read_ns, || read(Offset(64), 1089)), 1);
    }

    #[test]
    fn each_flushed_line_takes_its_time() {
        let medium = slow();
        let flush = || {
            medium.flush_range(Offset(60), 100);
            medium.persist(Offset(0));
        };
        assert_eq!(delays(4 * SLOW.write_back_ns, flush), 0);
    }

    /// Latencies of lines as in [`SLOW`]; lines of a block that is near take a quarter.
    fn slow_blocks(read_busy_ns: u64, write_busy_ns: u64) -> Delay<Dram> {
        let blocks = Blocks { near_read_ns: SLOW.read_ns / 4, read_busy_ns, write_busy_ns };
        let latency = Latency { write_back_ns: 0, blocks: Some(blocks), ..SLOW };
        let medium = Delay::new(Memory::dram(1 << 20).unwrap(), latency);
        medium.grow(1 << 20).unwrap();
        medium
    }

    /// How long, `blocks` tells; that it is waited for, this.
    #[test]
    fn blocks_are_waited_for() {
        let took_at_least = |ns: u64, action: &dyn Fn()| {
            let started = Instant::now();
            action();
            let elapsed = started.elapsed();
            assert!(elapsed >= Duration::from_nanos(ns / 100 * 99), "{elapsed:?} for {ns} ns");
        };
        let read = SLOW.read_ns;
        let medium = slow_blocks(read, 0);
        let eight = (0..8).map(|block| Offset(256 * block));
        took_at_least(8 * read, &|| {
            // All requested at once: each keeps the media busy as long as a read takes.
            eight.clone().for_each(|at| medium.prefetch(at));
            eight.clone().for_each(|at| _ = medium.load(at));
        });
        took_at_least(read / 4, &|| _ = medium.load(Offset(LINE)));
        let busy = 1_000_000;
        let medium = slow_blocks(0, busy);
        let blocks = super::super::blocks::BUFFER_BLOCKS as u64;
        took_at_least(7 * busy, &|| {
            (0..blocks + 8).for_each(|block| medium.flush(Offset(256 * block)));
        });
    }
}
