//! Hints that memory is about to be used.

/// Hints that the line with `address` is about to be read. Any address will do.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes no value.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

/// Hints that the line with `address` is about to be written. Any address will do.
#[inline(always)]
pub fn prefetch_write<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes no value; processors without `prefetchw`
    // treat its encoding as no operation.
    unsafe {
        core::arch::asm!("prefetchw [{line}]", line = in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{line}]", line = in(reg) address, options(nostack, preserves_flags, readonly));
    }
}
