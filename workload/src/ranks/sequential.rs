//! One record after the other.

use super::{Ranks, check_records};
use crate::{ParameterError, Part};
use std::ops::Range;

/// The part's ranks in order, again and again.
#[derive(Debug, Clone)]
pub struct Sequential {
    range: Range<u64>,
    next: u64,
}

impl Sequential {
    /// This part's [range](Part::range) of the ranks below `records`. There must be as many
    /// records as parts, so that none is empty.
    pub fn new(records: u64, part: Part) -> Result<Sequential, ParameterError> {
        let range = part.range(check_records(records)?);
        if range.is_empty() {
            return Err(ParameterError::FewerThanParts { records, parts: part.of() });
        }
        Ok(Sequential { next: range.start, range })
    }
}

impl Ranks for Sequential {
    #[inline]
    fn next_rank(&mut self) -> u64 {
        let rank = self.next;
        self.next = if rank + 1 == self.range.end { self.range.start } else { rank + 1 };
        rank
    }
}
