//! Where the log of a pool that was closed ends.
//!
//! ```text
//! typed root   | 3 | low half of the sequence number | segment << 20 | page |
//!              | 4 | low half of the sequence number | mark |
//! ```
//!
//! The checkpoint and the log up to there are exactly what the pool holds. Like the [number of pairs](super::pairs),
//! the records name the sequence number of the change that wrote them, so that whatever changes the pool makes them
//! void.

use super::{Superblock, halves};

/// Type of the root that says in which page the log ends.
const PLACE_ROOT: u32 = 3;
/// Type of the root with the mark of that page.
const MARK_ROOT: u32 = 4;
const PAGE_BITS: u32 = 20;

/// Where the frame is with which a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// Number of the segment.
    pub segment: u64,
    /// Page of the segment.
    pub page: u64,
    /// A random number, which the frame has, too. Two copies of one pool, with logs that both went on from the same
    /// end, have different ones.
    pub mark: u64,
}

impl Superblock {
    /// Where the log ended when the pool was closed, if it says so and has not been opened for writing since.
    pub fn log_end(&self) -> Option<LogEnd> {
        let word = |kind| self.root(self.tied(kind)).filter(|_| self.clean);
        let (place, mark) = (word(PLACE_ROOT)?, word(MARK_ROOT)?);
        Some(LogEnd { segment: place >> PAGE_BITS, page: place & ((1 << PAGE_BITS) - 1), mark })
    }

    fn tied(&self, kind: u32) -> u64 {
        halves(kind, self.sequence as u32)
    }

    /// Says where the log has ended; to be called after [`Superblock::advance`].
    pub(crate) fn set_log_end(&mut self, end: Option<LogEnd>) {
        let fits =
            |end: &LogEnd| end.page >> PAGE_BITS == 0 && end.segment >> (64 - PAGE_BITS) == 0;
        let end = end.filter(fits);
        let place = end.map(|end| end.segment << PAGE_BITS | end.page);
        for (kind, word) in [(PLACE_ROOT, place), (MARK_ROOT, end.map(|end| end.mark))] {
            let tag = self.tied(kind);
            self.set_root(kind, word.map(|word| (tag, word)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TYPED_ROOTS, tests::sample};
    use super::*;

    #[test]
    fn the_end_of_a_log_is_kept_until_the_next_change() {
        let mut superblock = Superblock { typed_roots: Default::default(), ..sample() };
        let end = LogEnd { segment: 1 << 40, page: 16_383, mark: u64::MAX };
        superblock.advance(true, Some(7));
        superblock.set_log_end(Some(end));
        let words = superblock.encode();
        let (read, _) = Superblock::choose([Some(&words), Some(&words)]).unwrap();
        assert_eq!((read.log_end(), read.pairs()), (Some(end), Some(7)));
        let mut next = read.clone();
        next.advance(false, None);
        assert_eq!(next.log_end(), None);
        // Even if it is closed again by a build that does not know the record.
        next.advance(true, Some(7));
        assert_eq!(next.log_end(), None);
        next.set_log_end(Some(LogEnd { page: 3, ..end }));
        assert_eq!(next.log_end(), Some(LogEnd { page: 3, ..end }));
        next.set_log_end(None);
        assert_eq!((next.log_end(), next.pairs()), (None, Some(7)));
        next.set_log_end(Some(LogEnd { page: 1 << 20, ..end }));
        assert_eq!(next.log_end(), None, "beyond what the record can say");
        let mut full = Superblock { typed_roots: [(5, 5); TYPED_ROOTS], ..sample() };
        full.advance(true, None);
        full.set_log_end(Some(end));
        assert_eq!(full.log_end(), None);
    }
}
