//! Lines of all pools, told apart: for media that keep an account of lines per thread.

use crate::offset::{LINE, Offset};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a line's number inside its pool: pools span at most 2^40 bytes.
const LINE_BITS: u32 = 34;

/// Numbers the lines of one medium. No two media of a process share a number, nor a media block's
/// worth of numbers; 0 is nobody's.
#[derive(Debug)]
pub(super) struct Lines {
    base: u64,
}

impl Lines {
    /// Numbers that no other medium has.
    pub(super) fn new() -> Lines {
        static MEDIA: AtomicU64 = AtomicU64::new(1);
        Lines { base: MEDIA.fetch_add(1, Ordering::Relaxed) << LINE_BITS }
    }

    /// The number of the line at `at`.
    #[inline(always)]
    pub(super) fn at(&self, at: Offset) -> u64 {
        self.base | at.line() & ((1 << LINE_BITS) - 1)
    }

    /// The numbers of the lines of a range; none of an empty one.
    #[inline(always)]
    pub(super) fn range(&self, at: Offset, bytes: u64) -> Range<u64> {
        let first = self.at(at);
        let lines = match bytes {
            0 => 0,
            _ => (at.0 % LINE + bytes).div_ceil(LINE),
        };
        first..first + lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_lines_it_touches_and_an_empty_one_none() {
        let lines = Lines::new();
        let first = lines.at(Offset(0));
        assert_eq!(lines.range(Offset(60), 8), first..first + 2);
        assert_eq!(lines.range(Offset(64), 64), first + 1..first + 2);
        assert_eq!(lines.range(Offset(8), 0).count(), 0);
    }

    #[test]
    fn media_share_no_numbers() {
        let (one, other) = (Lines::new(), Lines::new());
        let last = Offset((1 << 40) - 1);
        assert!(one.at(last) < other.at(Offset(0)) || other.at(last) < one.at(Offset(0)));
    }
}
