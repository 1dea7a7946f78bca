//! Matching a whole line at once.

use super::lanes::{LINE_MASK, Sought};
use pmem::sync::AtomicU64;
use std::arch::asm;

/// # Safety
///
/// The processor has AVX-512 F and BW.
#[inline]
pub(super) unsafe fn match_line(line: &[AtomicU64; 8], sought: Sought<'_>) -> u64 {
    let matches;
    // SAFETY: the caller vouches for the instructions. Reads a constant, one of 256 prints, one of
    // the entries before them, since `Near` is the beginning of one, and the line's 64 bytes. The
    // references keep all of them in place. The line may be read while it is written, since the
    // block stands for relaxed loads of its words. Needs no alignment. Writes nothing but
    // registers, and names all it changes. Of the registers from 16 up SSE code knows nothing, so
    // none of them makes it stall and no `vzeroupper` is due.
    unsafe {
        asm!(
            "vpbroadcastb zmm16, byte ptr [{tables} + {byte} + {prints}]",
            "vpxorq zmm16, zmm16, [{tables} + {near}]",
            "vpxorq zmm16, zmm16, [{line}]",
            "vptestnmb k1, zmm16, [rip + {mask}]",
            "kmovq {matches}, k1",
            tables = in(reg) sought.tables,
            byte = in(reg) usize::from(sought.byte),
            near = in(reg) sought.near.entry_byte(),
            prints = const Sought::PRINTS,
            line = in(reg) line,
            mask = sym LINE_MASK,
            matches = lateout(reg) matches,
            out("zmm16") _,
            out("k1") _,
            options(nostack, preserves_flags, readonly),
        );
    }
    matches
}

/// The lanes that hold what is sought, and those that hold 0.
///
/// # Safety
///
/// The processor has AVX-512 F and BW.
#[inline]
pub(super) unsafe fn scan_line(line: &[AtomicU64; 8], sought: Sought<'_>) -> (u64, u64) {
    let (matches, empties);
    // SAFETY: as in `match_line`; the line is loaded once.
    unsafe {
        asm!(
            "vpbroadcastb zmm16, byte ptr [{tables} + {byte} + {prints}]",
            "vpxorq zmm16, zmm16, [{tables} + {near}]",
            "vmovdqu64 zmm17, [{line}]",
            "vpandq zmm17, zmm17, [rip + {mask}]",
            "vptestnmb k2, zmm17, zmm17",
            "vpxorq zmm16, zmm16, zmm17",
            "vptestnmb k1, zmm16, [rip + {mask}]",
            "kmovq {empties}, k2",
            "kmovq {matches}, k1",
            tables = in(reg) sought.tables,
            byte = in(reg) usize::from(sought.byte),
            near = in(reg) sought.near.entry_byte(),
            prints = const Sought::PRINTS,
            line = in(reg) line,
            mask = sym LINE_MASK,
            matches = lateout(reg) matches,
            empties = lateout(reg) empties,
            out("zmm16") _, out("zmm17") _,
            out("k1") _, out("k2") _,
            options(nostack, preserves_flags, readonly),
        );
    }
    (matches, empties)
}
