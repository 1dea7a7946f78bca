//! Values that the compiler takes as they are.
//!
//! In a hot path each instruction counts, and so does each register. There the compiler sometimes computes a value once
//! more, or part by part, where it would do better to keep it. For a value that has gone through here it knows no other
//! way to get it. The processor has nothing to do.

/// `word`.
#[inline(always)]
pub fn word(mut word: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: it has no instruction.
    unsafe {
        core::arch::asm!("/* {} */", inlateout(reg) word, options(pure, nomem, nostack, preserves_flags));
    }
    word
}

/// `reference`.
#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
pub fn reference<T>(reference: &T) -> &T {
    let mut address: *const T = reference;
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: it has no instruction.
    unsafe {
        core::arch::asm!("/* {} */", inlateout(reg) address, options(pure, nomem, nostack, preserves_flags));
    }
    // SAFETY: it is still the address of `reference`.
    unsafe { &*address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes() {
        assert_eq!((word(0), word(u64::MAX)), (0, u64::MAX));
        let value = 5;
        assert!(std::ptr::eq(reference(&value), &value));
    }
}
