//! Real memory: a reserved address range into which a file or anonymous pages are mapped as the
//! pool grows, so that no reader ever sees an address change.

use super::huge::Haste;
use super::reservation::Reservation;
use super::space::Space;
use super::write_back::CacheFlush;
use super::{Medium, MediumKind};
use crate::bus::Watch;
use crate::error::SpaceError;
use crate::file::mark_boot;
use crate::line_log::{LineLog, Sequence};
use crate::offset::{LINE, Offset, WORD};
use crate::pair;
use crate::prefetch::{prefetch, prefetch_write};
use crate::sync::Mutex;
use crate::view::View;
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, MsyncFlags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

mod flushing;
mod foreign;
mod growth;
mod racing;
#[cfg(test)]
mod tests;

pub(crate) use foreign::written_over;

/// Anonymous memory: nothing survives the process.
pub type Dram = Memory;
/// A file mapped shared: the kernel keeps every store, whatever happens to the process.
pub type Mapped = Memory;
/// A file on a DAX file system mapped with MAP_SYNC: flushed lines survive power loss.
pub type Dax = Memory;

const LINE_LOG2: u32 = LINE.ilog2();

/// For how long growth ahead goes on without haste. Who closes the pool waits for it.
const AHEAD_TIME_MAX: Duration = Duration::from_millis(500);

/// How often a reader looks whether a writer is done before it does the writer's work.
const LOOKS_AT_LOCK: u32 = 64;
#[derive(Debug)]
enum Backing {
    Anonymous,
    File { file: File, map: MapFlags, writable: bool },
}

/// Mapped memory.
#[derive(Debug)]
pub struct Memory {
    /// Watches the mapping of the file; dropped before either is gone.
    watch: Option<Watch>,
    /// Another program has put something else into the file.
    is_written_over: AtomicBool,
    reservation: Reservation,
    size: AtomicU64,
    /// The limit that was set, if there are addresses for as much.
    size_max: u64,
    /// Whether there are not.
    lacks_addresses: bool,
    /// Serialises growth, a step at a time.
    growing: Mutex<Space>,
    backing: Backing,
    kind: MediumKind,
    flush: CacheFlush,
    /// Where what is flushed goes, if it is [`CacheFlush::Logged`].
    log: Option<Arc<LineLog>>,
}

