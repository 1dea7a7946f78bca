//! A pass over all blocks of a level, in parts that threads share out.

use pmem::sync::{AtomicU64, Ordering};

/// Bits of a cursor that are the number of a part: more than a level has blocks. Those above are the number of the
/// resize.
const PART_BITS: u32 = 40;

/// A pass over all blocks of a level, in parts, each of which one thread takes.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The next part. The number of the resize keeps a thread that was held up from taking a part of a later resize.
    cursor: AtomicU64,
    unfinished: AtomicU64,
}

impl Pass {
    pub(super) fn begin(&self, parts: u64, resize: u64) {
        self.unfinished.store(parts, Ordering::Relaxed);
        // Release: who sees this no longer sees the geometry of an earlier resize.
        self.cursor.store(resize << PART_BITS, Ordering::Release);
    }

    /// The number of a part for the caller to do, of the `parts` that there are under the geometry that it saw. `None`
    /// if none is left, or if that is no longer the geometry. (Were the number of parts shared, a late thread might
    /// read the next resize's before that one changes the cursor, and take one part too many of its own.)
    pub(super) fn take(&self, parts: u64, is_current: impl Fn() -> bool) -> Option<u64> {
        loop {
            let next = self.cursor.load(Ordering::Acquire);
            let part = next & ((1 << PART_BITS) - 1);
            // In this order. If the geometry is still that one, its resize has not ended, so the cursor is not a later
            // resize's.
            if !is_current() || part >= parts {
                return None;
            }
            let taken =
                self.cursor.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(part);
            }
        }
    }

    /// Says that a part is done; returns whether it was the last.
    pub(super) fn finish_part(&self) -> bool {
        self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next resize has begun, and has not changed the cursor yet.
    #[test]
    fn no_thread_takes_more_parts_than_its_resize_had() {
        let pass = Pass::default();
        pass.begin(2, 1);
        let take = || pass.take(2, || true);
        assert_eq!([take(), take(), take()], [Some(0), Some(1), None]);
        assert_eq!([pass.finish_part(), pass.finish_part()], [false, true]);
        let cursor = pass.cursor.load(Ordering::Relaxed);
        pass.begin(4, 2);
        let begun = pass.cursor.swap(cursor, Ordering::Relaxed);
        assert_eq!(take(), None);
        pass.cursor.store(begun, Ordering::Relaxed);
        let taken: Vec<bool> = (0..4)
            .map(|part| {
                assert_eq!(pass.take(4, || true), Some(part));
                pass.finish_part()
            })
            .collect();
        assert_eq!(taken, [false, false, false, true]);
    }
}
