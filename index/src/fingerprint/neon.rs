//! Matching a quarter of a line at once.

use super::lanes::{Differences, LINE_MASK};
use pmem::sync::AtomicU64;
use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vceqq_u8, vceqzq_u8, vdupq_n_u8, veorq_u8, vgetq_lane_u64, vld1q_u8,
    vpaddq_u8, vreinterpretq_u64_u8,
};
use std::arch::asm;

/// The bit that a lane gets in its byte of the answer.
static LANE_BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn match_line(line: &[AtomicU64; 8], fingerprint: u8, differences: &Differences) -> u64 {
    let [first, second, third, fourth] = load(line);
    // SAFETY: a part is less than 4: these are 16 of 64 bytes.
    let quarter = |of: &Differences, part: usize| unsafe {
        vld1q_u8(of.0.as_ptr().cast::<u8>().add(16 * part))
    };
    // SAFETY: the bits are 16 bytes.
    let lane_bits = unsafe { vld1q_u8(LANE_BITS.as_ptr()) };
    let fingerprint = vdupq_n_u8(fingerprint);
    let wanted = |part| veorq_u8(fingerprint, quarter(differences, part));
    let first = vceqzq_u8(vandq_u8(veorq_u8(first, wanted(0)), quarter(&LINE_MASK, 0)));
    let second = vceqq_u8(second, wanted(1));
    let third = vceqq_u8(third, wanted(2));
    let fourth = vceqq_u8(fourth, wanted(3));
    // Three rounds of adding neighbours gather the bits of eight lanes into one byte.
    let halves = vpaddq_u8(
        vpaddq_u8(vandq_u8(first, lane_bits), vandq_u8(second, lane_bits)),
        vpaddq_u8(vandq_u8(third, lane_bits), vandq_u8(fourth, lane_bits)),
    );
    vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(halves, halves)))
}

#[inline(always)]
fn load(line: &[AtomicU64; 8]) -> [uint8x16_t; 4] {
    let (first, second, third, fourth);
    // SAFETY: reads the line's 64 bytes, which the reference keeps in place and which may be
    // read while they are written, since the block stands for relaxed loads of its words.
    // Writes nothing but its outputs; the reference's alignment to words is more than it needs.
    unsafe {
        asm!(
            "ldp {first:q}, {second:q}, [{line}]",
            "ldp {third:q}, {fourth:q}, [{line}, #32]",
            line = in(reg) line,
            first = out(vreg) first,
            second = out(vreg) second,
            third = out(vreg) third,
            fourth = lateout(vreg) fourth,
            options(nostack, preserves_flags, readonly),
        );
    }
    [first, second, third, fourth]
}
