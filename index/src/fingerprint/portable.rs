//! Matching by arithmetic on words.

use super::lanes::{Differences, LINE_MASK, repeat};
use pmem::sync::{AtomicU64, Ordering};

#[inline]
pub(super) fn match_line(line: &[AtomicU64; 8], fingerprint: u8, differences: &Differences) -> u64 {
    let wanted = differences.0.map(|difference| difference ^ repeat(fingerprint));
    let mut matches = [0; 8];
    for (i, word) in line.iter().enumerate() {
        let difference = (word.load(Ordering::Relaxed) ^ wanted[i]) & LINE_MASK.0[i];
        matches[i] = zero_lanes(difference);
    }
    u64::from_le_bytes(matches)
}

/// The lanes of `word` that are zero: bit *i* stands for lane *i*.
///
/// The usual `(word - 0x0101…) & !word & 0x8080…` lets a zero lane borrow from the lane above
/// and so reports a 1 there as zero too. Adding 0x7f to 7 bits carries into the lane's own top bit
/// at most: no lane disturbs another.
#[inline(always)]
pub(super) fn zero_lanes(word: u64) -> u8 {
    let low_bits = repeat(0x7f);
    let top_bits_of_zeros = !(((word & low_bits) + low_bits) | word | low_bits);
    // Moves bit 8i to bit 56 + i: the multiplier's bits are 7 apart, so no two products meet.
    ((top_bits_of_zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// The lanes of the upper halves of four words that hold `fingerprint`: bit 4*w* + *i* stands for
/// lane 4 + *i* of word *w*.
#[inline(always)]
pub(super) fn match_upper_halves(words: &[u64; 4], fingerprint: u8) -> u32 {
    let lanes = |low: u64, high: u64| {
        let halves = low >> 32 | high >> 32 << 32;
        u32::from(zero_lanes(halves ^ repeat(fingerprint)))
    };
    lanes(words[0], words[1]) | lanes(words[2], words[3]) << 8
}

/// The lanes of two words that hold `fingerprint`: bit 8*w* + *i* stands for lane *i* of word *w*.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn match_two_words(words: [u64; 2], fingerprint: u8) -> u32 {
    let [first, second] = words.map(|word| u32::from(zero_lanes(word ^ repeat(fingerprint))));
    first | second << 8
}
