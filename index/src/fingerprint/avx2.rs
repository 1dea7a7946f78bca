//! Matching half a line at once.

use super::lanes::{LINE_MASK, Sought, ZEROS};
use pmem::sync::AtomicU64;
use std::arch::asm;

/// # Safety
///
/// The processor has AVX2.
#[inline]
pub(super) unsafe fn match_line(line: &[AtomicU64; 8], sought: Sought<'_>) -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the caller vouches for the instructions. Reads a constant, one of 256 prints, one of
    // the entries before them, since `Near` is the beginning of one, and the line's 64 bytes. The
    // references keep all of them in place. The line may be read while it is written, since the
    // block stands for relaxed loads of its words. Needs no alignment. Writes nothing but
    // registers, and names all it changes: `vzeroupper`, without which later SSE code would stall,
    // changes all sixteen. An instruction that writes the low half of a register clears its high half.
    unsafe {
        asm!(
            "vpbroadcastb ymm0, byte ptr [{tables} + {byte} + {prints}]",
            "vpxor ymm1, ymm0, [{tables} + {near} + 32]",
            "vpxor ymm0, ymm0, [{tables} + {near}]",
            "vpcmpeqb ymm1, ymm1, [{line} + 32]",
            "vpxor ymm0, ymm0, [{line}]",
            "vpand ymm0, ymm0, [rip + {mask}]",
            "vpcmpeqb ymm0, ymm0, [rip + {zeros}]",
            "vpmovmskb {high:e}, ymm1",
            "vpmovmskb {low:e}, ymm0",
            "vzeroupper",
            tables = in(reg) sought.tables,
            byte = in(reg) usize::from(sought.byte),
            near = in(reg) sought.near.entry_byte(),
            prints = const Sought::PRINTS,
            line = in(reg) line,
            mask = sym LINE_MASK,
            zeros = sym ZEROS,
            low = lateout(reg) low,
            high = lateout(reg) high,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack, preserves_flags, readonly),
        );
    }
    low | high << 32
}

/// The lanes that hold what is sought, and those that hold 0.
///
/// # Safety
///
/// The processor has AVX2.
#[inline]
pub(super) unsafe fn scan_line(line: &[AtomicU64; 8], sought: Sought<'_>) -> (u64, u64) {
    let (low, high, low_empty, high_empty): (u64, u64, u64, u64);
    // SAFETY: as in `match_line`; the line is loaded once.
    unsafe {
        asm!(
            "vmovdqu ymm1, [{line}]",
            "vmovdqu ymm2, [{line} + 32]",
            "vpbroadcastb ymm0, byte ptr [{tables} + {byte} + {prints}]",
            "vmovdqa ymm4, [rip + {mask}]",
            "vpxor xmm3, xmm3, xmm3",
            "vpand ymm1, ymm1, ymm4",
            "vpxor ymm5, ymm0, [{tables} + {near} + 32]",
            "vpxor ymm0, ymm0, [{tables} + {near}]",
            "vpand ymm4, ymm0, ymm4",
            "vpcmpeqb ymm5, ymm2, ymm5",
            "vpcmpeqb ymm2, ymm2, ymm3",
            "vpcmpeqb ymm3, ymm1, ymm3",
            "vpcmpeqb ymm1, ymm1, ymm4",
            "vpmovmskb {high:e}, ymm5",
            "vpmovmskb {low:e}, ymm1",
            "vpmovmskb {high_empty:e}, ymm2",
            "vpmovmskb {low_empty:e}, ymm3",
            "vzeroupper",
            tables = in(reg) sought.tables,
            byte = in(reg) usize::from(sought.byte),
            near = in(reg) sought.near.entry_byte(),
            prints = const Sought::PRINTS,
            line = in(reg) line,
            mask = sym LINE_MASK,
            low = lateout(reg) low,
            high = lateout(reg) high,
            low_empty = lateout(reg) low_empty,
            high_empty = lateout(reg) high_empty,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack, preserves_flags, readonly),
        );
    }
    (low | high << 32, low_empty | high_empty << 32)
}
