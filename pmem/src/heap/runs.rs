//! Runs of free segments.

use std::collections::BTreeMap;
use std::ops::Range;

/// Most places that are compared before one is taken.
const PLACES_LOOKED_AT: usize = 64;

/// Runs of free segments, and a window of segments that is being emptied, from which none is taken.
#[derive(Debug, Default)]
pub(super) struct FreeRuns {
    /// First segment to length.
    runs: BTreeMap<u64, u64>,
    window: Range<u64>,
}

impl FreeRuns {
    /// Adds a run, and joins it with its neighbours.
    pub(super) fn add(&mut self, first: u64, count: u64) {
        let (mut start, mut len) = (first, count);
        if let Some((&before, &before_len)) = self.runs.range(..first).next_back()
            && before + before_len == first
        {
            start = before;
            len += before_len;
        }
        if let Some(after_len) = self.runs.remove(&(first + count)) {
            len += after_len;
        }
        self.runs.insert(start, len);
    }

    /// Forgets all runs; returns how many segments they had.
    pub(super) fn clear(&mut self) -> u64 {
        std::mem::take(&mut self.runs).into_values().sum()
    }

    /// Takes `count` consecutive segments outside the window.
    pub(super) fn take(&mut self, count: u64) -> Option<u64> {
        let (run, first) = self.find(count)?;
        Some(self.take_at(run, first, count).0)
    }

    /// Takes `count` segments out of a run, from `first` on.
    pub(super) fn take_at(&mut self, run: u64, first: u64, count: u64) -> (u64, u64) {
        let len = self.runs.remove(&run).unwrap_or(0);
        if first > run {
            self.runs.insert(run, first - run);
        }
        let (end, rest) = (run + len, first + count);
        if end > rest {
            self.runs.insert(rest, end - rest);
        }
        (first, count)
    }

    /// A place for `count` segments outside the window: the run, and where in it. It is the shortest of the first few
    /// places that suffice, so that long ones stay for items that need them.
    fn find(&self, count: u64) -> Option<(u64, u64)> {
        let window = &self.window;
        let places = self.runs.iter().flat_map(|(&start, &len)| {
            let end = start + len;
            let is_apart = window.is_empty() || end <= window.start || window.end <= start;
            let parts = match is_apart {
                true => [start..end, end..end],
                false => [start..window.start.max(start), window.end.min(end)..end],
            };
            parts.map(|part| (part.end.saturating_sub(part.start), start, part.start))
        });
        let fitting = places.filter(|&(len, ..)| len >= count).take(PLACES_LOOKED_AT);
        fitting.min().map(|(_, start, first)| (start, first))
    }

    /// First segment and length of the last run.
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.runs.last_key_value().map(|(&first, &len)| (first, len))
    }

    /// Length of the longest run.
    pub(super) fn longest(&self) -> u64 {
        self.runs.values().copied().max().unwrap_or(0)
    }

    /// Whether there are `count` consecutive free segments outside the window.
    pub(super) fn has(&self, count: u64) -> bool {
        self.find(count).is_some()
    }

    /// Keeps these segments from being taken; an empty window keeps none.
    pub(super) fn set_window(&mut self, window: Range<u64>) {
        self.window = window;
    }

    /// First segments and lengths.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(&first, &len)| (first, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(of: &[(u64, u64)]) -> FreeRuns {
        let mut runs = FreeRuns::default();
        of.iter().for_each(|&(first, count)| runs.add(first, count));
        runs
    }

    #[test]
    fn runs_are_joined_and_taken_from_their_beginnings() {
        let mut free = runs(&[(4, 2), (8, 2), (6, 2)]);
        assert_eq!(free.iter().collect::<Vec<_>>(), [(4, 6)]);
        assert_eq!(free.take(5), Some(4));
        assert_eq!(free.take(2), None);
        assert_eq!(free.take(1), Some(9));
        assert_eq!(free.iter().count(), 0);
    }

    #[test]
    fn the_shortest_run_that_suffices_is_taken() {
        let mut free = runs(&[(0, 9), (20, 3), (30, 4)]);
        assert_eq!(
            [free.take(3), free.take(3), free.take(1), free.take(9)],
            [20, 30, 33, 0].map(Some)
        );
        assert_eq!(free.longest(), 0);
    }

    #[test]
    fn nothing_is_taken_from_a_window() {
        for (window, takes) in [
            (0..30, vec![]),
            (10..14, vec![14, 16, 18]),
            (16..20, vec![10, 12, 14]),
            (12..15, vec![10, 15, 17]),
            (20..30, vec![10, 12, 14, 16, 18]),
        ] {
            let mut free = runs(&[(10, 10)]);
            free.set_window(window.clone());
            assert!(free.has(2) != takes.is_empty());
            let taken: Vec<u64> = std::iter::from_fn(|| free.take(2)).collect();
            assert_eq!(taken, takes, "{window:?}");
            free.set_window(0..0);
            taken.into_iter().for_each(|first| free.add(first, 2));
            assert_eq!(free.iter().collect::<Vec<_>>(), [(10, 10)]);
        }
    }
}
