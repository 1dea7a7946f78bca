//! What flush and fence are on memory.

use std::sync::atomic::{Ordering, compiler_fence};

/// How lines reach the place where they survive. Known at run time only: engines are compiled once for all memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheFlush {
    /// `clwb`: writes back and keeps the line cached.
    Clwb,
    /// `clflushopt`: writes back and evicts.
    Clflushopt,
    /// `clflush`: writes back, evicts, and waits for each line.
    Clflush,
    /// `dc cvap` on Arm.
    CleanToPersistence,
    /// The platform flushes its caches on power loss (eADR): only order matters.
    FenceOnly,
    /// The kernel keeps what was stored, in program order, whatever happens to the process: nothing has to be
    /// written back, but the compiler must not reorder either.
    Nothing,
    /// As `Nothing`, and what is flushed is appended to a [`LineLog`](crate::line_log::LineLog), which makes it survive
    /// power loss.
    Logged,
}

impl CacheFlush {
    /// The best that this machine has; `None` where no instruction reaches persistence.
    pub fn detect() -> Option<CacheFlush> {
        if caches_are_durable() {
            return Some(CacheFlush::FenceOnly);
        }
        CacheFlush::available().into_iter().next()
    }

    /// The flush instructions of this processor, best first.
    pub fn available() -> Vec<CacheFlush> {
        #[cfg(target_arch = "x86_64")]
        {
            let leaf_7 = if std::arch::x86_64::__cpuid(0).eax >= 7 {
                std::arch::x86_64::__cpuid_count(7, 0).ebx
            } else {
                0
            };
            let mut found = Vec::new();
            if leaf_7 & (1 << 24) != 0 {
                found.push(CacheFlush::Clwb);
            }
            if leaf_7 & (1 << 23) != 0 {
                found.push(CacheFlush::Clflushopt);
            }
            found.push(CacheFlush::Clflush);
            found
        }
        #[cfg(target_arch = "aarch64")]
        {
            if std::arch::is_aarch64_feature_detected!("dpb") {
                vec![CacheFlush::CleanToPersistence]
            } else {
                Vec::new()
            }
        }
    }
}

/// Whether every persistent memory region says that caches are inside its persistence domain.
fn caches_are_durable() -> bool {
    let Ok(devices) = std::fs::read_dir("/sys/bus/nd/devices") else {
        return false;
    };
    let mut domains = devices
        .flatten()
        .filter_map(|device| std::fs::read_to_string(device.path().join("persistence_domain")).ok())
        .peekable();
    domains.peek().is_some() && domains.all(|domain| domain.trim() == "cpu_cache")
}

impl CacheFlush {
    /// Starts writing back the line that `line` points into.
    ///
    /// # Safety
    ///
    /// `line` points into mapped memory.
    #[inline(always)]
    pub unsafe fn flush(self, line: *const u8) {
        if self == CacheFlush::Nothing {
            return compiler_fence(Ordering::SeqCst);
        }
        // SAFETY: passed on to the caller.
        unsafe { self.write_back(line) };
    }

    /// Completes this thread's flushes.
    #[inline(always)]
    pub fn fence(self) {
        match self {
            CacheFlush::Nothing | CacheFlush::Logged => compiler_fence(Ordering::SeqCst),
            _ => drain(),
        }
    }

    /// A call, where there is something to write back: it takes far less than that, and less room in every engine.
    ///
    /// # Safety
    ///
    /// As for [`CacheFlush::flush`].
    #[inline(never)]
    unsafe fn write_back(self, line: *const u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: flush instructions change no value in memory and fault only on unmapped
        // addresses, which the caller excludes; the variant was chosen by what cpuid reports.
        unsafe {
            use core::arch::asm;
            match self {
                CacheFlush::Clwb => {
                    asm!("clwb [{line}]", line = in(reg) line, options(nostack, preserves_flags));
                }
                CacheFlush::Clflushopt => {
                    asm!("clflushopt [{line}]", line = in(reg) line, options(nostack, preserves_flags));
                }
                CacheFlush::Clflush => core::arch::x86_64::_mm_clflush(line),
                _ => compiler_fence(Ordering::SeqCst),
            }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            use core::arch::asm;
            match self {
                CacheFlush::CleanToPersistence => {
                    asm!("sys #3, c7, c12, #1, {line}", line = in(reg) line, options(nostack, preserves_flags));
                }
                _ => compiler_fence(Ordering::SeqCst),
            }
        }
    }
}

/// Waits for the flushes of this thread.
#[inline(always)]
fn drain() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `sfence` is part of the x86-64 baseline and only orders stores and flushes.
    unsafe {
        core::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier changes no state.
    unsafe {
        core::arch::asm!("dsb ish", options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_instruction_runs_and_keeps_the_line() {
        let line = std::hint::black_box(Box::new([7u64; 8]));
        for kind in
            CacheFlush::available().into_iter().chain([CacheFlush::FenceOnly, CacheFlush::Nothing])
        {
            // SAFETY: `line` is live memory.
            unsafe { kind.flush(line.as_ptr().cast()) };
            kind.fence();
            assert_eq!(*line, [7; 8], "{kind:?}");
        }
    }
}
