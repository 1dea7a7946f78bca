//! A pool that was found to hold another number of pairs than when it was closed, after it had been opened.
//!
//! ```text
//! typed root   | 5 | 0 | pairs that were found |
//!              | 6 | 0 | pairs that were expected |
//! ```
//!
//! The record of the [number of pairs](super::pairs) is void as soon as a pool is opened for writing. So what was found
//! later is recorded by itself, or the next opening would take the pool for whole. Nothing takes the record back: the
//! pool is of no use but to copy out what is left.

use super::{Superblock, halves};

/// Type of the root with the number that was found.
const FOUND_ROOT: u32 = 5;
/// Type of the root with the number that was expected.
const EXPECTED_ROOT: u32 = 6;

impl Superblock {
    /// How many pairs were found and expected, if these differed.
    pub fn miscounted(&self) -> Option<(u64, u64)> {
        Some((self.root_of_type(FOUND_ROOT)?, self.root_of_type(EXPECTED_ROOT)?))
    }

    pub(crate) fn set_miscounted(&mut self, found: u64, expected: u64) {
        for (kind, word) in [(FOUND_ROOT, found), (EXPECTED_ROOT, expected)] {
            self.set_root(kind, Some((halves(kind, 0), word)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TYPED_ROOTS, tests::sample};
    use super::*;

    #[test]
    fn a_wrong_number_of_pairs_stays_on_record() {
        let mut superblock = Superblock { typed_roots: [(0, 0); TYPED_ROOTS], ..sample() };
        superblock.advance(true, Some(400));
        assert_eq!(superblock.miscounted(), None);
        superblock.set_miscounted(399, 400);
        superblock.advance(false, None);
        superblock.advance(true, Some(7));
        let words = superblock.encode();
        let (decoded, _) = Superblock::choose([Some(&words), Some(&words)]).unwrap();
        assert_eq!((decoded.miscounted(), decoded.pairs()), (Some((399, 400)), Some(7)));
        let mut full = Superblock { typed_roots: [(9, 9); TYPED_ROOTS], ..sample() };
        full.set_miscounted(399, 400);
        assert_eq!((full.miscounted(), full.typed_roots), (None, [(9, 9); TYPED_ROOTS]));
    }
}
