//! How fast several threads together do something.

use std::ops::AddAssign;
use std::time::Duration;

/// From when to when a thread was at it, as times since some moment that all threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
}

/// How many operations took how long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tempo {
    pub(crate) operations: u64,
    elapsed: Duration,
}

impl Tempo {
    /// Operations done in these spans. Time counts while any thread is at it, so that what the
    /// threads do besides is left out, and threads that take turns on few processors are not taken
    /// for threads that run at once.
    pub(crate) fn over(operations: u64, mut spans: Vec<Span>) -> Self {
        spans.sort_unstable();
        let mut elapsed = Duration::ZERO;
        let mut counted_until = Duration::ZERO;
        for span in spans {
            elapsed += span.ended.saturating_sub(span.began.max(counted_until));
            counted_until = counted_until.max(span.ended);
        }
        Tempo { operations, elapsed }
    }

    pub(crate) fn per_second(self) -> f64 {
        if self.elapsed.is_zero() {
            return 0.0;
        }
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

impl AddAssign for Tempo {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.elapsed += other.elapsed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_once_however_many_threads_are_at_it() {
        let spans = [(5, 7), (1, 3), (2, 4), (6, 7), (20, 20), (21, 22)];
        let spans = spans.map(|(began, ended)| Span {
            began: Duration::from_secs(began),
            ended: Duration::from_secs(ended),
        });
        let mut tempo = Tempo::over(12, spans.to_vec());
        assert_eq!(tempo.per_second(), 2.0);
        tempo += Tempo::over(12, spans[..1].to_vec());
        assert_eq!(tempo.per_second(), 3.0);
        assert_eq!(Tempo::over(0, Vec::new()).per_second(), 0.0);
    }
}
