//! A thread's share of a workload.

use crate::ParameterError;
use std::ops::Range;

/// One of several equal parts of a workload.
///
/// ```
/// use workload::Part;
///
/// let ranges: Vec<_> = Part::all(3).map(|part| part.range(10)).collect();
/// assert_eq!(ranges, [0..3, 3..6, 6..10]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    index: u64,
    of: u64,
}

impl Part {
    /// The only part of one.
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Part `index`, from 0, of `of` parts.
    pub fn new(index: usize, of: usize) -> Result<Part, ParameterError> {
        if index >= of {
            return Err(ParameterError::Part { index, of });
        }
        Ok(Part { index: index as u64, of: of as u64 })
    }

    /// All parts in order, one for each of `of` threads.
    pub fn all(of: usize) -> impl Iterator<Item = Part> {
        (0..of as u64).map(move |index| Part { index, of: of as u64 })
    }

    /// This part's number, from 0.
    pub fn index(self) -> u64 {
        self.index
    }

    /// The number of parts.
    pub fn of(self) -> u64 {
        self.of
    }

    /// This part of the numbers from 0 to `total`. The parts' ranges are adjacent, and their
    /// sizes differ by at most one.
    pub fn range(self, total: u64) -> Range<u64> {
        let bound =
            |index: u64| (u128::from(total) * u128::from(index) / u128::from(self.of)) as u64;
        bound(self.index)..bound(self.index + 1)
    }
}
