//! Ranks to keys, one to one.

use crate::random::{Purpose, STEP, derive, inverse, mix, spread, unmix};

/// Ranks from here on are never loaded or inserted, so that their keys are certainly absent.
pub const FIRST_ABSENT_RANK: u64 = 1 << 63;

/// A seeded one-to-one map from ranks to keys.
///
/// Neighbouring ranks get unrelated keys. Being one-to-one on all 64-bit words, it needs no list
/// of the keys in use to make one that is not.
///
/// ```
/// use workload::{FIRST_ABSENT_RANK, Scatter};
///
/// let scatter = Scatter::new(42);
/// assert_eq!(scatter.rank(scatter.key(7)), 7);
/// assert!(scatter.rank(scatter.absent_key(7)) >= FIRST_ABSENT_RANK);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scatter {
    offset: u64,
}

impl Scatter {
    /// The map of this seed.
    pub fn new(seed: u64) -> Scatter {
        Scatter { offset: derive(seed, Purpose::Scatter) }
    }

    /// The key of a rank.
    #[inline]
    pub fn key(self, rank: u64) -> u64 {
        // The multiplication sets neighbouring ranks far apart before they are mixed.
        mix(spread(rank).wrapping_add(self.offset))
    }

    /// The rank of a key.
    pub fn rank(self, key: u64) -> u64 {
        const STEP_INVERSE: u64 = inverse(STEP);
        unmix(key).wrapping_sub(self.offset).wrapping_mul(STEP_INVERSE)
    }

    /// A key that is certainly absent, chosen by a random word.
    #[inline]
    pub fn absent_key(self, word: u64) -> u64 {
        self.key(word | FIRST_ABSENT_RANK)
    }

    /// Replaces ranks by their keys.
    pub fn scatter(self, ranks: &mut [u64]) {
        for rank in ranks {
            *rank = self.key(*rank);
        }
    }
}
