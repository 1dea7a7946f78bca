//! A checkpoint's copy of a pool that changes meanwhile.

use super::*;
use crate::durability::Image;
use crate::medium::Dram;
use crate::sync::Ordering;
use std::sync::atomic::AtomicU64 as Count;

/// Memory in which somebody changes a line whenever its middle is read, so many times: the first word, then the last
/// one.
struct Changing {
    memory: Dram,
    line: Offset,
    changes: Count,
    changes_max: u64,
}

const MIDDLE: u64 = 3;
const LAST: u64 = LINE_WORDS as u64 - 1;

impl Medium for Changing {
    fn kind(&self) -> MediumKind {
        self.memory.kind()
    }

    fn load(&self, at: Offset) -> u64 {
        if at == self.line.word(MIDDLE) {
            let change = self.changes.load(Ordering::Relaxed) + 1;
            if change <= self.changes_max {
                self.changes.store(change, Ordering::Relaxed);
                self.memory.store(self.line, change);
                self.memory.store_release(self.line.word(LAST), change);
            }
        }
        self.memory.load(at)
    }

    fn store(&self, at: Offset, value: u64) {
        self.memory.store(at, value);
    }

    fn store_release(&self, at: Offset, value: u64) {
        self.memory.store_release(at, value);
    }

    fn compare_exchange(&self, at: Offset, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange(at, current, new)
    }

    fn load_pair(&self, at: Offset) -> (u64, u64) {
        self.memory.load_pair(at)
    }

    fn prefetch(&self, _at: Offset) {}

    fn prefetch_write(&self, _at: Offset) {}

    fn flush(&self, at: Offset) {
        self.memory.flush(at);
    }

    fn fence(&self) {
        self.memory.fence();
    }

    unsafe fn copy_in(&self, at: Offset, bytes: &[u8]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.memory.copy_in(at, bytes) };
    }

    unsafe fn bytes(&self, at: Offset, len: u64) -> Option<&[u8]> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.memory.bytes(at, len) }
    }

    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn limit(&self) -> u64 {
        self.memory.limit()
    }

    fn grow(&self, size: u64) -> Result<(), SpaceError> {
        self.memory.grow(size)
    }

    fn populate(&self, range: std::ops::Range<u64>) {
        self.memory.populate(range);
    }

    fn sync(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        self.memory.sync(range)
    }
}

#[test]
fn each_line_is_copied_as_it_was_at_one_moment() {
    for changes_max in 0..6 {
        let line = Offset(SUPERBLOCK_BYTES + 5 * LINE);
        let memory = crate::medium::Memory::dram(1 << 20).unwrap();
        let medium = Changing { memory, line, changes: Count::new(0), changes_max };
        let pool = Pool::create(medium, &super::tests::spec(), Place::default()).unwrap();
        pool.extend(|draft| draft.take_extent(1, 0, 4096)).unwrap();
        let mut words = vec![0; (Image::bytes(&pool) / WORD) as usize];
        pool.copy(0, &mut words);
        let of_line = |word: u64| words[(line.word(word).0 / WORD) as usize];
        assert_eq!(
            of_line(0),
            of_line(LAST),
            "a store to the line is there without the one before"
        );
        assert_eq!(of_line(0), changes_max);
    }
}
