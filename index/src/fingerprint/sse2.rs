//! Matching a quarter of a line at once, or a word.

use super::lanes::{Differences, LINE_MASK, repeat};
use pmem::sync::AtomicU64;
use std::arch::asm;
use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi8, _mm_cvtsi64_si128,
    _mm_load_si128, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi32, _mm_set1_epi64x,
    _mm_setzero_si128, _mm_shuffle_ps, _mm_xor_si128,
};

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn match_line(line: &[AtomicU64; 8], fingerprint: u8, differences: &Differences) -> u64 {
    let fingerprint = _mm_set1_epi64x(repeat(fingerprint) as i64);
    // SAFETY: a part is less than 4: these are 16 of 64 aligned, constant bytes.
    let quarter = |of: &Differences, part: usize| unsafe {
        _mm_load_si128(of.0.as_ptr().cast::<__m128i>().add(part))
    };
    let wanted = |part| _mm_xor_si128(fingerprint, quarter(differences, part));
    let [first, second, third, fourth] = load(line);
    let first_difference = _mm_and_si128(_mm_xor_si128(first, wanted(0)), quarter(&LINE_MASK, 0));
    bits(_mm_cmpeq_epi8(first_difference, _mm_setzero_si128()))
        | bits(_mm_cmpeq_epi8(second, wanted(1))) << 16
        | bits(_mm_cmpeq_epi8(third, wanted(2))) << 32
        | bits(_mm_cmpeq_epi8(fourth, wanted(3))) << 48
}

/// The lanes of `word` that are zero: bit *i* stands for lane *i*. As late as the portable one,
/// with two thirds of its instructions.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn zero_lanes(word: u64) -> u8 {
    let zeros = _mm_cmpeq_epi8(_mm_cvtsi64_si128(word as i64), _mm_setzero_si128());
    // Bits 8 to 15 are of the vector's other half.
    bits(zeros) as u8
}

/// The lanes of the upper halves of four words that hold `fingerprint`: bit 4*w* + *i* stands for
/// lane 4 + *i* of word *w*.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn match_upper_halves(words: &[u64; 4], fingerprint: u8) -> u32 {
    const UPPER_HALVES: i32 = 0b11_01_11_01;
    let [first, second, third, fourth] = words.map(|word| word as i64);
    let halves = _mm_castps_si128(_mm_shuffle_ps::<UPPER_HALVES>(
        _mm_castsi128_ps(_mm_set_epi64x(second, first)),
        _mm_castsi128_ps(_mm_set_epi64x(fourth, third)),
    ));
    let wanted = _mm_set1_epi32((repeat(fingerprint) as u32).cast_signed());
    bits(_mm_cmpeq_epi8(halves, wanted)) as u32
}

/// The lanes of two words that hold `fingerprint`: bit 8*w* + *i* stands for lane *i* of word *w*.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn match_two_words(words: [u64; 2], fingerprint: u8) -> u32 {
    let [first, second] = words.map(|word| word as i64);
    let wanted = _mm_set1_epi64x(repeat(fingerprint).cast_signed());
    bits(_mm_cmpeq_epi8(_mm_set_epi64x(second, first), wanted)) as u32
}

#[inline]
#[target_feature(enable = "sse2")]
fn bits(lanes: __m128i) -> u64 {
    _mm_movemask_epi8(lanes) as u64
}

#[inline(always)]
fn load(line: &[AtomicU64; 8]) -> [__m128i; 4] {
    let (first, second, third, fourth);
    // SAFETY: reads the line's 64 bytes, which the reference keeps in place and which may be
    // read while they are written, since the block stands for relaxed loads of its words.
    // Writes nothing but its outputs, needs no alignment.
    unsafe {
        asm!(
            "movdqu {first}, [{line}]",
            "movdqu {second}, [{line} + 16]",
            "movdqu {third}, [{line} + 32]",
            "movdqu {fourth}, [{line} + 48]",
            line = in(reg) line,
            first = out(xmm_reg) first,
            second = out(xmm_reg) second,
            third = out(xmm_reg) third,
            fourth = out(xmm_reg) fourth,
            options(nostack, preserves_flags, readonly),
        );
    }
    [first, second, third, fourth]
}
