//! Random words from a seed.

use crate::Part;

/// What SplitMix64 adds per step: 2^64 divided by the golden ratio, odd.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const FIRST_FACTOR: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND_FACTOR: u64 = 0x94d0_49bb_1331_11eb;

/// What a seed is used for. Each use has a sequence of its own: were the kinds of operations
/// drawn from the words that also draw their keys, certain keys would only ever be read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Scatter = 1,
    Permutation = 2,
    Ranks = 3,
    Operations = 4,
    Traces = 5,
}

/// SplitMix64: a multiplication-only generator whose every seed is good.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The sequence of one thread for one purpose.
    pub(crate) fn of_part(seed: u64, purpose: Purpose, part: Part) -> Random {
        Random::new(derive(derive(seed, purpose), part.index()))
    }

    /// The next word.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `end`, which is not 0. It is a scaled word, off uniform by at most
    /// `end` / 2^64.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        scale(self.word(), end)
    }

    /// An index below `end`, which is not 0: as [`Random::below`].
    #[inline]
    pub fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// One of `choices`, which are not empty.
    #[inline]
    pub fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Whether something of this many per cent happens.
    #[inline]
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number from 0 to below 1, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// A word brought from the range of all words to the numbers below `end`.
#[inline]
pub(crate) fn scale(word: u64, end: u64) -> u64 {
    ((u128::from(word) * u128::from(end)) >> 64) as u64
}

/// A seed of its own for each `tag`, which may be any small number.
pub(crate) fn derive(seed: u64, tag: impl Into<u64>) -> u64 {
    mix(seed ^ mix(spread(tag.into().wrapping_add(1))))
}

impl From<Purpose> for u64 {
    fn from(purpose: Purpose) -> u64 {
        // Clear of the numbers of parts, which are tags too.
        purpose as u64 | 1 << 32
    }
}

/// Numbers next to each other brought far apart, one to one.
#[inline]
pub const fn spread(number: u64) -> u64 {
    number.wrapping_mul(STEP)
}

/// SplitMix64's output function: one-to-one, every input bit changing half the output bits.
#[inline]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(FIRST_FACTOR);
    let word = (word ^ (word >> 27)).wrapping_mul(SECOND_FACTOR);
    word ^ (word >> 31)
}

/// The inverse of [`mix`]: its steps undone in reverse order.
pub(crate) const fn unmix(word: u64) -> u64 {
    const FIRST_INVERSE: u64 = inverse(FIRST_FACTOR);
    const SECOND_INVERSE: u64 = inverse(SECOND_FACTOR);
    let word = (word ^ (word >> 31) ^ (word >> 62)).wrapping_mul(SECOND_INVERSE);
    let word = (word ^ (word >> 27) ^ (word >> 54)).wrapping_mul(FIRST_INVERSE);
    word ^ (word >> 30) ^ (word >> 60)
}

/// The number whose product with `odd` is 1 modulo 2^64, by Newton's iteration. An odd number
/// is its own inverse modulo 8, and each step doubles the bits that are right.
pub(crate) const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut right_bits = 3;
    while right_bits < u64::BITS {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        right_bits *= 2;
    }
    inverse
}
