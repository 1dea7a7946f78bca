//! The processor's time-stamp counter: reading it costs some ten nanoseconds and no system call,
//! so it can measure out delays of a few hundred.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is compared with the system's clock, once per process: the error of reading
/// both, well below a microsecond, is then less than one part in ten thousand.
const CALIBRATION: Duration = Duration::from_millis(10);

/// The counter. It runs at a constant rate whatever the processor's; on processors with separate
/// counters two readings by one thread may go backwards.
#[inline(always)]
pub(super) fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `rdtsc` is part of the x86-64 baseline and reads registers only; Linux leaves it
    // enabled for user code.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads the virtual counter, which Linux leaves enabled for user code.
        unsafe {
            core::arch::asm!("mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }
}

/// Ticks that last at least `ns` nanoseconds, as well as the counter's rate is known. The first call
/// of a process measures the rate, which takes some ten milliseconds.
pub(super) fn from_ns(ns: u64) -> u64 {
    static TICKS_PER_NS: OnceLock<f64> = OnceLock::new();
    (ns as f64 * TICKS_PER_NS.get_or_init(measure_rate)).ceil() as u64
}

fn measure_rate() -> f64 {
    let (instant, ticks) = both_clocks();
    while instant.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (instant_after, ticks_after) = both_clocks();
    let elapsed_ns = instant_after.duration_since(instant).as_nanos();
    ticks_after.wrapping_sub(ticks) as f64 / elapsed_ns as f64
}

/// Both clocks at one moment: the reading least disturbed by interrupts out of several.
fn both_clocks() -> (Instant, u64) {
    let readings = (0..32).map(|_| {
        let before = now();
        let instant = Instant::now();
        let between = now().wrapping_sub(before);
        (between, instant, before.wrapping_add(between / 2))
    });
    let (_, instant, ticks) =
        readings.min_by_key(|&(between, ..)| between).unwrap_or((0, Instant::now(), now()));
    (instant, ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_as_long_as_asked() {
        let ticks = from_ns(20_000_000);
        let (started, from) = (Instant::now(), now());
        while now().wrapping_sub(from) < ticks {}
        assert!(started.elapsed() >= Duration::from_micros(19_900));
    }
}
