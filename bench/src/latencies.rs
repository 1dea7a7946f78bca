//! How long single operations take.
//!
//! The clock is the processor's time-stamp counter, read twice around an operation. That costs some nanoseconds (suite
//! `latency` measures how many), which are part of every latency. The rate of operations that are timed one by one
//! includes them and the upkeep of the histogram.

use crate::crew::{self, Timing};
use crate::row::Row;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use quanta::Clock;

/// Longer latencies are not told apart.
const LONGEST_NS: u64 = 100_000_000_000;
/// Decimal digits to which a latency is known.
const DIGITS: u8 = 3;

/// A distribution of latencies.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    /// No latencies yet.
    pub fn new() -> Result<Latencies> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .context("making room for a histogram")?;
        Ok(Latencies { histogram })
    }

    /// Adds a latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: &Latencies) -> Result<()> {
        self.histogram.add(&other.histogram).context("adding up histograms")
    }

    /// Adds the percentiles that are meaningful for a disk.
    #[must_use]
    pub(crate) fn on_disk(&self, row: Row) -> Row {
        let p999_ns = Some(self.histogram.value_at_quantile(0.999) as f64);
        Row { p999_ns, ..self.on(row) }
    }

    /// Adds the percentiles.
    #[must_use]
    pub fn on(&self, row: Row) -> Row {
        let at = |quantile| Some(self.histogram.value_at_quantile(quantile) as f64);
        Row {
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p9999_ns: at(0.9999),
            max_ns: Some(self.histogram.max() as f64),
            ..row
        }
    }
}

/// One timed operation, as an observer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Timed {
    /// When it ended, in the clock's own unit.
    pub ended: u64,
    /// How long it took.
    pub ns: u64,
}

/// Does `operation` on each of `words`, timing every `EVERY`-th; returns the number of wrong
/// answers.
#[inline(always)]
pub fn observe<const EVERY: usize, W: Copy>(
    clock: &Clock,
    words: &[W],
    operation: impl Fn(W) -> bool,
    mut observer: impl FnMut(Timed),
) -> u64 {
    let mut wrong = 0;
    for (index, &word) in words.iter().enumerate() {
        if index % EVERY != 0 {
            wrong += u64::from(!operation(word));
            continue;
        }
        let started = clock.raw();
        let right = operation(word);
        let ended = clock.raw();
        observer(Timed { ended, ns: clock.delta_as_nanos(started, ended) });
        wrong += u64::from(!right);
    }
    wrong
}

/// Works through `words` with `threads` threads, timing every `EVERY`-th operation. Any wrong answer is an error.
pub fn measure<const EVERY: usize>(
    op: &str,
    words: &[u64],
    threads: usize,
    clock: &Clock,
    operation: impl Fn(u64) -> bool + Sync,
) -> Result<(Latencies, Timing)> {
    let parts = crew::split(words, threads);
    let inputs = parts.into_iter().map(|part| Ok((part, Latencies::new()?)));
    let (done, timing) = crew::run(inputs.collect::<Result<_>>()?, |(part, mut latencies)| {
        let record = |timed: Timed| latencies.record(timed.ns);
        let wrong = observe::<EVERY, u64>(clock, part, &operation, record);
        (wrong, latencies)
    })?;
    let mut all = Latencies::new()?;
    let mut wrong = 0;
    for (part_wrong, latencies) in &done {
        wrong += part_wrong;
        all.merge(latencies)?;
    }
    crew::refuse_wrong(op, wrong, words.len() as u64)?;
    Ok((all, timing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn percentiles_of_several_threads_are_those_of_all() {
        let [mut short, mut long] = [(); 2].map(|()| Latencies::new().unwrap());
        (0..98).for_each(|_| short.record(100));
        (0..2).for_each(|_| long.record(20_000_000));
        short.merge(&long).unwrap();
        let row = short.on(Row::new("latency", "nap", "test"));
        let found = [row.p50_ns, row.p99_ns, row.max_ns].map(Option::unwrap);
        for (found, expected) in found.into_iter().zip([100.0, 20e6, 20e6]) {
            assert!((found / expected - 1.0).abs() < 0.01, "{row:?}");
        }
    }

    #[test]
    fn operations_of_all_threads_are_timed_and_wrong_answers_refused() {
        let clock = Clock::new();
        let words: Vec<u64> = (0..40).collect();
        let sleep = |word| {
            if word == 20 {
                std::thread::sleep(Duration::from_millis(20));
            }
            true
        };
        let (latencies, timing) = measure::<1>("nap", &words, 2, &clock, sleep).unwrap();
        let row = latencies.on(Row::new("latency", "nap", "test"));
        assert_eq!(latencies.histogram.len(), 40);
        assert!(row.max_ns.unwrap() >= 20e6, "{row:?}");
        assert!(timing.elapsed_s >= 0.02);
        let (latencies, _) = measure::<16>("nap", &words, 2, &clock, |_| true).unwrap();
        assert_eq!(latencies.histogram.len(), 4);
        let error = measure::<16>("nap", &words, 2, &clock, |word| word % 2 == 0).unwrap_err();
        assert!(error.to_string().contains("20 of 40"), "{error}");
    }
}
