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

use super::{Superblock, halves, low};

/// Type of the root with the number that was found.
const FOUND_ROOT: u32 = 5;
/// Type of the root with the number that was expected.
const EXPECTED_ROOT: u32 = 6;

impl Superblock {
    /// How many pairs were found and expected, if these differed.
    pub fn miscounted(&self) -> Option<(u64, u64)> {
        let word = |kind| {
            let of_type = |root: &&(u64, u64)| root.0 == halves(kind, 0);
            self.typed_roots.iter().find(of_type).map(|root| root.1)
        };
        Some((word(FOUND_ROOT)?, word(EXPECTED_ROOT)?))
    }

    pub(crate) fn set_miscounted(&mut self, found: u64, expected: u64) {
        for (kind, word) in [(FOUND_ROOT, found), (EXPECTED_ROOT, expected)] {
            let is_usable = |root: &&mut (u64, u64)| [0, kind].contains(&low(root.0));
            // Without a free root it says nothing.
            if let Some(root) = self.typed_roots.iter_mut().find(is_usable) {
                *root = (halves(kind, 0), word);
            }
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
