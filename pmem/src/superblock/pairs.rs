//! How many pairs a clean pool holds.
//!
//! ```text
//! typed root   | 1 | low half of the sequence number | pairs |
//! ```

use super::{Superblock, halves};

/// Type of the root that holds the number of pairs.
const PAIRS_ROOT: u32 = 1;

impl Superblock {
    /// The number of pairs that the pool held when it was recorded as clean, if that was recorded with it.
    ///
    /// The record names the sequence number of the change that wrote it. A build that does not know the
    /// record keeps it as it is, but counts on: so what that build did to the pool makes the record void.
    pub fn pairs(&self) -> Option<u64> {
        self.root(self.pairs_root()).filter(|_| self.clean)
    }

    fn pairs_root(&self) -> u64 {
        halves(PAIRS_ROOT, self.sequence as u32)
    }

    /// Begins the next change: counts on, and says whether the pool is clean and how many pairs it then
    /// holds, if that is known.
    pub fn advance(&mut self, clean: bool, pairs: Option<u64>) {
        self.sequence += 1;
        self.clean = clean;
        let tag = self.pairs_root();
        self.set_root(PAIRS_ROOT, pairs.map(|pairs| (tag, pairs)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TYPED_ROOTS, tests::sample};
    use super::*;

    #[test]
    fn a_number_of_pairs_holds_until_the_next_change() {
        let mut superblock = Superblock { typed_roots: [(0, 0); TYPED_ROOTS], ..sample() };
        superblock.typed_roots[0] = (7, 7);
        superblock.advance(true, Some(400));
        assert_eq!(superblock.pairs(), Some(400));
        assert_eq!(superblock.typed_roots[0], (7, 7), "of another type");
        let words = superblock.encode();
        let (decoded, _) = Superblock::choose([Some(&words), Some(&words)]).unwrap();
        assert_eq!(decoded.pairs(), Some(400));
        // A build that does not know the record opens and closes the pool.
        let by_others = Superblock { sequence: superblock.sequence + 2, ..superblock.clone() };
        assert_eq!(by_others.pairs(), None);
        let dirty = Superblock { clean: false, ..superblock.clone() };
        assert_eq!(dirty.pairs(), None);
        for (clean, pairs) in [(true, Some(0)), (true, None), (false, None), (true, Some(9))] {
            superblock.advance(clean, pairs);
            assert_eq!((superblock.clean, superblock.pairs()), (clean, pairs));
            let records = superblock.typed_roots.iter().filter(|root| **root != (0, 0)).count();
            assert_eq!(records, 1 + usize::from(pairs.is_some()), "{:?}", superblock.typed_roots);
        }
        let mut full = Superblock { typed_roots: [(5, 5); TYPED_ROOTS], ..sample() };
        full.advance(true, Some(400));
        assert_eq!((full.pairs(), full.typed_roots), (None, [(5, 5); TYPED_ROOTS]));
    }
}
