//! Two adjacent words read in one step.
//!
//! The load is assembly: Rust has no 16-byte atomics, and a location may not be accessed with
//! 8- and 16-byte Rust atomics both. A reader of a key and its value needs the pair as it stood
//! at one instant; two 8-byte loads could meet the key of one pair and the value of the next.

/// Whether this processor loads 16 aligned bytes atomically.
///
/// x86-64: guaranteed by Intel and AMD where AVX exists, and with it SSE4.1, which [`load`] needs. AArch64: by LSE2.
pub fn is_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx")
        && std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("lse2");
}

/// The two words at `at`, read in one step, with acquire ordering.
///
/// # Safety
///
/// `at` points to 16 readable bytes aligned to 16, and [`is_supported`] holds.
#[inline(always)]
pub unsafe fn load(at: *const u64) -> (u64, u64) {
    let (low, high): (u64, u64);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the address, and for the instructions; the block
    // writes registers only. It is left without `readonly` so that the compiler moves no later
    // load before it (acquire; on this architecture the processor keeps loads in order by itself).
    unsafe {
        core::arch::asm!(
            "movdqa {pair}, [{at}]",
            "movq {low}, {pair}",
            "pextrq {high}, {pair}, 1",
            at = in(reg) at,
            pair = out(xmm_reg) _,
            low = out(reg) low,
            high = lateout(reg) high,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; `dmb ishld` orders the load before every later access.
    unsafe {
        core::arch::asm!(
            "ldp {low}, {high}, [{at}]",
            "dmb ishld",
            at = in(reg) at,
            low = out(reg) low,
            high = out(reg) high,
            options(nostack, preserves_flags),
        );
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[repr(align(16))]
    struct Pair([AtomicU64; 2]);

    #[test]
    fn loads_both_words() {
        let pair = Pair([AtomicU64::new(7), AtomicU64::new(u64::MAX)]);
        assert!(is_supported());
        // SAFETY: `pair` is 16 bytes aligned to 16.
        let loaded = unsafe { load(pair.0.as_ptr().cast()) };
        assert_eq!(loaded, (7, u64::MAX));
        pair.0[1].store(1, Ordering::Relaxed);
        // SAFETY: as above.
        assert_eq!(unsafe { load(pair.0.as_ptr().cast()) }, (7, 1));
    }
}
