//! How often keys were put or asked for lately, those that are not there among them: a count-min sketch (Cormode,
//! Muthukrishnan 2005) whose counters for a key lie in one line, as in TinyLFU's implementations (Einziger, Friedman,
//! Manes 2017).
//!
//! Counters are changed without a lock. An increment that is lost makes a key seem a little less popular.

use pmem::sync::{Array, AtomicU8, AtomicU64, Ordering};
use std::io;

/// Counters of a line, one byte each.
const LINE: u64 = 64;
/// Counters of a key, each in a part of the line of its own.
const ROWS: u64 = 4;
/// Most that is counted.
const COUNT_MAX: u8 = 60;

#[derive(Debug)]
pub(super) struct Sketch {
    counters: Array<AtomicU8>,
    lines: u64,
    /// The next line to be halved.
    next: AtomicU64,
}

impl Sketch {
    /// One of about so many counters.
    pub(super) fn new(counters: u64) -> io::Result<Sketch> {
        let lines = (counters / LINE).max(1);
        let len = (lines * LINE) as usize;
        Ok(Sketch { counters: Array::reserve(len, len)?, lines, next: AtomicU64::new(0) })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lines * LINE
    }

    fn line(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.lines)) >> 64) as u64 * LINE
    }

    /// Places of a key's counters.
    #[inline(always)]
    fn places(&self, hash: u64) -> [usize; ROWS as usize] {
        let line = self.line(hash);
        // Not the highest bits, which have chosen the line.
        let places = hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
        let mut all = [0; ROWS as usize];
        for (row, at) in (0..).zip(&mut all) {
            *at = (line + row * (LINE / ROWS) + (places >> (8 * row) & (LINE / ROWS - 1))) as usize;
        }
        all
    }

    pub(super) fn prefetch(&self, hash: u64) {
        self.counters.prefetch(self.line(hash) as usize);
    }

    /// Counts a key `times` more; returns its count.
    pub(super) fn add(&self, hash: u64, times: u8) -> u8 {
        let places = self.places(hash);
        let count_at = |place: &usize| self.counters.get(*place).load(Ordering::Relaxed);
        let least = places.iter().map(count_at).min().unwrap_or(0);
        let count = least.saturating_add(times).min(COUNT_MAX);
        for place in &places {
            if count_at(place) < count {
                self.counters.get(*place).store(count, Ordering::Relaxed);
            }
        }
        count
    }

    /// Halves the counters of this part of all lines, those that were halved longest ago.
    pub(super) fn age(&self, part: f64) {
        let lines = (self.lines as f64 * part.clamp(0.0, 1.0)) as u64;
        let first = self.next.fetch_add(lines, Ordering::Relaxed);
        for line in first..first + lines {
            let line = line % self.lines * LINE;
            for place in line..line + LINE {
                let counter = self.counters.get(place as usize);
                counter.store(counter.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::mix;

    #[test]
    fn counts_are_never_too_low_and_seldom_too_high() {
        let sketch = Sketch::new(16_000).unwrap();
        for key in 0..1000u64 {
            (0..=key % 5).for_each(|_| assert!(sketch.add(mix(key), 1) > 0));
        }
        let exact = |key: u64| (key % 5) as u8 + 1;
        assert!((0..1000).all(|key| sketch.add(mix(key), 0) >= exact(key)));
        let too_high = (0..1000).filter(|key| sketch.add(mix(*key), 0) > exact(*key)).count();
        assert!(too_high < 100, "{too_high}");
        sketch.add(mix(3), 200);
        assert_eq!(sketch.add(mix(3), 0), COUNT_MAX);
    }

    #[test]
    fn all_counters_are_halved_in_turn() {
        let sketch = Sketch::new(6400).unwrap();
        (0..100u64).for_each(|key| assert_eq!(sketch.add(mix(key), 8), 8));
        (0..4).for_each(|_| sketch.age(0.25));
        assert!((0..100).all(|key| sketch.add(mix(key), 0) == 4));
    }
}
