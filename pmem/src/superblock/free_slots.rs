//! Where a clean pool records free slots of its heap.
//!
//! ```text
//! typed root   | 7 | low half of the sequence number | offset of the first record |
//! ```
//!
//! The [records](crate::heap) are for an opening that does not look for free slots before it is through. Like the
//! [number of pairs](super::pairs), the root names the sequence number of the change that wrote it.

use super::{Superblock, halves};
use crate::offset::Offset;

/// Type of the root with the first record.
const FREE_SLOTS_ROOT: u32 = 7;

impl Superblock {
    /// The first record of free slots, if the pool was closed with one and has not been opened for writing since.
    pub fn free_slots(&self) -> Option<Offset> {
        self.root(self.free_slots_root()).filter(|_| self.clean).map(Offset)
    }

    fn free_slots_root(&self) -> u64 {
        halves(FREE_SLOTS_ROOT, self.sequence as u32)
    }

    /// Says where the first record is; to be called after [`Superblock::advance`].
    pub(crate) fn set_free_slots(&mut self, first: Option<Offset>) {
        let tag = self.free_slots_root();
        self.set_root(FREE_SLOTS_ROOT, first.map(|first| (tag, first.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TYPED_ROOTS, tests::sample};
    use super::*;

    #[test]
    fn free_slots_are_on_record_until_the_next_change() {
        let mut superblock = Superblock { typed_roots: [(0, 0); TYPED_ROOTS], ..sample() };
        superblock.advance(true, Some(400));
        superblock.set_free_slots(Some(Offset(4096)));
        let words = superblock.encode();
        let (mut read, _) = Superblock::choose([Some(&words), Some(&words)]).unwrap();
        assert_eq!((read.free_slots(), read.pairs()), (Some(Offset(4096)), Some(400)));
        read.advance(false, None);
        assert_eq!(read.free_slots(), None);
        // Even if it is closed again by a build that does not know the record.
        read.advance(true, Some(400));
        assert_eq!(read.free_slots(), None);
        let mut full = Superblock { typed_roots: [(9, 9); TYPED_ROOTS], ..sample() };
        full.advance(true, None);
        full.set_free_slots(Some(Offset(4096)));
        assert_eq!(full.free_slots(), None);
    }
}