// SAFETY: the reservation's pointers name the mapping that this value owns until it is dropped. All access
// to it is by atomics, by assembly, or by `unsafe` methods whose callers exclude races.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Anonymous memory that may grow to `size_max` bytes, for which addresses are reserved: a tebibyte at most.
    pub fn dram(size_max: u64) -> io::Result<Dram> {
        Memory::reserve(Backing::Anonymous, MediumKind::Dram, CacheFlush::Nothing, 0, size_max)
    }

    /// The first `size` bytes of `file`, mapped shared; may grow to `size_max` bytes if
    /// `writable`.
    pub fn mapped(file: File, size: u64, size_max: u64, writable: bool) -> io::Result<Mapped> {
        let backing = Backing::File { file, map: MapFlags::SHARED, writable };
        let flush = CacheFlush::Nothing;
        let memory = Memory::reserve(backing, MediumKind::Mapped, flush, size, size_max)?;
        memory.map_existing(size)?;
        Ok(memory)
    }

    /// The same memory, of the same kind and with the same promise, that pays for flushes and
    /// fences as [`Memory::dax`] does: for measuring what they cost where there is no DAX.
    pub fn flushed(self, flush: CacheFlush) -> Memory {
        Memory { flush, ..self }
    }

    /// The same memory, whose flushes and fences append to `log`, so that what they make durable survives power loss.
    pub fn logged(self, log: Arc<LineLog>) -> Memory {
        Memory { flush: CacheFlush::Logged, log: Some(log), ..self }
    }

    /// The same memory, which fails instead of ending the process when a page of its file vanishes: see
    /// [`Medium::has_failed`]. Installs a handler of SIGBUS, once for the process.
    pub fn watched(mut self) -> io::Result<Memory> {
        if let Backing::File { file, writable, .. } = &self.backing {
            let start = self.reservation.base.as_ptr() as usize;
            let range = start..start + self.reservation.bytes as usize;
            let watch = Watch::over(range, file, *writable)?;
            watch.set_mapped(self.size());
            self.watch = Some(watch);
        }
        Ok(self)
    }

    /// What its flushes and fences are.
    pub fn cache_flush(&self) -> CacheFlush {
        self.flush
    }

    /// Stores 16 aligned bytes around the caches: the next fence makes them durable, without a flush. No engine does
    /// so; `docs/engines/rewo.md` says why. Where there are no such stores, it is a store and a flush.
    pub fn stream_pair(&self, at: Offset, low: u64, high: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `aligned` checks that both words lie in the reservation and are aligned. Each store is one of an
        // aligned word, as in `store`.
        unsafe {
            let words = self.aligned::<4>(at);
            core::arch::asm!(
                "movnti [{words}], {low}",
                "movnti [{words} + 8], {high}",
                words = in(reg) words, low = in(reg) low, high = in(reg) high,
                options(nostack, preserves_flags)
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self.store_pair(at, low, high);
            self.flush(at);
        }
    }

    /// As [`Memory::mapped`], with MAP_SYNC. Fails with `EOPNOTSUPP` (or `EINVAL` on old
    /// kernels) where the file system is not DAX.
    pub fn dax(
        file: File,
        size: u64,
        size_max: u64,
        writable: bool,
        flush: CacheFlush,
    ) -> io::Result<Dax> {
        let map = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        let backing = Backing::File { file, map, writable };
        let memory = Memory::reserve(backing, MediumKind::Dax, flush, size, size_max)?;
        memory.map_existing(size)?;
        Ok(memory)
    }

    fn reserve(
        backing: Backing,
        kind: MediumKind,
        flush: CacheFlush,
        size: u64,
        size_max: u64,
    ) -> io::Result<Self> {
        if !pair::is_supported() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this processor does not load 16 bytes atomically",
            ));
        }
        let reservation = Reservation::new(size, size_max)?;
        let space = match &backing {
            Backing::Anonymous => Space::default(),
            Backing::File { file, .. } => Space::of_file(file.as_fd(), file.metadata()?.len()),
        };
        Ok(Memory {
            watch: None,
            is_written_over: AtomicBool::new(false),
            size: AtomicU64::new(0),
            size_max: size_max.min(reservation.bytes),
            lacks_addresses: size_max > reservation.bytes,
            reservation,
            growing: Mutex::new(space),
            backing,
            kind,
            flush,
            log: None,
        })
    }

    /// Address of an offset; the offset must be below the reservation's end.
    #[inline(always)]
    fn at(&self, at: Offset) -> *mut u8 {
        // SAFETY: callers have checked the offset against the reservation, which is one mapping.
        unsafe { self.reservation.base.as_ptr().add(at.0 as usize) }
    }

    /// Address of the `1 << ALIGN_LOG2`-aligned `1 << ALIGN_LOG2` bytes at `at`.
    ///
    /// Two tests that write no register; the reservation ends at a multiple of the size.
    #[inline(always)]
    fn aligned<const ALIGN_LOG2: u32>(&self, at: Offset) -> *mut u64 {
        if at.0 & ((1 << ALIGN_LOG2) - 1) != 0 {
            misplaced(at, self.reservation.bytes);
        }
        if at.0 >= self.reservation.bytes {
            misplaced(at, self.reservation.bytes);
        }
        self.at(at).cast()
    }

    #[inline(always)]
    fn atomic(&self, at: Offset) -> &AtomicU64 {
        // SAFETY: the address is aligned and inside the reservation, which lives as long as
        // `self`. Words are accessed by 8-byte atomics and by assembly only, but for ranges
        // given to `copy_in` and `bytes`, whose callers exclude races. An offset beyond the
        // mapped size faults; it does not touch other memory.
        unsafe { AtomicU64::from_ptr(self.aligned::<3>(at)) }
    }

    fn check_range(&self, at: Offset, len: u64) {
        let end = at.0.checked_add(len);
        if end.is_none_or(|end| end > self.size.load(Ordering::Acquire)) {
            misplaced(at.add(len), self.size.load(Ordering::Acquire));
        }
    }
}

#[cold]
#[inline(never)]
fn misplaced(at: Offset, limit: u64) -> ! {
    panic!("offset {at} is misaligned or beyond the {limit:#x} bytes of the pool");
}

impl Medium for Memory {
    const IS_BARE: bool = true;

    fn kind(&self) -> MediumKind {
        self.kind
    }

    #[inline(always)]
    fn flushes(&self) -> bool {
        self.flush != CacheFlush::Nothing
    }

