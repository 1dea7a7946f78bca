//! What time it is for a cache.
//!
//! The time is the largest that this clock has ever told or that the pool has recorded, the wall clock's, and that of
//! the opening with what has passed since. So it never goes back: what is over stays over. A wall clock that is set
//! back neither brings anything back nor delays the end of what was put for a duration, since what has passed is
//! measured by the clock that also runs while the machine sleeps. One that is set forward ends things early; no value
//! is returned late.

use engines::cache::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds of one of the system's clocks.
fn ms_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1000
        + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// The clocks that it goes by, in milliseconds.
pub(super) trait Sources: Send + Sync {
    /// Since 1970, as the machine is set.
    fn wall(&self) -> u64;
    /// Since the machine was started, asleep or not.
    fn passed(&self) -> u64;
}

/// Those of the system.
#[derive(Debug)]
pub(super) struct System;

impl Sources for System {
    fn wall(&self) -> u64 {
        ms_of(ClockId::Realtime)
    }

    fn passed(&self) -> u64 {
        ms_of(ClockId::Boottime)
    }
}

#[derive(Debug)]
pub(super) struct CacheClock<S> {
    sources: S,
    /// What is to be added to what has passed.
    beginning: u64,
    latest: AtomicU64,
}

impl<S: Sources> CacheClock<S> {
    /// A clock that begins now, and not before `recorded`.
    pub(super) fn new(sources: S, recorded: u64) -> CacheClock<S> {
        let now = sources.wall().max(recorded);
        let beginning = now.saturating_sub(sources.passed());
        CacheClock { sources, beginning, latest: AtomicU64::new(now) }
    }
}

impl<S: Sources> Clock for CacheClock<S> {
    fn now_ms(&self) -> u64 {
        let now = self.sources.wall().max(self.beginning + self.sources.passed());
        let latest = self.latest.load(Ordering::Relaxed);
        if now > latest {
            // Others may have told a later one meanwhile.
            return self.latest.fetch_max(now, Ordering::Relaxed).max(now);
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Hands {
        wall: AtomicU64,
        passed: AtomicU64,
    }

    impl Sources for &Hands {
        fn wall(&self) -> u64 {
            self.wall.load(Ordering::Relaxed)
        }

        fn passed(&self) -> u64 {
            self.passed.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn it_never_goes_back_and_never_stands_still_for_a_clock_that_does() {
        let hands = Hands::default();
        let set = |wall, passed| {
            hands.wall.store(wall, Ordering::Relaxed);
            hands.passed.store(passed, Ordering::Relaxed);
        };
        set(10_000, 500);
        let clock = CacheClock::new(&hands, 0);
        assert_eq!(clock.now_ms(), 10_000);
        // The wall clock is set back by an hour, and five milliseconds pass.
        set(6_400, 505);
        assert_eq!(clock.now_ms(), 10_005);
        // It is set forward.
        set(20_000, 510);
        assert_eq!(clock.now_ms(), 20_000);
        // And back again: what was over stays so.
        set(10_010, 515);
        assert_eq!(clock.now_ms(), 20_000);
        // The machine slept for a minute, and its wall clock with it.
        set(10_010, 60_515);
        assert_eq!(clock.now_ms(), 70_015);
    }

    #[test]
    fn it_begins_where_the_last_one_ended() {
        let hands = Hands::default();
        hands.wall.store(5_000, Ordering::Relaxed);
        let clock = CacheClock::new(&hands, 9_000);
        assert_eq!(clock.now_ms(), 9_000);
        hands.passed.store(100, Ordering::Relaxed);
        assert_eq!(clock.now_ms(), 9_100);
    }
}
