//! Matching a whole line at once.

use super::lanes::{DISPLACED_IN_ALL, LINE_MASK, Sought};
use pmem::sync::AtomicU64;
use std::arch::asm;

/// # Safety
///
/// The processor has AVX-512 F and BW.
#[inline]
pub(super) unsafe fn match_line(line: &[AtomicU64; 8], sought: Sought) -> u64 {
    let matches;
    // SAFETY: the caller vouches for the instructions. Reads constants, the fingerprint and the
    // line's 64 bytes, which the references keep in place. The line may be read while it is
    // written, since the block stands for relaxed loads of its words. Needs no alignment. Writes
    // nothing but registers, and names all it changes. Of the registers from 16 up SSE code knows
    // nothing, so none of them makes it stall and no `vzeroupper` is due.
    unsafe {
        asm!(
            "kmovq k1, {far}",
            "vpbroadcastb zmm16, byte ptr [{print}]",
            "vpaddb zmm16{{k1}}, zmm16, [rip + {displaced}]",
            "vpxorq zmm16, zmm16, [{line}]",
            "vptestnmb k1, zmm16, [rip + {mask}]",
            "kmovq {matches}, k1",
            print = in(reg) sought.print,
            far = in(reg) sought.far(),
            line = in(reg) line,
            displaced = sym DISPLACED_IN_ALL,
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
pub(super) unsafe fn scan_line(line: &[AtomicU64; 8], sought: Sought) -> (u64, u64) {
    let (matches, empties);
    // SAFETY: as in `match_line`; the line is loaded once.
    unsafe {
        asm!(
            "kmovq k1, {far}",
            "vpbroadcastb zmm16, byte ptr [{print}]",
            "vpaddb zmm16{{k1}}, zmm16, [rip + {displaced}]",
            "vmovdqu64 zmm17, [{line}]",
            "vpandq zmm17, zmm17, [rip + {mask}]",
            "vptestnmb k2, zmm17, zmm17",
            "vpxorq zmm16, zmm16, zmm17",
            "vptestnmb k1, zmm16, [rip + {mask}]",
            "kmovq {empties}, k2",
            "kmovq {matches}, k1",
            print = in(reg) sought.print,
            far = in(reg) sought.far(),
            line = in(reg) line,
            displaced = sym DISPLACED_IN_ALL,
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
