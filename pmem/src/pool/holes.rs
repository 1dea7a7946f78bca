//! Ranges of a pool that have no space of its file.
//!
//! Whoever reads the whole pool leaves them out. On tmpfs a look at a hole takes space for it, and ends the process
//! with SIGBUS if there is none.

use super::Pool;
use crate::error::SpaceError;
use crate::medium::Medium;
use std::collections::BTreeMap;
use std::ops::Range;

/// Holes by their beginnings, with their ends.
#[derive(Debug, Default)]
pub(super) struct Holes(BTreeMap<u64, u64>);

impl Holes {
    /// Adds a range that is in none of them.
    fn add(&mut self, mut range: Range<u64>) {
        if let Some((&start, &end)) = self.0.range(..range.start).next_back()
            && end == range.start
        {
            range.start = start;
        }
        if let Some(end) = self.0.remove(&range.end) {
            range.end = end;
        }
        self.0.insert(range.start, range.end);
    }

    fn remove(&mut self, range: &Range<u64>) {
        for hole in self.overlapping(range) {
            self.0.remove(&hole.start);
            for rest in [hole.start..range.start, range.end..hole.end] {
                if !rest.is_empty() {
                    self.0.insert(rest.start, rest.end);
                }
            }
        }
    }

    /// Those of which a part is in this range.
    pub(super) fn overlapping(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let before = self.0.range(..range.start).next_back().filter(|(_, end)| **end > range.start);
        let inside = self.0.range(range.start..range.end);
        before.into_iter().chain(inside).map(|(&start, &end)| start..end).collect()
    }
}

impl<M: Medium> Pool<M> {
    /// Gives the space of a range back to the system, if it takes any; whether it has.
    pub(crate) fn give_back(&self, range: Range<u64>) -> bool {
        let mut holes = self.holes.lock();
        let is_hole = self.medium.give_back(range.clone());
        if is_hole {
            holes.add(range);
        }
        is_hole
    }

    /// Takes space again for a range that was given back.
    pub(crate) fn take_back(&self, range: Range<u64>) -> Result<(), SpaceError> {
        let mut holes = self.holes.lock();
        self.medium.take_back(range.clone())?;
        holes.remove(&range);
        Ok(())
    }

    /// Notes a range that was given back in an earlier opening.
    pub(crate) fn note_hole(&self, range: Range<u64>) {
        self.holes.lock().add(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_join_and_are_filled_in_parts() {
        let mut holes = Holes::default();
        let in_range = |holes: &Holes, range: Range<u64>| -> Vec<(u64, u64)> {
            holes.overlapping(&range).into_iter().map(|hole| (hole.start, hole.end)).collect()
        };
        [10..20, 30..40, 20..30].into_iter().for_each(|range| holes.add(range));
        assert_eq!(in_range(&holes, 0..100), [(10, 40)]);
        assert_eq!(in_range(&holes, 39..41), [(10, 40)]);
        assert_eq!(in_range(&holes, 0..10), []);
        assert_eq!(in_range(&holes, 40..41), []);
        [15..20, 35..40, 50..60].iter().for_each(|range| holes.remove(range));
        assert_eq!(in_range(&holes, 0..100), [(10, 15), (20, 35)]);
        holes.remove(&(12..30));
        assert_eq!(in_range(&holes, 0..100), [(10, 12), (30, 35)]);
    }
}
