//! One of two media, known at run time.

use super::{Medium, MediumKind};
use crate::error::SpaceError;
use crate::offset::Offset;
use crate::view::View;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// One medium or the other. An engine is compiled once for both, and each access is a call: for media that are slower
/// than a call anyway.
#[derive(Debug)]
pub enum Either<A: Medium, B: Medium> {
    /// The first.
    One(A),
    /// The second.
    Other(B),
}

macro_rules! either {
    ($self:ident, $medium:ident => $access:expr) => {
        match $self {
            Either::One($medium) => $access,
            Either::Other($medium) => $access,
        }
    };
}

impl<A: Medium, B: Medium> Medium for Either<A, B> {
    fn kind(&self) -> MediumKind {
        either!(self, medium => medium.kind())
    }

    fn reads_slowly(&self) -> bool {
        either!(self, medium => medium.reads_slowly())
    }

    #[inline(never)]
    fn load(&self, at: Offset) -> u64 {
        either!(self, medium => medium.load(at))
    }

    #[inline(never)]
    fn store(&self, at: Offset, value: u64) {
        either!(self, medium => medium.store(at, value));
    }

    #[inline(never)]
    fn store_release(&self, at: Offset, value: u64) {
        either!(self, medium => medium.store_release(at, value));
    }

    #[inline(never)]
    fn store_pair(&self, at: Offset, low: u64, high: u64) {
        either!(self, medium => medium.store_pair(at, low, high));
    }

    #[inline(never)]
    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        either!(self, medium => medium.compare_exchange(at, current, new))
    }

    #[inline(never)]
    fn load_pair(&self, at: Offset) -> (u64, u64) {
        either!(self, medium => medium.load_pair(at))
    }

    #[inline(never)]
    fn load_two(&self, at: Offset) -> [u64; 2] {
        either!(self, medium => medium.load_two(at))
    }

    #[inline(never)]
    fn try_load_two(&self, at: Offset) -> Option<[u64; 2]> {
        either!(self, medium => medium.try_load_two(at))
    }

    #[inline(never)]
    fn load_line(&self, at: Offset) -> [u64; 8] {
        either!(self, medium => medium.load_line(at))
    }

    #[inline(never)]
    fn prefetch(&self, at: Offset) {
        either!(self, medium => medium.prefetch(at));
    }

    #[inline(never)]
    fn prefetch_write(&self, at: Offset) {
        either!(self, medium => medium.prefetch_write(at));
    }

    #[inline(never)]
    fn flush(&self, at: Offset) {
        either!(self, medium => medium.flush(at));
    }

    #[inline(never)]
    fn fence(&self) {
        either!(self, medium => medium.fence());
    }

    #[inline(never)]
    fn flush_range(&self, at: Offset, bytes: u64) {
        either!(self, medium => medium.flush_range(at, bytes));
    }

    #[inline(never)]
    fn persist(&self, at: Offset) {
        either!(self, medium => medium.persist(at));
    }

    #[inline(never)]
    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        // SAFETY: the caller's promise is passed on.
        either!(self, medium => unsafe { medium.copy_in(at, bytes) });
    }

    #[inline(never)]
    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        // SAFETY: the caller's promise is passed on.
        either!(self, medium => unsafe { medium.bytes(at, len) })
    }

    fn size(&self) -> u64 {
        either!(self, medium => medium.size())
    }

    fn limit(&self) -> u64 {
        either!(self, medium => medium.limit())
    }

    #[inline(never)]
    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        either!(self, medium => medium.grow(size))
    }

    fn grow_ahead(&self, size: u64) -> Result<(), SpaceError> {
        either!(self, medium => medium.grow_ahead(size))
    }

    fn cut(&self, size: u64) {
        either!(self, medium => medium.cut(size));
    }

    fn give_back(&self, range: Range<u64>) -> bool {
        either!(self, medium => medium.give_back(range))
    }

    fn take_back(&self, range: Range<u64>) -> Result<(), SpaceError> {
        either!(self, medium => medium.take_back(range))
    }

    fn populate(&self, range: Range<u64>) {
        either!(self, medium => medium.populate(range));
    }

    fn read_ahead(&self, range: Range<u64>) {
        either!(self, medium => medium.read_ahead(range));
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        either!(self, medium => medium.sync(range))
    }

    fn has_failed(&self) -> bool {
        either!(self, medium => medium.has_failed())
    }

    fn close_on_failure(&self, view: &Arc<View>) {
        either!(self, medium => medium.close_on_failure(view));
    }

    fn read_two(&self, at: Offset) -> Option<[u64; 2]> {
        either!(self, medium => medium.read_two(at))
    }

    fn fail(&self) {
        either!(self, medium => medium.fail());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{Cost, Count, Delay, Dram, Latency, Memory, delayed_reads, measure};

    type Media = Either<Count<Dram>, Delay<Dram>>;

    fn dram() -> Dram {
        let dram = Memory::dram(1 << 20).unwrap();
        dram.grow(4096).unwrap();
        dram
    }

    /// Every access, on lines of its own.
    fn access(medium: &Media) {
        medium.store(Offset(0), 1);
        medium.store_release(Offset(64), 2);
        medium.store_pair(Offset(128), 3, 4);
        assert_eq!(medium.compare_exchange(Offset(192), 0, 5), Ok(0));
        // SAFETY: nobody else uses the memory.
        unsafe { medium.copy_in(Offset(256), &6u64.to_ne_bytes()) };
        medium.flush(Offset(0));
        medium.flush_range(Offset(64), 128);
        medium.persist(Offset(192));
        medium.fence();
        assert_eq!((medium.load(Offset(0)), medium.load_pair(Offset(128))), (1, (3, 4)));
        assert_eq!((medium.load_two(Offset(64)), medium.load_line(Offset(192))[0]), ([2, 0], 5));
        assert_eq!(medium.try_load_two(Offset(256)), Some([6, 0]));
        assert_eq!(medium.try_load_two(Offset(medium.size())), None);
        // SAFETY: nobody stores to it.
        assert_eq!(unsafe { medium.bytes(Offset(320), 8) }, Some(&[0; 8][..]));
        medium.prefetch(Offset(384));
        medium.prefetch_write(Offset(448));
        medium.grow(8192).unwrap();
        medium.populate(0..8192);
        medium.sync(0..8192).unwrap();
        assert_eq!((medium.size(), medium.limit()), (8192, 1 << 20));
    }

    #[test]
    fn each_access_is_the_media_s_own() {
        let counted = Media::One(Count::new(dram()));
        let ((), cost) = measure(|| access(&counted));
        let of_count =
            Cost { lines_read: 6, lines_written: 5, blocks_written: 2, flushes: 4, fences: 2 };
        assert_eq!(cost, of_count);
        assert!(!counted.reads_slowly());

        let delayed = Media::Other(Delay::new(dram(), Latency::of_lines(1_000_000, 0)));
        let before = delayed_reads();
        access(&delayed);
        // What was stored to lately is still under way where it is read.
        assert!(delayed_reads() > before);
        assert!(delayed.reads_slowly());
        assert_eq!((delayed.kind(), counted.kind()), (MediumKind::Dram, MediumKind::Dram));
    }
}
