//! Waiting for a pool that another process holds.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use firndex::{Error, OpenError};

use crate::progress::Step;

/// How often the pool is tried.
const PAUSE: Duration = Duration::from_millis(20);
/// Longer than any process lives.
const SECONDS_MAX: f64 = 1e9;

/// Whether to wait, and how long.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Waiting {
    /// If another process holds the pool, wait this long for it [default: 0, an error at once]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<f64>,
}

/// A number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=SECONDS_MAX).contains(number));
    number.ok_or_else(|| format!("expected a number of seconds from 0 to {SECONDS_MAX}"))
}

impl Waiting {
    /// How long to wait.
    pub(crate) fn time(self) -> Duration {
        Duration::from_secs_f64(self.wait.unwrap_or(0.0))
    }

    /// The result of `open` when nobody else holds the pool, or when the time is up. `step` shows that this waits: a
    /// bar beside another one would draw over it.
    pub(crate) fn until_free<T>(
        self,
        path: &Path,
        step: &Step,
        open: impl Fn() -> firndex::Result<T>,
    ) -> firndex::Result<T> {
        let time = self.time();
        let started = Instant::now();
        let mut waits = false;
        loop {
            let opened = open();
            let left = time.saturating_sub(started.elapsed());
            let is_held = matches!(
                opened,
                Err(Error::Open(OpenError::Busy { .. } | OpenError::BusyLog { .. }))
            );
            if !is_held || left.is_zero() {
                return opened;
            }
            if !waits {
                waits = true;
                step.tell(format!("waiting for {}", path.display()));
            }
            std::thread::sleep(PAUSE.min(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn seconds_are_numbers_that_a_clock_can_count() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["-1", "NaN", "inf", "1e10", "soon", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
