//! The numbers below any bound in a seeded order, without a table.

use crate::random::{Purpose, Random, STEP, derive};

/// Odd factors of the rounds, with bits all over. Three rounds are what it takes until the
/// images of neighbours look unrelated at every size.
const FACTORS: [u64; 3] = [STEP, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f];

/// A seeded one-to-one map of the numbers below `count` onto themselves.
///
/// It maps the numbers below the next power of two one-to-one and applies that again while the
/// result is not below `count`: fewer than two applications on average.
///
/// ```
/// use workload::Permutation;
///
/// let order = Permutation::new(10, 42);
/// let mut images: Vec<u64> = (0..10).map(|number| order.apply(number)).collect();
/// images.sort_unstable();
/// assert_eq!(images, (0..10).collect::<Vec<_>>());
/// ```
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    offsets: [u64; 3],
}

impl Permutation {
    /// The order of this seed of the numbers below `count`.
    pub fn new(count: u64, seed: u64) -> Permutation {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(1);
        let mut random = Random::new(derive(seed, Purpose::Permutation));
        Permutation {
            count,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2),
            offsets: std::array::from_fn(|_| random.word()),
        }
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The image of `number`, which is below `count`.
    #[inline]
    pub fn apply(&self, number: u64) -> u64 {
        debug_assert!(number < self.count);
        let mut image = self.apply_to_power_of_two(number);
        while image >= self.count {
            image = self.apply_to_power_of_two(image);
        }
        image
    }

    /// Each step is one-to-one on the masked bits: adding, an odd factor, and a shift that folds
    /// the high half, to which factors carry everything, onto the low half.
    #[inline]
    fn apply_to_power_of_two(&self, number: u64) -> u64 {
        let mut image = number;
        for (factor, offset) in FACTORS.iter().zip(&self.offsets) {
            image = image.wrapping_add(*offset).wrapping_mul(*factor) & self.mask;
            image ^= image >> self.shift;
        }
        image
    }
}