    #[inline(always)]
    fn load(&self, at: Offset) -> u64 {
        self.atomic(at).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store(&self, at: Offset, value: u64) {
        self.atomic(at).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn store_release(&self, at: Offset, value: u64) {
        self.atomic(at).store(value, Ordering::Release);
    }

    #[inline(always)]
    fn store_pair(&self, at: Offset, low: u64, high: u64) {
        // SAFETY: `aligned` has checked that both words lie in the reservation and are aligned.
        unsafe { self.store_pair_at(self.aligned::<4>(at).cast(), low, high) }
    }

    #[inline(always)]
    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.atomic(at).compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    #[inline(always)]
    fn load_pair(&self, at: Offset) -> (u64, u64) {
        // SAFETY: `aligned` checks alignment and bound; support was checked on construction.
        unsafe { pair::load(self.aligned::<4>(at)) }
    }

    #[inline(always)]
    fn load_two(&self, at: Offset) -> [u64; 2] {
        if at.0 >= self.reservation.bytes - WORD {
            misplaced(at, self.reservation.bytes);
        }
        let first = self.aligned::<3>(at);
        // SAFETY: aligned, and inside the reservation; as in `atomic` otherwise.
        let first_word = unsafe { AtomicU64::from_ptr(first) };
        // SAFETY: as above, since the first one is not the reservation's last.
        let second_word = unsafe { AtomicU64::from_ptr(first.add(1)) };
        [first_word.load(Ordering::Acquire), second_word.load(Ordering::Acquire)]
    }

    #[inline(always)]
    fn try_load_two(&self, at: Offset) -> Option<[u64; 2]> {
        if at.0 & (WORD - 1) != 0 || at.0.checked_add(2 * WORD)? > self.size() {
            return None;
        }
        let first: *mut u64 = self.at(at).cast();
        // SAFETY: aligned, and inside the mapped part of the reservation; as in `atomic` otherwise.
        let words = unsafe { [AtomicU64::from_ptr(first), AtomicU64::from_ptr(first.add(1))] };
        Some(words.map(|word| word.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn load_line(&self, at: Offset) -> [u64; (LINE / WORD) as usize] {
        let first = self.aligned::<LINE_LOG2>(at);
        // A loop over a slice becomes eight loads, which `array::from_fn` does not.
        let mut words = [0; (LINE / WORD) as usize];
        for (place, word) in words.iter_mut().enumerate() {
            // SAFETY: the line is inside the reservation; as in `atomic` otherwise. One test for all
            // of it: callers look at every word, millions of times a second.
            *word = unsafe { AtomicU64::from_ptr(first.add(place)) }.load(Ordering::Acquire);
        }
        words
    }

    #[inline(always)]
    fn prefetch(&self, at: Offset) {
        self.prefetch_at(self.origin().wrapping_add(at.0 as usize));
    }

    #[inline(always)]
    fn prefetch_write(&self, at: Offset) {
        self.prefetch_write_at(self.origin().wrapping_add(at.0 as usize));
    }

    #[inline(always)]
    fn origin(&self) -> *mut u8 {
        self.reservation.base.as_ptr()
    }

    #[inline(always)]
    unsafe fn load_pair_at(&self, place: *mut u8) -> (u64, u64) {
        // SAFETY: the caller vouches for the place; support was checked on construction.
        unsafe { pair::load(place.cast()) }
    }

    #[inline(always)]
    unsafe fn store_pair_at(&self, place: *mut u8, low: u64, high: u64) {
        let words: *mut u64 = place.cast();
        // SAFETY: the caller vouches for the place; as in `atomic` otherwise.
        let (low_word, high_word) =
            unsafe { (AtomicU64::from_ptr(words), AtomicU64::from_ptr(words.add(1))) };
        high_word.store(high, Ordering::Relaxed);
        low_word.store(low, Ordering::Release);
    }

    #[inline(always)]
    unsafe fn store_at(&self, place: *mut u8, value: u64) {
        // SAFETY: the caller vouches for the place; as in `atomic` otherwise.
        unsafe { AtomicU64::from_ptr(place.cast()) }.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    unsafe fn store_release_at(&self, place: *mut u8, value: u64) {
        // SAFETY: the caller vouches for the place; as in `atomic` otherwise.
        unsafe { AtomicU64::from_ptr(place.cast()) }.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn prefetch_at(&self, place: *mut u8) {
        prefetch(place);
    }

    #[inline(always)]
    fn prefetch_write_at(&self, place: *mut u8) {
        prefetch_write(place);
    }

    #[inline(always)]
    fn flush(&self, at: Offset) {
        if self.flush == CacheFlush::Nothing {
            return self.flush.fence();
        }
        self.flush_range_by_call(Offset(at.0 & !(LINE - 1)), LINE);
    }

    #[inline(always)]
    fn flush_range(&self, at: Offset, bytes: u64) {
        if self.flush == CacheFlush::Nothing {
            return self.flush.fence();
        }
        self.flush_range_by_call(at, bytes);
    }

    #[inline(always)]
    fn sequence(&self, at: Offset) -> Sequence {
        match &self.log {
            Some(log) => log.sequence(at),
            None => Sequence::NONE,
        }
    }

    #[inline(always)]
    fn flush_pair(&self, at: Offset, sequence: Sequence) {
        if self.flush == CacheFlush::Nothing {
            return self.flush.fence();
        }
        self.flush_pair_by_call(at, sequence);
    }

    #[inline(always)]
    fn persist_pair(&self, at: Offset, sequence: Sequence) {
        if self.flush == CacheFlush::Nothing {
            return self.flush.fence();
        }
        self.persist_pair_by_call(at, sequence);
    }

    #[inline(always)]
    fn persist_observed(&self, at: Offset, is_locked: impl Fn() -> bool) {
        if self.log.is_none() {
            return self.persist(at);
        }
        // What it takes to do it for the writer disturbs every processor, and the writer is soon done, if it runs.
        let is_over = (0..LOOKS_AT_LOCK).any(|_| {
            std::hint::spin_loop();
            !is_locked()
        });
        if !is_over {
            self.persist_observed_by_call(at);
        }
    }

    #[inline(always)]
    fn fence(&self) {
        if self.flush == CacheFlush::Nothing {
            return self.flush.fence();
        }
        self.fence_by_call();
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        self.check_range(at, bytes.len() as u64);
        // SAFETY: the range is mapped (checked); the caller excludes every other access.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(at), bytes.len());
        }
    }

    #[inline(always)]
    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        if at.0.checked_add(len)? > self.size() {
            return None;
        }
        // SAFETY: the range is mapped (checked); the caller excludes stores to it.
        Some(unsafe { std::slice::from_raw_parts(self.at(at), len as usize) })
    }

    #[inline(always)]
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn load_at_start(&self, word: u64) -> u64 {
        let word = (word as usize).min(4096 / WORD as usize - 1);
        // SAFETY: a reservation has more than a page; as in `atomic` otherwise.
        unsafe { AtomicU64::from_ptr(self.origin().cast::<u64>().add(word)) }
            .load(Ordering::Acquire)
    }

    #[inline(always)]
    fn has_bytes(&self, at: Offset, bytes: &[u8]) -> bool {
        self.has_racing_bytes(at, bytes)
    }

    #[inline(always)]
    fn copy_out(&self, at: Offset, len: u64) -> Option<Box<[u8]>> {
        self.copy_racing_bytes(at, len)
    }

    fn limit(&self) -> u64 {
        self.size_max
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        self.grow_to(size, Haste::High)
    }

    #[inline(always)]
    fn follow(&self, size: u64) -> bool {
        size <= self.size() || self.follow_to(size)
    }

    fn grow_ahead(&self, size: u64) -> Result<(), SpaceError> {
        self.grow_to(size, Haste::NoneUntil(Instant::now() + AHEAD_TIME_MAX))
    }

    fn cut(&self, size: u64) {
        if let Backing::File { file, writable: true, .. } = &self.backing {
            let end = growth::round_to_page(size);
            // Made longer, a file that somebody has truncated would seem whole, with zeros for what is lost.
            let is_longer = file.metadata().is_ok_and(|file| file.len() > end);
            if is_longer {
                // A file that stays longer than it has to be harms nothing.
                let _ = rustix::fs::ftruncate(file, end);
            }
        }
    }

    fn give_back(&self, range: Range<u64>) -> bool {
        self.give_pages_back(range)
    }

    fn take_back(&self, range: Range<u64>) -> Result<(), SpaceError> {
        self.take_pages_back(range)
    }

    fn populate(&self, range: Range<u64>) {
        self.touch(range);
    }

    fn read_ahead(&self, range: Range<u64>) {
        self.read_pages_ahead(range);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        if !matches!(self.backing, Backing::File { writable: true, .. }) {
            return Ok(());
        }
        let page = rustix::param::page_size() as u64;
        let from = range.start / page * page;
        let to = range.end.min(self.size());
        if from < to {
            // This also makes the file's length durable. A call for the whole file, which others go on writing, would
            // hold them up while the disk takes all that they have changed.
            // SAFETY: the range is mapped; writing it back changes no content.
            unsafe {
                rustix::mm::msync(
                    self.at(Offset(from)).cast(),
                    (to - from) as usize,
                    MsyncFlags::SYNC,
                )?;
            }
        }
        if let (0, Backing::File { file, .. }) = (from, &self.backing) {
            // The superblock says when and where it was written.
            mark_boot(file.as_fd());
        }
        // What was stored since the failure is not in the file.
        self.demand_whole()
    }

    fn has_failed(&self) -> bool {
        self.is_written_over.load(Ordering::Acquire)
            || self.watch.as_ref().is_some_and(Watch::has_failed)
    }

    fn close_on_failure(&self, view: &Arc<View>) {
        if let Some(watch) = &self.watch {
            watch.close_on_failure(view);
        }
    }

    fn read_two(&self, at: Offset) -> Option<[u64; 2]> {
        self.read_two_by_call(at)
    }

    fn fail(&self) {
        self.set_written_over();
    }
}
